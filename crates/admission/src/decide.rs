//! From a review to its answer, as a pure function. No pod is refused here: whatever is wrong with
//! a review, with what is known or with an object, the pod is born as it was asked for.

use std::sync::Arc;

use api::vpa::{RecommendedContainerResources, RecommendedPodResources};
use model::Workload;
use serde::de::IgnoredAny;
use serde_json::json;
use sizing::Target;
use view::{Autoscaler, ObjectKey};

use crate::fields::{self, Problem};
use crate::input::Input;
use crate::patch::Patch;
use crate::pod::{self, BoostError, Pod, Sizing};
use crate::review::{self, GroupKind, GroupResource, Identity, Request, Review, Verdict};
use crate::select::select;
use crate::validate::{self, validate};

/// The time for an answer grows with the containers of a pod. No node starts a pod with more than
/// these.
const MOST_CONTAINERS: usize = 1000;

/// What a review is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Neither of the others.
    Unknown,
    /// A pod.
    Pod,
    /// A `VerticalPodAutoscaler`.
    Autoscaler,
}

/// What became of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Something is wrong with it.
    Error,
    /// Nothing was to be done.
    Skipped,
    /// The object is changed.
    Applied,
}

/// The answer to a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What it was about.
    pub subject: Subject,
    /// What became of it.
    pub outcome: Outcome,
    /// The `AdmissionReview` that is sent back, as JSON.
    pub body: Vec<u8>,
    /// The reason why a pod that an autoscaler selects stays unchanged.
    pub failure: Option<PatchFailure>,
}

/// The reason why a pod that an autoscaler selects stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchFailure {
    /// The autoscaler.
    pub autoscaler: ObjectKey,
    /// The error in its startup boost.
    pub error: BoostError,
}

/// Answers a review, given as the body of the request.
pub fn review(input: &Input<'_>, body: &[u8]) -> Answer {
    // Nearly all reviews are of pods, and are read in one go.
    let pod = read::<Pod>(body)
        .ok()
        .flatten()
        .filter(|request| subject_of(request) == Subject::Pod);
    if let Some(mut request) = pod {
        let (patch, failure) = match pod_patch(input, &mut request) {
            Ok(patch) => (patch.unwrap_or_default(), None),
            Err(failure) => (Patch::default(), Some(failure)),
        };
        let verdict = Verdict {
            patch,
            ..Verdict::default()
        };
        return Answer {
            failure,
            ..answer(&request, Subject::Pod, verdict)
        };
    }
    let Ok(Some(request)) = read::<IgnoredAny>(body) else {
        return unchanged(&Identity::of(body));
    };
    let subject = subject_of(&request);
    let verdict = match subject {
        // A pod that cannot be read stays as it is.
        Subject::Unknown | Subject::Pod => Verdict::default(),
        Subject::Autoscaler => autoscaler(input, body),
    };
    answer(&request, subject, verdict)
}

/// Admits whatever is asked for as it is, at the least expense: only what the review is of is read.
/// Of autoscalers there are few reviews, and what is missed is missed for good: they are none of
/// this.
pub fn shed(body: &[u8]) -> Option<Answer> {
    let identity = Identity::of(body);
    let subject = subject(identity.resource.as_ref(), identity.sub_resource.as_deref());
    (subject != Subject::Autoscaler).then(|| unchanged(&identity))
}

fn unchanged(identity: &Identity<'_>) -> Answer {
    Answer {
        subject: Subject::Unknown,
        outcome: Outcome::Skipped,
        body: review::admitted(identity),
        failure: None,
    }
}

fn read<'de, O: Default + serde::Deserialize<'de>>(
    body: &'de [u8],
) -> serde_json::Result<Option<Request<'de, O>>> {
    serde_json::from_slice(body).map(|review: Review<'de, O>| review.request)
}

fn answer<O>(request: &Request<'_, O>, subject: Subject, verdict: Verdict) -> Answer {
    let kind = request.original_kind.as_ref().or(request.kind.as_ref());
    let name = request.name.as_deref().unwrap_or_default();
    let status = fields::status(
        kind.unwrap_or(&GroupKind::default()),
        name,
        &verdict.problems,
    );
    let outcome = match (status.is_some(), verdict.patch.len()) {
        (true, _) => Outcome::Error,
        (false, 0) => Outcome::Skipped,
        (false, _) => Outcome::Applied,
    };
    let uid = request.uid.as_deref().unwrap_or_default();
    Answer {
        subject,
        outcome,
        body: review::answer(uid, verdict, status),
        failure: None,
    }
}

fn subject_of<O>(request: &Request<'_, O>) -> Subject {
    subject(request.resource.as_ref(), request.sub_resource.as_deref())
}

