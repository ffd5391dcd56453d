//! The wire form of reviews and responses: `AdmissionReview` of `admission.k8s.io/v1`.
//!
//! Every field of a request may be absent or null.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::ResourceList;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sizing::Written;

use crate::field_error::FieldError;
use crate::patch::Patch;

/// A string of a review. It is copied only if it has escapes.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A review whose request is parsed as `R`.
#[derive(Debug, Deserialize)]
pub(crate) struct Review<R> {
    pub(crate) request: Option<R>,
}

/// The request of a review of an object that is parsed as `O`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request<'a, O> {
    #[serde(borrow)]
    pub(crate) uid: Option<Text<'a>>,
    pub(crate) resource: Option<GroupResource<'a>>,
    /// The kind in the client's request, before conversion.
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

/// The UID of a review and the resource under review.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReviewHeader<'a> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    pub(crate) resource: Option<GroupResource<'a>>,
    pub(crate) sub_resource: Option<Text<'a>>,
}

impl<'a> ReviewHeader<'a> {
    /// The header of a review; empty if the body cannot be parsed.
    pub(crate) fn parse(body: &'a [u8]) -> Self {
        let review: Option<Review<Self>> = serde_json::from_slice(body).ok();
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

#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The changes of the object.
    pub(crate) patch: Patch,
    pub(crate) warnings: Vec<String>,
    /// The reasons of a refusal; without any the object is admitted.
    pub(crate) errors: Vec<FieldError>,
}

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
pub(crate) fn response_body(uid: &str, verdict: Verdict, status: Option<Value>) -> Vec<u8> {
    let allowed = status.is_none();
    // To the API server a response with only one of patch and type is a failed call, not a refusal.
    let patch = verdict.patch.into_json().filter(|_| allowed);
    body(Response {
        uid: Some(uid),
        allowed,
        status,
        patch_type: patch.is_some().then_some("JSONPatch"),
        warnings: &verdict.warnings,
        patch: patch.map(|patch| STANDARD.encode(patch)),
    })
}

/// The body of a response that admits the object unchanged.
pub(crate) fn admission_body(header: &ReviewHeader<'_>) -> Vec<u8> {
    body(Response {
        uid: header.uid.as_deref(),
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
    let patch_bytes = review.response.patch.as_ref().map_or(0, String::len);
    let mut body = Vec::with_capacity(patch_bytes.saturating_add(256));
    let written = serde_json::to_writer(&mut body, &review);
    written.map_or_else(|_| Vec::new(), |()| body)
}

/// Requests and limits. An absent list differs from an empty one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Requirements {
    pub(crate) requests: Option<ResourceList>,
    pub(crate) limits: Option<ResourceList>,
    /// Whether there are other fields, such as `claims`.
    pub(crate) has_other_fields: bool,
}

impl Requirements {
    pub(crate) fn written(&self) -> Written<'_> {
        Written {
            requests: self.requests.as_ref(),
            limits: self.limits.as_ref(),
        }
    }
}

impl<'de> Deserialize<'de> for Requirements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequirementsVisitor)
    }
}

struct RequirementsVisitor;

impl<'de> Visitor<'de> for RequirementsVisitor {
    type Value = Requirements;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests and limits")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Requirements, A::Error> {
        let mut requirements = Requirements::default();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "requests" => requirements.requests = map.next_value()?,
                "limits" => requirements.limits = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    requirements.has_other_fields = true;
                }
            }
        }
        Ok(requirements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects the numbers of requests and limits, and whether there are other fields.
    fn check(json: &str, lengths: [Option<usize>; 2], has_other_fields: bool) {
        let read: Requirements = serde_json::from_str(json).expect("requirements");
        let found = [&read.requests, &read.limits].map(|list| list.as_ref().map(ResourceList::len));
        let found = (found, read.has_other_fields);
        assert_eq!(found, (lengths, has_other_fields), "{json}");
    }

    #[test]
    fn other_fields_are_noticed() {
        check("{}", [None, None], false);
        check(
            r#"{"requests":{"cpu":"1"},"limits":null}"#,
            [Some(1), None],
            false,
        );
        check(
            r#"{"requests":{},"limits":{"cpu":"1","memory":"1"}}"#,
            [Some(0), Some(2)],
            false,
        );
        check(r#"{"claims":[{"name":"gpu"}]}"#, [None, None], true);
    }
}
