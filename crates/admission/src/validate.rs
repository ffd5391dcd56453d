//! Validation of `VerticalPodAutoscaler` objects, with upstream's texts.
//!
//! A field behind a feature gate stays valid in an object that already has it.
//! Source: upstream `pkg/admission-controller/resource/vpa/validation.go`.

mod object;
mod policy;

use std::collections::BTreeSet;

use api::vpa::{NODE_GROUP, NodeGroup};
use model::{Quantity, ResourceList, ResourceName, unit_slip};

use crate::field_error::FieldError;
use crate::input::Gates;
use crate::review::Verdict;

pub(crate) use object::{Deletion, Object, Spec};
use object::{Policy, StartupBoost, UpdatePolicy};

/// The values of `updateMode` without the deprecated `Auto`.
const MODES: [&str; 5] = ["InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate"];

/// Maximum length of an annotation in an error, in characters.
const MAX_SHOWN: usize = 40;

/// The optional parts of an object that are valid.
struct Accepted {
    gates: Gates,
    /// The `controlledResources` of the old object, which stay valid.
    controlled_resources: BTreeSet<String>,
    /// Whether the object is being created.
    is_new: bool,
}

impl Accepted {
    fn of(gates: Gates, old: Option<&Spec>) -> Self {
        let policies = || old.into_iter().flat_map(Spec::policies);
        let update = old.and_then(|old| old.update_policy.as_ref());
        let has_boost = old
            .and_then(|old| old.startup_boost.as_ref())
            .is_some_and(|boost| boost.cpu.is_some());
        let has_eviction_delay =
            update.is_some_and(|update| update.evict_after_oom_seconds.is_some());
        let controlled = policies().flat_map(|policy| policy.controlled_resources.iter().flatten());
        let gates = Gates {
            cpu_startup_boost: gates.cpu_startup_boost
                || has_boost
                || policies().any(|policy| policy.startup_boost.is_some()),
            in_place: gates.in_place
                || update.is_some_and(|update| update.update_mode.as_deref() == Some("InPlace")),
            per_vpa_config: gates.per_vpa_config
                || has_eviction_delay
                || policies().any(Policy::has_per_vpa_config),
        };
        Self {
            gates,
            controlled_resources: controlled.cloned().collect(),
            is_new: old.is_none(),
        }
    }
}

/// The errors and warnings about an object. `old` is its previous spec; `None` when it is created.
pub(crate) fn validate(spec: &Spec, old: Option<&Spec>, gates: Gates) -> Verdict {
    let accepted = Accepted::of(gates, old);
    let mut verdict = Verdict::default();
    if spec.target_ref.is_none() && accepted.is_new {
        let detail = "If you're using v1beta1 version of the API, please migrate to v1";
        let error = FieldError::required("spec.targetRef".to_owned(), detail);
        verdict.errors.push(error);
    }
    if let Some(update) = &spec.update_policy {
        validate_update(update, &accepted, &mut verdict);
    }
    for (index, policy) in spec.policies().enumerate() {
        let path = format!("spec.resourcePolicy.containerPolicies[{index}]");
        if policy.container_name.as_ref().is_none_or(String::is_empty) {
            let error = FieldError::required(format!("{path}.containerName"), "");
            verdict.errors.push(error);
        }
        policy::validate(policy, &path, &accepted, &mut verdict);
    }
    if let Some(policy) = spec.pod_policy() {
        policy::validate(
            policy,
            "spec.resourcePolicy.podPolicy",
            &accepted,
            &mut verdict,
        );
    }
    if let Some(boost) = &spec.startup_boost {
        let errors = policy::validate_boost(boost, "spec.startupBoost", &accepted);
        verdict.errors.extend(errors);
    }
    let recommenders = spec.recommenders.iter().flatten().count();
    if recommenders > 1 {
        let error = FieldError::too_many("spec.recommenders".to_owned(), recommenders, 1);
        verdict.errors.push(error);
    }
    verdict.warnings.extend(unit_warnings(spec));
    verdict
}

