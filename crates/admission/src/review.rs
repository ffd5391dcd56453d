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

/// The answer but for the patch.
#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    #[serde(rename = "patchType", skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

/// The answer with this verdict, which is not refused where `status` is absent.
pub(crate) fn answer(uid: &str, verdict: Verdict, status: Option<Value>) -> Vec<u8> {
    let Verdict {
        patch,
        warnings,
        problems: _,
    } = verdict;
    let allowed = status.is_none();
    // To the API server an answer with only one of patch and type is a call that failed, not one
    // that refused.
    let patch = patch.into_json().filter(|_| allowed);
    let patch_type = patch.is_some().then_some("JSONPatch");
    written(
        &Response {
            uid: Some(uid),
            allowed,
            status,
            patch_type,
            warnings: &warnings,
        },
        patch.as_deref(),
    )
}

/// The answer that admits whatever is asked for.
pub(crate) fn admitted(identity: &Identity<'_>) -> Vec<u8> {
    let uid = identity.uid.as_deref();
    written(
        &Response {
            uid,
            allowed: true,
            status: None,
            patch_type: None,
            warnings: &[],
        },
        None,
    )
}

/// Writes the answer in one go: nearly the whole of it is its patch. What cannot be written is left
/// away: the object is admitted as it is.
fn written(response: &Response<'_>, patch: Option<&[u8]>) -> Vec<u8> {
    const BEGIN: &[u8] =
        br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":"#;
    let encoded = patch.map_or(0, |patch| patch.len().div_ceil(3).saturating_mul(4));
    let mut body = Vec::with_capacity(encoded.saturating_add(256));
    body.extend_from_slice(BEGIN);
    if serde_json::to_writer(&mut body, response).is_err() {
        return Vec::new();
    }
    if let Some(patch) = patch {
        // In place of the brace at the end of the response.
        body.pop();
        body.extend_from_slice(br#","patch":""#);
        let begin = body.len();
        body.resize(begin.saturating_add(encoded), b' ');
        STANDARD
            .encode_slice(patch, &mut body[begin..])
            .expect("there is room: four bytes for each three");
        body.extend_from_slice(br#""}"#);
    }
    body.push(b'}');
    body
}
