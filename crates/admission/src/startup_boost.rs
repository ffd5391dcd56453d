//! CPU startup boost, and the annotation from which the updater restores the original resources.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch/resource_updates.go` and
//! `pkg/utils/annotations`.

use api::pod_annotations::STARTUP_BOOST_PREFIX;
use api::vpa::{CpuStartupBoost, StartupBoostType, VerticalPodAutoscalerSpec};
use model::{ControlledValues, LimitMode, Quantity, ResourceList, ResourceName, WHOLE_POD};
use serde::Serialize;
use sizing::{ContainerSize, limit_for, proportional_limits};

use crate::review::Requirements;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BoostError {
    /// The factor is missing or less than 1.
    #[error("factor of startupBoost.cpu must be at least 1")]
    Factor,
    #[error("quantity of startupBoost.cpu is missing or negative")]
    Quantity,
}

/// The boost of a container: that of its policy, or else that of the VPA. A pod that is sized as a whole
/// has none.
pub(crate) fn boost_of<'a>(
    spec: &'a VerticalPodAutoscalerSpec,
    container: &str,
) -> Option<&'a CpuStartupBoost> {
    let policy_boost = spec
        .container_policy(container)
        .and_then(|policy| policy.startup_boost.as_ref());
    let of_vpa = spec.startup_boost.as_ref();
    let of_vpa = of_vpa.filter(|_| container != WHOLE_POD);
    policy_boost.or(of_vpa)?.cpu.as_ref()
}

/// Raises the CPU of a container, up to `max`. A recommended limit keeps its mode. `original` are the resources in the
/// pod's manifest.
pub(crate) fn apply(
    size: &mut ContainerSize,
    boost: &CpuStartupBoost,
    original: &Requirements,
    values: ControlledValues,
    limit_mode: &LimitMode,
    max: Option<&Quantity>,
) -> Result<(), BoostError> {
    let empty = ResourceList::new();
    let requests = original.requests.as_ref().unwrap_or(&empty);
    let limits = original.limits.as_ref().unwrap_or(&empty);
    let recommended = size
        .requests
        .get(&ResourceName::Cpu)
        .filter(|request| !request.is_zero());
    let base = recommended
        .or_else(|| requests.get(&ResourceName::Cpu))
        .cloned()
        .unwrap_or_default();
    let mut boosted = boosted(&base, boost)?;
    if let Some(max) = max.filter(|max| boosted > **max) {
        boosted = max.clone();
    }
    match values {
        ControlledValues::RequestsOnly => {
            if let Some(limit) = limits
                .get(&ResourceName::Cpu)
                .filter(|limit| boosted > **limit)
            {
                boosted = just_below(limit);
            }
        }
        ControlledValues::RequestsAndLimits if size.removed_limits.contains(&ResourceName::Cpu) => {
        }
        ControlledValues::RequestsAndLimits
            if size.limits.get(&ResourceName::Cpu).is_some()
                && *limit_mode != LimitMode::Proportional =>
        {
            let limit = limit_for(limit_mode, &ResourceName::Cpu, Some(&boosted), None);
            if let Some(limit) = limit {
                size.limits.insert(ResourceName::Cpu, limit);
            }
        }
        ControlledValues::RequestsAndLimits => {
            let request = [(ResourceName::Cpu, boosted.clone())].into_iter().collect();
            let limits = proportional_limits(limits, requests, &request, None).limits;
            if let Some(limit) = limits.get(&ResourceName::Cpu) {
                size.limits.insert(ResourceName::Cpu, limit.clone());
            }
        }
    }
    size.requests.insert(ResourceName::Cpu, boosted);
    Ok(())
}

fn boosted(base: &Quantity, boost: &CpuStartupBoost) -> Result<Quantity, BoostError> {
    match boost.kind {
        StartupBoostType::Factor => {
            let factor = boost
                .factor
                .filter(|factor| *factor >= 1)
                .ok_or(BoostError::Factor)?;
            Ok(Quantity::from_milli(
                (base.milli_value() as f64 * f64::from(factor)) as i64,
            ))
        }
        StartupBoostType::Quantity => {
            let quantity = boost.quantity.as_ref().filter(|more| !more.is_negative());
            Ok(base + quantity.ok_or(BoostError::Quantity)?)
        }
    }
}

/// One millicore less than the limit, so that request and limit stay different; the limit itself if
/// it is at most one millicore.
fn just_below(limit: &Quantity) -> Quantity {
    let step = Quantity::from_milli(1);
    if *limit > step {
        limit - &step
    } else {
        limit.clone()
    }
}

#[derive(Serialize)]
struct Original {
    requests: ResourceList,
    limits: ResourceList,
}

pub(crate) fn annotation(container: &str, original: &Requirements) -> (String, String) {
    let cpu_and_memory = |list: &Option<ResourceList>| -> ResourceList {
        let sized = [ResourceName::Cpu, ResourceName::Memory];
        let list = list.as_ref();
        sized
            .into_iter()
            .filter_map(|name| Some((name.clone(), list?.get(&name)?.clone())))
            .collect()
    };
    let original = Original {
        requests: cpu_and_memory(&original.requests),
        limits: cpu_and_memory(&original.limits),
    };
    let text = serde_json::to_string(&original).unwrap_or_default();
    (format!("{STARTUP_BOOST_PREFIX}{container}"), text)
}
