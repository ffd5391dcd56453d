//! The wire form of reviews: `AdmissionReview` of `admission.k8s.io/v1`, read as loosely as can be,
//! and its answer.

mod requirements;

use std::borrow::Cow;
use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::Problem;
use crate::patch::Patch;

pub(crate) use requirements::Requirements;

/// A string of a review, which is copied only where it is written with escapes.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A review of an object that is read as `O`.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "O: Default + Deserialize<'de>"))]
pub(crate) struct Review<'a, O> {
    #[serde(borrow)]
    pub(crate) request: Option<Request<'a, O>>,
}

/// What is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request<'a, O> {
    #[serde(borrow)]
    pub(crate) uid: Option<Text<'a>>,
    pub(crate) resource: Option<GroupResource<'a>>,
    /// As the client named it, before any conversion.
    #[serde(rename = "requestKind")]
    pub(crate) original_kind: Option<GroupKind<'a>>,
    pub(crate) kind: Option<GroupKind<'a>>,
    pub(crate) sub_resource: Option<Text<'a>>,
    pub(crate) name: Option<Text<'a>>,
    pub(crate) namespace: Option<Text<'a>>,
    pub(crate) operation: Option<Text<'a>>,
    pub(crate) object: Option<O>,
    pub(crate) old_object: Option<O>,
}

/// The part of a review by which its answer is known.
#[derive(Debug, Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    request: Option<Identity<'a>>,
}

/// Which review it is, and of what.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Identity<'a> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    pub(crate) resource: Option<GroupResource<'a>>,
    pub(crate) sub_resource: Option<Text<'a>>,
}

impl<'a> Identity<'a> {
    /// That of a review; an empty one where it has none.
    pub(crate) fn of(body: &'a [u8]) -> Self {
        let review: Option<Identified<'_>> = serde_json::from_slice(body).ok();
        review.and_then(|review| review.request).unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupResource<'a> {
    #[serde(borrow)]
    pub(crate) group: Option<Text<'a>>,
    pub(crate) version: Option<Text<'a>>,
    pub(crate) resource: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupKind<'a> {
    #[serde(borrow)]
    pub(crate) group: Option<Text<'a>>,
    pub(crate) kind: Option<Text<'a>>,
}

/// What is answered.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// How the object is changed.
    pub(crate) patch: Patch,
    /// What the user is told.
    pub(crate) warnings: Vec<String>,
    /// Why the object is refused; it is admitted if there is no reason.
    pub(crate) problems: Vec<Problem>,
}

/// The review that is sent back.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
    /// In base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
}

/// The body of the response to a review. With `status` the object is refused.
pub(crate) fn answer(uid: &str, verdict: Verdict, status: Option<Value>) -> Vec<u8> {
    let Verdict {
        patch,
        warnings,
        problems: _,
    } = verdict;
    let allowed = status.is_none();
    // To the API server a response with only one of patch and type is a failed call, not a refusal.
    let patch = patch.into_json().filter(|_| allowed);
    body(Response {
        uid: Some(uid),
        allowed,
        status,
        patch_type: patch.is_some().then_some("JSONPatch"),
        warnings: &warnings,
        patch: patch.map(|patch| STANDARD.encode(patch)),
    })
}

/// The body of a response that admits the object unchanged.
pub(crate) fn admitted(identity: &Identity<'_>) -> Vec<u8> {
    body(Response {
        uid: identity.uid.as_deref(),
        allowed: true,
        ..Response::default()
    })
}

fn body(response: Response<'_>) -> Vec<u8> {
    let review = AdmissionReview {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response,
    };
    serde_json::to_vec(&review).unwrap_or_default()
}
