//! Decision on an `AdmissionReview`: parses the body, patches pods and validates VPA objects. Every
//! body has a decision.
//!
//! A pod is never refused: if the review, the view or the VPA object is invalid, the pod is
//! admitted unchanged.

use std::borrow::Cow;

use api::rollback::Rollback;
use model::{Recommendation, Workload};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use sizing::Target;
use view::{ObjectKey, Vpa};

use crate::field_error::{self, FieldError};
use crate::input::Input;
use crate::patch::Patch;
use crate::pod::{self, Pod};
use crate::review::{self, GroupKind, GroupResource, Request, Review, ReviewHeader, Verdict};
use crate::startup_boost::BoostError;
use crate::validate::{self, validate, validate_node_group};
use crate::vpa_selection::{Awaited, Selection, select};

/// Maximum number of containers of a pod that is patched. The time per review grows with them, and
/// no node starts a pod with more.
const MAX_CONTAINERS: usize = 1000;

/// The kind of object under review, as upstream's metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionResource {
    Unknown,
    Pod,
    Vpa,
}

/// The result of a review, as upstream's metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionStatus {
    Error,
    /// The object is admitted unchanged.
    Skipped,
    Applied,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub resource: AdmissionResource,
    pub status: AdmissionStatus,
    /// The `AdmissionReview` to send back, as JSON.
    pub body: Vec<u8>,
    /// The error of a pod that a VPA selects but that is admitted unchanged.
    pub failure: Option<PatchFailure>,
    /// An object with which the decision may be another one, if the view lacks it.
    pub awaits: Option<Awaited>,
}

/// The error of a pod that a VPA selects but that is admitted unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchFailure {
    pub vpa: ObjectKey,
    pub error: BoostError,
}

pub fn review(input: &Input<'_>, body: &[u8]) -> Decision {
    // Nearly all reviews are of pods, so the body is parsed as one first.
    let pod = parse::<Pod>(body).ok().flatten();
    let pod = pod.filter(|request| resource_of(request) == AdmissionResource::Pod);
    if let Some(mut request) = pod {
        let (patch, failure, awaits) = pod_patch(input, &mut request).unwrap_or_default();
        let verdict = Verdict {
            patch,
            ..Verdict::default()
        };
        return Decision {
            failure,
            awaits,
            ..decision(&request, AdmissionResource::Pod, verdict)
        };
    }
    let Ok(Some(request)) = parse::<IgnoredAny>(body) else {
        return unchanged(&ReviewHeader::parse(body));
    };
    let resource = resource_of(&request);
    let verdict = match resource {
        // A pod that cannot be parsed is admitted unchanged.
        AdmissionResource::Unknown | AdmissionResource::Pod => Verdict::default(),
        AdmissionResource::Vpa => vpa_verdict(input, body),
    };
    decision(&request, resource, verdict)
}

/// Admits an object unchanged without parsing it. Returns `None` for a VPA object: these reviews
/// are few, and an invalid object that is admitted once stays.
pub fn admit_unreviewed(body: &[u8]) -> Option<Decision> {
    let header = ReviewHeader::parse(body);
    let resource = admission_resource(header.resource.as_ref(), header.sub_resource.as_deref());
    (resource != AdmissionResource::Vpa).then(|| unchanged(&header))
}

fn unchanged(header: &ReviewHeader<'_>) -> Decision {
    Decision {
        resource: AdmissionResource::Unknown,
        status: AdmissionStatus::Skipped,
        body: review::admission_body(header),
        failure: None,
        awaits: None,
    }
}

fn parse<'de, O: Default + Deserialize<'de>>(
    body: &'de [u8],
) -> serde_json::Result<Option<Request<'de, O>>> {
    serde_json::from_slice(body).map(|review: Review<Request<'de, O>>| review.request)
}

fn decision<O>(
    request: &Request<'_, O>,
    resource: AdmissionResource,
    verdict: Verdict,
) -> Decision {
    let kind = request.original_kind.as_ref().or(request.kind.as_ref());
    let name = request.name.as_deref().unwrap_or_default();
    let refusal = field_error::status(kind.unwrap_or(&GroupKind::default()), name, &verdict.errors);
    let status = match (&refusal, verdict.patch.len()) {
        (Some(_), _) => AdmissionStatus::Error,
        (None, 0) => AdmissionStatus::Skipped,
        (None, _) => AdmissionStatus::Applied,
    };
    let uid = request.uid.as_deref().unwrap_or_default();
    Decision {
        resource,
        status,
        body: review::response_body(uid, verdict, refusal),
        failure: None,
        awaits: None,
    }
}

fn resource_of<O>(request: &Request<'_, O>) -> AdmissionResource {
    admission_resource(request.resource.as_ref(), request.sub_resource.as_deref())
}