/// The error in an object's annotation about its group of nodes.
pub(crate) fn validate_node_group(object: &Object) -> Option<FieldError> {
    let text = object.node_group()?;
    let target = object
        .spec
        .as_ref()
        .and_then(|spec| spec.target_ref.as_ref());
    let kind = target.and_then(|target| target.kind.as_deref());
    let detail = NodeGroup::parse(text, kind.unwrap_or_default()).err()?;
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    let field = format!("metadata.annotations[{NODE_GROUP}]");
    Some(FieldError::invalid(field, format!("{shown:?}"), &detail))
}

fn validate_update(update: &UpdatePolicy, accepted: &Accepted, verdict: &mut Verdict) {
    let field = |name: &str| format!("spec.updatePolicy.{name}");
    let errors = &mut verdict.errors;
    match update.update_mode.as_deref() {
        None => {
            errors.push(FieldError::required(field("updateMode"), "updateMode is required if UpdatePolicy is used"));
        }
        Some("Auto") => verdict.warnings.push(format!(
            "spec.updatePolicy: \"Auto\" mode is deprecated and will be removed in a future API version. \
             Use explicit update modes like: [{}]. See https://github.com/kubernetes/autoscaler/issues/8424 for more details.",
            MODES.join(" ")
        )),
        Some("InPlace") if !accepted.gates.in_place => {
            let detail = "in order to use UpdateMode InPlace, you must enable feature gate InPlace in the admission-controller args";
            errors.push(FieldError::forbidden(field("updateMode"), detail));
        }
        Some(mode) if !MODES.contains(&mode) => {
            errors.push(FieldError::unsupported(field("updateMode"), mode, &MODES));
        }
        Some(_) => {}
    }
    if let Some(count) = update.min_replicas.filter(|count| *count <= 0) {
        let detail = "minReplicas has to be positive";
        errors.push(FieldError::invalid(field("minReplicas"), count, detail));
    }
    let seconds = update.evict_after_oom_seconds;
    let checked = seconds.map(|seconds| at_least_one(seconds.into()));
    errors.extend(per_vpa_field(
        field("evictAfterOOMSeconds"),
        checked,
        accepted,
    ));
}

/// The shown value and the detail of an invalid one.
type Invalid = Option<(String, &'static str)>;

/// The error of a field behind the gate `PerVPAConfig`. `checked` is `None` without a value.
fn per_vpa_field(
    field: String,
    checked: Option<Invalid>,
    accepted: &Accepted,
) -> Option<FieldError> {
    let invalid = checked?;
    if !accepted.gates.per_vpa_config {
        let detail = "not supported when feature flag PerVPAConfig is disabled";
        return Some(FieldError::forbidden(field, detail));
    }
    invalid.map(|(shown, detail)| FieldError::invalid(field, shown, detail))
}

fn at_least_one(value: i64) -> Invalid {
    (value < 1).then(|| (value.to_string(), "must be greater than or equal to 1"))
}

/// The warnings about the quantities of an object.
fn unit_warnings(spec: &Spec) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut add = |field: String, resource: &ResourceName, quantity: &Quantity| {
        let slip = unit_slip(resource, quantity);
        warnings.extend(slip.map(|slip| format!("{field}: {slip}")));
    };
    for (index, policy) in spec.policies().enumerate() {
        let path = format!("spec.resourcePolicy.containerPolicies[{index}]");
        for (name, amounts) in [
            ("minAllowed", &policy.min_allowed),
            ("maxAllowed", &policy.max_allowed),
        ] {
            for (resource, quantity) in amounts.iter().flat_map(ResourceList::iter) {
                add(format!("{path}.{name}[{resource}]"), resource, quantity);
            }
        }
        if let Some(bytes) = &policy.oom_min_bump_up {
            add(format!("{path}.oomMinBumpUp"), &ResourceName::Memory, bytes);
        }
        if let Some(quantity) = boost(policy.startup_boost.as_ref()) {
            let field = format!("{path}.startupBoost.cpu.quantity");
            add(field, &ResourceName::Cpu, quantity);
        }
    }
    if let Some(quantity) = boost(spec.startup_boost.as_ref()) {
        let field = "spec.startupBoost.cpu.quantity".to_owned();
        add(field, &ResourceName::Cpu, quantity);
    }
    warnings
}

fn boost(boost: Option<&StartupBoost>) -> Option<&Quantity> {
    boost?.cpu.as_ref()?.quantity.as_ref()
}