fn subject(resource: Option<&GroupResource<'_>>, sub_resource: Option<&str>) -> Subject {
    let Some(GroupResource {
        group,
        version,
        resource,
    }) = resource
    else {
        return Subject::Unknown;
    };
    if sub_resource.is_some_and(|sub| !sub.is_empty()) {
        return Subject::Unknown;
    }
    match (
        group.as_deref().unwrap_or_default(),
        resource.as_deref().unwrap_or_default(),
    ) {
        ("", "pods") if version.as_deref().is_none_or(|version| version == "v1") => Subject::Pod,
        ("autoscaling.k8s.io", "verticalpodautoscalers") => Subject::Autoscaler,
        _ => Subject::Unknown,
    }
}

/// The patch of a pod that is being created; none where it stays as it is.
fn pod_patch(
    input: &Input<'_>,
    request: &mut Request<'_, Pod<'_>>,
) -> Result<Option<Patch>, PatchFailure> {
    if request
        .operation
        .as_deref()
        .is_some_and(|operation| operation != "CREATE")
    {
        return Ok(None);
    }
    let Some(mut pod) = request.object.take() else {
        return Ok(None);
    };
    if pod.container_count() > MOST_CONTAINERS {
        return Ok(None);
    }
    // A pod that is being created has no status yet, whatever it says.
    pod.status = None;
    let namespace = request
        .namespace
        .as_deref()
        .filter(|namespace| !namespace.is_empty())
        .or(pod.metadata.namespace.as_deref());
    let Some((namespace, autoscaler)) =
        namespace.and_then(|namespace| Some((namespace, autoscaler_of(input, &pod, namespace)?)))
    else {
        return Ok(None);
    };
    let recommendation = recommendation(input, autoscaler);
    let sizing = Sizing {
        object: &autoscaler.object,
        recommendation: recommendation.as_deref(),
    };
    let ranges = input.view.limit_ranges_in(namespace);
    match pod::patch(&pod, sizing, &ranges, input.config) {
        Ok(patch) => Ok(Some(patch)),
        Err(error) => Err(PatchFailure {
            autoscaler: autoscaler.key.clone(),
            error,
        }),
    }
}

/// The autoscaler that selects a pod.
fn autoscaler_of<'a>(
    input: &Input<'a>,
    pod: &Pod<'_>,
    namespace: &str,
) -> Option<&'a Arc<Autoscaler>> {
    let owner = pod.owner()?;
    let owner = Workload {
        api_version: &owner.api_version,
        kind: &owner.kind,
        namespace,
        name: &owner.name,
    };
    let no_labels = pod::Labels::default();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&no_labels);
    select(input.view, labels, owner)
}

/// The current recommendation: that of the feed, or else that of the status.
fn recommendation<'a>(input: &Input<'a>, autoscaler: &'a Autoscaler) -> Option<Vec<Target<'a>>> {
    if let Some(recommendation) = input.heard.and_then(|heard| heard(autoscaler)) {
        return Some(Target::all(recommendation));
    }
    let target = |container: &'a RecommendedContainerResources| Target {
        container: &container.container_name,
        requests: &container.target,
    };
    Some(
        status_recommendation(autoscaler)?
            .container_recommendations
            .iter()
            .map(target)
            .collect(),
    )
}

/// The recommendation in the status of a VPA object; `None` if it has no containers.
pub fn status_recommendation(autoscaler: &Autoscaler) -> Option<&RecommendedPodResources> {
    let status = autoscaler.object.status.as_ref()?;
    let recommendation = status.recommendation.as_ref()?;
    (!recommendation.container_recommendations.is_empty()).then_some(recommendation)
}

/// What becomes of a `VerticalPodAutoscaler` that somebody writes.
fn autoscaler(input: &Input<'_>, body: &[u8]) -> Verdict {
    // One that is being deleted is updated only to take finalizers away, which nothing that is wrong with it may prevent.
    let old = read::<validate::Going>(body)
        .ok()
        .flatten()
        .and_then(|request| request.old_object);
    if old.is_some_and(|old| old.is_going()) {
        return Verdict::default();
    }
    let request = match read::<validate::Object>(body) {
        Ok(request) => request,
        Err(error) => {
            let problems = vec![Problem::unreadable(&reason(&error))];
            return Verdict {
                problems,
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
    let has_spec = object.spec.is_some();
    let (spec, old) = (
        object.spec.unwrap_or_default(),
        old_object.map(|old| old.spec.unwrap_or_default()),
    );
    let mut verdict = validate(&spec, old.as_ref(), input.config.gates);
    if has_spec && spec.update_policy.is_none() {
        verdict
            .patch
            .add(["spec", "updatePolicy"], json!({"updateMode": "Recreate"}));
    }
    verdict
}

/// What is wrong, without the place in a text that its writer never saw.
fn reason(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    text.strip_suffix(&place)
        .map_or(text.clone(), str::to_owned)
}
