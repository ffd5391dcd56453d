//! From what is seen of one effective autoscaler to what is to be, as a pure function.
//!
//! A prediction that cannot be made never keeps the autoscaler from being made, as it does in Crane.

use api::effective_hpa::{MetricSpec, ScaleStrategy};
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use super::adopt::{Found, find, rival};
use super::{Problem, Seen, Target, autoscaler, forecast, metrics, names, substitute};

/// What is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// The autoscaler as it should be; none if it is to be left as it is.
    pub(crate) autoscaler: Option<HorizontalPodAutoscaler>,
    /// Whether that one is somebody else's until now.
    pub(crate) adopts: bool,
    /// The prediction.
    pub(crate) prediction: Wish<TimeSeriesPrediction>,
    /// The substitute, with its status.
    pub(crate) substitute: Wish<Substitute>,
    /// How many replicas the workload is given, past any autoscaler.
    pub(crate) scale_to: Option<i32>,
    /// What cannot be done, the worst first.
    pub(crate) problems: Vec<Problem>,
}

/// What is wanted of an object that need not be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Wish<T> {
    /// It stays as it is.
    #[default]
    Leave,
    /// It is so.
    Have(Box<T>),
    /// It is removed.
    Remove,
}

/// What is to be done about one object.
pub(crate) fn plan(seen: &Seen) -> Plan {
    let target = match seen.target {
        Ok(target) => target,
        Err(why) => return Plan { problems: vec![Problem::new("FailedGetScale", why)], ..Plan::default() },
    };
    let is_taken = matches!(find(seen), Found::Taken(_));
    let scale_to = manual(seen, target).filter(|_| !is_taken);
    if target.spec_replicas == 0 && seen.object.spec.effective_min_replicas() != 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        let problems = vec![Problem::new("ScalingDisabled", message)];
        return Plan { scale_to, problems, ..Plan::default() };
    }
    let (metrics, mut problems) = metrics::metrics(seen);
    let (autoscaler, adopts) = match wanted_autoscaler(seen, metrics.as_deref()) {
        Ok(Some((autoscaler, adopts))) => (Some(autoscaler), adopts),
        Ok(None) => (None, false),
        Err(problem) => {
            problems.insert(0, problem);
            (None, false)
        }
    };
    problems.extend(rival(seen));
    problems.extend(autoscaler.as_ref().and_then(|wanted| autoscaler::raised(seen, wanted)));
    Plan {
        // What would be substituted for nothing serves nobody.
        substitute: wish(substitute::substitute(seen, target).filter(|_| autoscaler.is_some()), || {
            seen.substitute.is_some_and(|there| names::is_owned(&there.metadata, seen.object))
        }),
        // It would be taken for that of the object which scales the workload.
        prediction: wish(forecast::prediction(seen).filter(|_| !is_taken), || {
            seen.prediction.is_some_and(|there| names::is_owned(&there.metadata, seen.object))
        }),
        autoscaler,
        adopts,
        scale_to,
        problems,
    }
}

/// The autoscaler, and whether it is somebody else's until now. None is made or taken over without metrics; its own goes on by those that it has.
fn wanted_autoscaler(
    seen: &Seen,
    metrics: Option<&[MetricSpec]>,
) -> Result<Option<(HorizontalPodAutoscaler, bool)>, Problem> {
    let (existing, adopts) = match find(seen) {
        Found::Own(own) => (Some(own), false),
        Found::Adopted(other) => (Some(other), true),
        Found::Blocked(problem) | Found::Taken(problem) => return Err(problem),
        Found::Nothing => {
            if seen.autoscalers.iter().any(|other| autoscaler::has_our_name(&other.object, seen)) {
                let message = format!("HorizontalPodAutoscaler {} is somebody else's", names::owned_name(seen.object));
                return Err(Problem::new("FailedReconcileHPA", message));
            }
            (None, false)
        }
    };
    if metrics.is_none() && (existing.is_none() || adopts) {
        return Ok(None);
    }
    let object = autoscaler::autoscaler(seen, metrics, existing)
        .map_err(|error| Problem::new("FailedReconcileHPA", error.to_string()))?;
    Ok(Some((object, adopts)))
}

fn wish<T>(wanted: Option<T>, is_ours: impl FnOnce() -> bool) -> Wish<T> {
    match wanted {
        Some(object) => Wish::Have(Box::new(object)),
        None if is_ours() => Wish::Remove,
        None => Wish::Leave,
    }
}

/// In a preview the user may say how many there are, zero included; and again after zero.
fn manual(seen: &Seen, target: &Target) -> Option<i32> {
    let is_preview = seen.object.spec.effective_strategy() == ScaleStrategy::Preview;
    seen.object.spec.specific_replicas.filter(|wanted| is_preview && *wanted != target.spec_replicas)
}
