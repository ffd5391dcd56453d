//! The wire form of reviews: `AdmissionReview` of `admission.k8s.io/v1`, read as loosely as can be, and its answer.

use k8s_openapi::ByteString;
use model::ResourceList;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::Problem;
use crate::patch::Operation;

/// The part of a review that says what it is about.
#[derive(Debug, Deserialize)]
pub(crate) struct Review {
    pub(crate) request: Option<Request>,
}

/// What is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
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

/// The part of a review that holds the objects.
#[derive(Debug, Deserialize)]
pub(crate) struct Objects<T> {
    pub(crate) request: RequestObjects<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestObjects<T> {
    pub(crate) object: Option<T>,
    pub(crate) old_object: Option<T>,
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
    uid: &'a str,
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
pub(crate) fn answer(uid: &str, verdict: &Verdict, status: Option<Value>) -> Value {
    // What cannot be written is left away: the object is admitted as it is.
    let patch = (!verdict.patch.is_empty()).then(|| serde_json::to_vec(&verdict.patch).ok()).flatten();
    let response = Response {
        uid,
        allowed: status.is_none(),
        patch_type: patch.is_some().then_some("JSONPatch"),
        patch: patch.filter(|_| status.is_none()).map(ByteString),
        warnings: &verdict.warnings,
        status,
    };
    let answer = Answer { api_version: "admission.k8s.io/v1", kind: "AdmissionReview", response };
    serde_json::to_value(answer).unwrap_or_default()
}