fn admission_resource(
    resource: Option<&GroupResource<'_>>,
    sub_resource: Option<&str>,
) -> AdmissionResource {
    let whole_object = sub_resource.is_none_or(str::is_empty);
    let Some(it) = resource.filter(|_| whole_object) else {
        return AdmissionResource::Unknown;
    };
    let is_v1 = it.version.as_deref().is_none_or(|version| version == "v1");
    let names = [&it.group, &it.resource].map(|text| text.as_deref().unwrap_or_default());
    match names {
        ["", "pods"] if is_v1 => AdmissionResource::Pod,
        ["autoscaling.k8s.io", "verticalpodautoscalers"] => AdmissionResource::Vpa,
        _ => AdmissionResource::Unknown,
    }
}

/// The patch of a pod under review, with the other parts of the decision; `None` if it is not being
/// created or is not to be patched.
fn pod_patch(
    input: &Input<'_>,
    request: &mut Request<'_, Pod<'_>>,
) -> Option<(Patch, Option<PatchFailure>, Option<Awaited>)> {
    let operation = request.operation.as_deref();
    let is_create = operation.is_none_or(|operation| operation == "CREATE");
    let mut pod = request.object.take().filter(|_| is_create)?;
    if pod.container_count() > MAX_CONTAINERS {
        return None;
    }
    // A pod that is being created has no status, whatever its author writes.
    pod.status = None;
    let namespace = request.namespace.as_deref().filter(|name| !name.is_empty());
    let namespace = namespace.or(pod.metadata.namespace.as_deref())?;
    let Selection {
        vpa,
        labels,
        awaits,
    } = selection(input, &pod, namespace)?;
    let (mut patch, failure) = match vpa.map(|vpa| sized(input, &pod, vpa, namespace)) {
        None => (Patch::default(), None),
        Some(Ok(patch)) => (patch, None),
        Some(Err(failure)) => (Patch::default(), Some(failure)),
    };
    if !labels.is_empty() && pod.metadata.labels.is_none() {
        patch.add(["metadata", "labels"], json!({}));
    }
    for (name, value) in labels {
        patch.add(["metadata", "labels", name.as_str()], json!(value));
    }
    Some((patch, failure, awaits))
}

fn sized<'a>(
    input: &Input<'a>,
    pod: &Pod<'_>,
    selected: &'a Vpa,
    namespace: &str,
) -> Result<Patch, PatchFailure> {
    let recommendation = recommendation(input, selected);
    let targets = recommendation.as_deref().map(Target::all);
    let (object, recommendation) = (&selected.object, targets.as_deref());
    let limits = input.view.namespace_limits(namespace);
    let patch = pod::patch(pod, object, recommendation, &limits, input.config);
    patch.map_err(|error| PatchFailure {
        vpa: selected.key.clone(),
        error,
    })
}

/// The VPA that selects a pod, and the labels of the groups of its node.
fn selection<'a>(input: &Input<'a>, pod: &Pod<'_>, namespace: &str) -> Option<Selection<'a>> {
    let owner = pod.controller()?;
    let owner = Workload {
        api_version: &owner.api_version,
        kind: &owner.kind,
        namespace,
        name: &owner.name,
    };
    let no_labels = pod::Labels::default();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&no_labels);
    let node = pod.node_name().filter(|_| input.config.node_groups);
    Some(select(input.view, labels, owner, node))
}

/// The current recommendation, that of the feed, or else that of the status, unless it is rolled back.
fn recommendation<'a>(input: &Input<'a>, vpa: &'a Vpa) -> Option<Cow<'a, Recommendation>> {
    let of_feed = input.feed.and_then(|lookup| lookup(vpa));
    let recommendation = of_feed.or_else(|| vpa.recommendation())?;
    let rollback = Rollback::of(&vpa.object, recommendation);
    Some(rollback.map_or(Cow::Borrowed(recommendation), |it| Cow::Owned(it.former)))
}

/// The verdict on a `VerticalPodAutoscaler` that is created or updated.
fn vpa_verdict(input: &Input<'_>, body: &[u8]) -> Verdict {
    // An object that is being deleted is updated to remove finalizers, which must not fail.
    let old = parse::<validate::Deletion>(body).ok().flatten();
    let old = old.and_then(|request| request.old_object);
    if old.is_some_and(|old| old.is_pending()) {
        return Verdict::default();
    }
    let request = match parse::<validate::Object>(body) {
        Ok(request) => request,
        Err(error) => {
            let errors = vec![FieldError::internal(&message(&error))];
            return Verdict {
                errors,
                ..Verdict::default()
            };
        }
    };
    let Some(Request {
        object: Some(object),
        old_object,
        ..
    }) = request
    else {
        return Verdict::default();
    };
    let node_group = validate_node_group(&object);
    let has_spec = object.spec.is_some();
    let spec = object.spec.unwrap_or_default();
    let old = old_object.map(|old| old.spec.unwrap_or_default());
    let mut verdict = validate(&spec, old.as_ref(), input.config.gates);
    verdict.errors.extend(node_group);
    if has_spec && spec.update_policy.is_none() {
        let value = json!({"updateMode": "Recreate"});
        verdict.patch.add(["spec", "updatePolicy"], value);
    }
    verdict
}

/// The message of an error without the position, which is that in the review and not in the user's
/// manifest.
fn message(error: &serde_json::Error) -> String {
    let position = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    text.strip_suffix(&position)
        .map_or(text.clone(), str::to_owned)
}
