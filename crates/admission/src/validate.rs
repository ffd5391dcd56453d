//! Which `VerticalPodAutoscaler` objects are refused, and why, in upstream's words.
//!
//! What is not accepted without a feature gate stays accepted in an object that had it before.
//! Source: upstream `pkg/admission-controller/resource/vpa/validation.go`.

mod boost;
mod object;
mod policy;

use std::collections::BTreeSet;

use crate::fields::Problem;
use crate::input::Gates;
use crate::review::Verdict;

pub(crate) use object::{Going, Object, Spec};
use object::{Policy, UpdatePolicy};

/// The update modes of `updateMode`, without the deprecated one.
const MODES: [&str; 5] = ["InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate"];

/// What is accepted of an object.
struct Accepted {
    gates: Gates,
    /// Resources that the object controlled before, however unusual.
    controlled_resources: BTreeSet<String>,
    is_new: bool,
}

impl Accepted {
    fn of(gates: Gates, old: Option<&Spec>) -> Self {
        let policies = || old.into_iter().flat_map(Spec::policies);
        let update = old.and_then(|old| old.update_policy.as_ref());
        let boosted = old
            .and_then(|old| old.startup_boost.as_ref())
            .is_some_and(|boost| boost.cpu.is_some());
        let waits = update.is_some_and(|update| update.evict_after_oom_seconds.is_some());
        let controlled = policies().flat_map(|policy| policy.controlled_resources.iter().flatten());
        let gates = Gates {
            cpu_startup_boost: gates.cpu_startup_boost
                || boosted
                || policies().any(|policy| policy.startup_boost.is_some()),
            in_place: gates.in_place
                || update.is_some_and(|update| update.update_mode.as_deref() == Some("InPlace")),
            per_vpa_config: gates.per_vpa_config || waits || policies().any(Policy::has_rules),
        };
        Self {
            gates,
            controlled_resources: controlled.cloned().collect(),
            is_new: old.is_none(),
        }
    }
}

/// What is wrong with an object, and what its owner should know. `old` is what it was before, if it
/// was there.
pub(crate) fn validate(spec: &Spec, old: Option<&Spec>, gates: Gates) -> Verdict {
    let accepted = Accepted::of(gates, old);
    let mut verdict = Verdict::default();
    if spec.target_ref.is_none() && accepted.is_new {
        let detail = "If you're using v1beta1 version of the API, please migrate to v1";
        verdict
            .problems
            .push(Problem::required("spec.targetRef".to_owned(), detail));
    }
    if let Some(update) = &spec.update_policy {
        validate_update(update, &accepted, &mut verdict);
    }
    for (index, policy) in spec.policies().enumerate() {
        policy::validate(
            policy,
            &format!("spec.resourcePolicy.containerPolicies[{index}]"),
            &accepted,
            &mut verdict,
        );
    }
    if let Some(boost) = &spec.startup_boost {
        verdict
            .problems
            .extend(boost::validate(boost, "spec.startupBoost", &accepted));
    }
    let recommenders = spec.recommenders.iter().flatten().count();
    if recommenders > 1 {
        verdict.problems.push(Problem::too_many(
            "spec.recommenders".to_owned(),
            recommenders,
            1,
        ));
    }
    verdict
}

fn validate_update(update: &UpdatePolicy, accepted: &Accepted, verdict: &mut Verdict) {
    let field = |name: &str| format!("spec.updatePolicy.{name}");
    let problems = &mut verdict.problems;
    match update.update_mode.as_deref() {
        None => {
            problems.push(Problem::required(field("updateMode"), "updateMode is required if UpdatePolicy is used"));
        }
        Some("Auto") => verdict.warnings.push(format!(
            "spec.updatePolicy: \"Auto\" mode is deprecated and will be removed in a future API version. \
             Use explicit update modes like: [{}]. See https://github.com/kubernetes/autoscaler/issues/8424 for more details.",
            MODES.join(" ")
        )),
        Some("InPlace") if !accepted.gates.in_place => {
            let detail = "in order to use UpdateMode InPlace, you must enable feature gate InPlace in the admission-controller args";
            problems.push(Problem::forbidden(field("updateMode"), detail));
        }
        Some(mode) if !MODES.contains(&mode) => {
            problems.push(Problem::unsupported(field("updateMode"), mode, &MODES));
        }
        Some(_) => {}
    }
    if let Some(count) = update.min_replicas.filter(|count| *count <= 0) {
        problems.push(Problem::invalid(
            field("minReplicas"),
            count,
            "minReplicas has to be positive",
        ));
    }
    let seconds = update.evict_after_oom_seconds.map(i64::from);
    problems.extend(rule(
        field("evictAfterOOMSeconds"),
        seconds,
        accepted,
        |seconds| at_least_one(*seconds),
    ));
}

/// A rule of one's own for memory: forbidden without its gate, else `check` says what is wrong with
/// it.
fn rule<T>(
    field: String,
    value: Option<T>,
    accepted: &Accepted,
    check: impl FnOnce(&T) -> Option<(String, &'static str)>,
) -> Option<Problem> {
    let value = value?;
    if !accepted.gates.per_vpa_config {
        return Some(Problem::forbidden(
            field,
            "not supported when feature flag PerVPAConfig is disabled",
        ));
    }
    check(&value).map(|(shown, detail)| Problem::invalid(field, shown, detail))
}

fn at_least_one(value: i64) -> Option<(String, &'static str)> {
    (value < 1).then(|| (value.to_string(), "must be greater than or equal to 1"))
}
