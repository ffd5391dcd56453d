//! Desired objects of one EHPA, from the observed ones.
//!
//! Unlike in Crane, a prediction that cannot be made never blocks the HPA.

use api::ehpa::{MetricSpec, ScaleStrategy};
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Resource, ResourceExt as _};

use super::hpa_choice::{HpaChoice, HpaSelection, rival, select};
use super::reasons::{FAILED_GET_SCALE, FAILED_RECONCILE_HPA, SCALING_DISABLED};
use super::{Observed, Problem, TargetScale, hpa, metrics, names, prediction};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub hpa: Option<HorizontalPodAutoscaler>,
    pub adopts: bool,
    pub deleted: Vec<String>,
    /// Names of HPAs that the EHPA adopted and that get their own spec back.
    pub restored: Vec<String>,
    pub prediction: Desired<TimeSeriesPrediction>,
    pub substitute: Desired<Substitute>,
    /// Replicas to which the workload is scaled directly, in a preview.
    pub scale_to: Option<i32>,
    /// Problems, the worst first.
    pub problems: Vec<Problem>,
}

/// Desired state of an object that may be absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Desired<T> {
    #[default]
    Keep,
    Apply(Box<T>),
    Delete,
}

pub fn plan(observed: &Observed) -> Plan {
    let hpas = select(observed);
    let are_own = hpas.are_own();
    let HpaSelection {
        choice,
        deleted,
        restored,
        problem,
    } = hpas;
    let gone = Plan {
        deleted,
        restored,
        ..Plan::default()
    };
    let target = match observed.target {
        Ok(target) => target,
        Err(why) => {
            return Plan {
                problems: vec![Problem::new(FAILED_GET_SCALE, why)],
                ..gone
            };
        }
    };
    let is_taken = matches!(choice, HpaChoice::Taken(_));
    let manual = manual(observed, target);
    let scale_to = manual.filter(|_| are_own);
    if target.spec_replicas == 0 && observed.object.spec.effective_min_replicas() != 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        let mut problems = vec![Problem::new(SCALING_DISABLED, message)];
        match choice {
            HpaChoice::Blocked(problem) | HpaChoice::Taken(problem) if manual.is_some() => {
                problems.push(problem);
            }
            _ => {}
        }
        return Plan {
            scale_to,
            problems,
            ..gone
        };
    }
    let (metrics, mut problems) = metrics::metrics(observed);
    problems.splice(0..0, problem);
    problems.extend(rival(observed, &choice));
    let wanted = wanted_hpa(observed, choice, metrics.as_deref());
    let (hpa, adopts) = wanted.unwrap_or_else(|problem| {
        problems.insert(0, problem);
        (None, false)
    });
    let raised = |wanted| hpa::raised(observed, wanted);
    problems.extend(hpa.as_ref().and_then(raised));
    // Without an HPA the Substitute has no consumer.
    let substitute = hpa::substitute(observed, target).filter(|_| hpa.is_some());
    // The adapter would serve it in place of the prediction of the EHPA that scales the workload.
    let prediction = prediction::prediction(observed).filter(|_| !is_taken);
    Plan {
        substitute: desired(observed, substitute, observed.substitute),
        prediction: desired(observed, prediction, observed.prediction),
        hpa,
        adopts,
        scale_to,
        problems,
        ..gone
    }
}

/// The HPA, and whether it is adopted. Without metrics none is created or adopted, and an existing
/// one keeps its metrics.
fn wanted_hpa(
    observed: &Observed,
    choice: HpaChoice,
    metrics: Option<&[MetricSpec]>,
) -> Result<(Option<HorizontalPodAutoscaler>, bool), Problem> {
    let (existing, adopts) = match choice {
        HpaChoice::Own(own) => (Some(own), false),
        HpaChoice::Adopted(other) => (Some(other), true),
        HpaChoice::Blocked(problem) | HpaChoice::Taken(problem) => return Err(problem),
        HpaChoice::Nothing => {
            let name = names::owned_name(observed.object);
            let mut hpas = observed.hpas.iter();
            if hpas.any(|other| other.object.name_any() == name) {
                let message =
                    format!("the name of HorizontalPodAutoscaler {name} is taken: delete that one");
                return Err(Problem::new(FAILED_RECONCILE_HPA, message));
            }
            (None, false)
        }
    };
    if metrics.is_none() && (existing.is_none() || adopts) {
        return Ok((None, false));
    }
    let object = hpa::hpa(observed, metrics, existing)
        .map_err(|error| Problem::new(FAILED_RECONCILE_HPA, error.to_string()))?;
    Ok((Some(object), adopts))
}

/// Without a wanted object, one that the EHPA owns is deleted.
fn desired<T: Resource>(observed: &Observed, wanted: Option<T>, there: Option<&T>) -> Desired<T> {
    let is_ours = |there: &T| names::is_owned(there.meta(), observed.object);
    match wanted {
        Some(object) => Desired::Apply(Box::new(object)),
        None if there.is_some_and(is_ours) => Desired::Delete,
        None => Desired::Keep,
    }
}

/// The `specificReplicas` of a preview, if the workload has another number. Zero counts too: unlike
/// with an HPA, the EHPA can scale up from it.
fn manual(observed: &Observed, target: &TargetScale) -> Option<i32> {
    let is_preview = observed.object.spec.effective_strategy() == ScaleStrategy::Preview;
    let wanted = observed.object.spec.specific_replicas;
    wanted.filter(|wanted| is_preview && *wanted != target.spec_replicas)
}
