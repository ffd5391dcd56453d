//! The wire form of reviews: `AdmissionReview` of `admission.k8s.io/v1`, read as loosely as can be, and its answer.

use k8s_openapi::ByteString;
use model::ResourceList;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::Problem;
use crate::patch::Operation;

/// A review of an object that is read as `O`.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "O: Default + Deserialize<'de>"))]
pub(crate) struct Review<O> {
    pub(crate) request: Option<Request<O>>,
}

/// What is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request<O> {
    pub(crate) uid: Option<String>,
    pub(crate) resource: Option<GroupResource>,
    /// As the client named it, before any conversion.
    #[serde(rename = "requestKind")]
    pub(crate) original_kind: Option<GroupKind>,
    pub(crate) kind: Option<GroupKind>,
    pub(crate) sub_resource: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) operation: Option<String>,
    pub(crate) object: Option<O>,
    pub(crate) old_object: Option<O>,
}

/// The part of a review by which its answer is known.
#[derive(Debug, Deserialize)]
struct Identified {
    request: Option<Identity>,
}

#[derive(Debug, Deserialize)]
struct Identity {
    uid: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupResource {
    pub(crate) group: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) resource: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupKind {
    pub(crate) group: Option<String>,
    pub(crate) kind: Option<String>,
}

/// `resources` of a container. A map that is absent is not the same as one that is empty.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Requirements {
    pub(crate) requests: Option<ResourceList>,
    pub(crate) limits: Option<ResourceList>,
}

/// What is answered.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// How the object is changed.
    pub(crate) patch: Vec<Operation>,
    /// What the user is told.
    pub(crate) warnings: Vec<String>,
    /// Why the object is refused; it is admitted if there is no reason.
    pub(crate) problems: Vec<Problem>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    api_version: &'a str,
    kind: &'a str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

/// The answer with this verdict, which is not refused where `status` is absent.
pub(crate) fn answer(uid: &str, verdict: &Verdict, status: Option<Value>) -> Vec<u8> {
    // What cannot be written is left away: the object is admitted as it is.
    let patch = (!verdict.patch.is_empty()).then(|| serde_json::to_vec(&verdict.patch).ok()).flatten();
    written(Response {
        uid: Some(uid),
        allowed: status.is_none(),
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch: patch.filter(|_| status.is_none()).map(ByteString),
        warnings: &verdict.warnings,
        status,
    })
}

/// The answer that admits whatever is asked for. Of the review no more is read than the identifier, if it has one.
pub(crate) fn admitted(body: &[u8]) -> Vec<u8> {
    let uid = serde_json::from_slice(body).ok().and_then(|review: Identified| review.request?.uid);
    written(Response { uid: uid.as_deref(), allowed: true, status: None, patch: None, patch_type: None, warnings: &[] })
}

fn written(response: Response<'_>) -> Vec<u8> {
    let answer = Answer { api_version: "admission.k8s.io/v1", kind: "AdmissionReview", response };
    serde_json::to_vec(&answer).unwrap_or_default()
}
