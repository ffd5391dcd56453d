//! Recommendations capped for one pod, as in the updater and the webhook.

use std::collections::BTreeMap;

use model::{Allowed, ControlledValues, Limits, NamespaceLimits, Recommendation, ResourceList};
use serde::Deserialize;
use serde_json::{Value, json};
use sizing::{DEFAULT_CONTAINER, PodContainer, cap_for_pod};
use testing::vectors::each_case;

use crate::limits::Resources;
use crate::objects::VpaSpec;

#[derive(Deserialize)]
struct Case {
    vpa: Vpa,
    pod: Pod,
    limit_ranges: Option<Vec<LimitRange>>,
    expect: Expected,
}

#[derive(Deserialize)]
struct Vpa {
    spec: VpaSpec,
    #[serde(default)]
    status: VpaStatus,
}

#[derive(Deserialize, Default)]
struct VpaStatus {
    recommendation: Option<Recommendation>,
}

#[derive(Deserialize)]
struct Pod {
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    resources: Resources,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    #[serde(default)]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
struct ContainerStatus {
    name: String,
    resources: Option<Resources>,
}

#[derive(Deserialize)]
struct LimitRange {
    spec: LimitRangeSpec,
}

#[derive(Deserialize)]
struct LimitRangeSpec {
    limits: Vec<LimitRangeItem>,
}

#[derive(Deserialize)]
struct LimitRangeItem {
    #[serde(rename = "type")]
    kind: String,
    min: Option<ResourceList>,
    max: Option<ResourceList>,
    default: Option<ResourceList>,
}

#[derive(Deserialize)]
struct Expected {
    /// Upstream panics; ours must not.
    #[serde(default)]
    panic: bool,
    recommendation: Option<Value>,
    annotations: Option<BTreeMap<String, Vec<String>>>,
}

fn allowed<'a>(spec: &'a VpaSpec, container: &str) -> Allowed<'a> {
    let policies = spec.resource_policy.iter();
    let mut policies = policies.flat_map(|policy| &policy.container_policies);
    let mut all = policies.clone();
    let named = policies.find(|policy| policy.container_name == container);
    let policy = named.or_else(|| all.rfind(|policy| policy.container_name == DEFAULT_CONTAINER));
    policy.map_or_else(Allowed::default, |policy| Allowed {
        min: Some(&policy.min_allowed),
        max: Some(&policy.max_allowed),
        values: match policy.controlled_values.as_deref() {
            Some("RequestsOnly") => ControlledValues::RequestsOnly,
            _ => ControlledValues::RequestsAndLimits,
        },
    })
}

impl Case {
    fn containers(&self) -> Vec<PodContainer<'_>> {
        let reported = |name: &str| {
            let mut statuses = self.pod.status.container_statuses.iter();
            statuses
                .find(|status| status.name == name)?
                .resources
                .as_ref()
        };
        let containers = self.pod.spec.containers.iter().map(|container| {
            let Resources { requests, limits } =
                reported(&container.name).unwrap_or(&container.resources);
            PodContainer {
                name: &container.name,
                requests,
                limits,
                allowed: allowed(&self.vpa.spec, &container.name),
                limit_modes: model::LimitModes::PROPORTIONAL,
            }
        });
        containers.collect()
    }

    fn limits(&self, kind: &str) -> Option<Limits> {
        let ranges = self
            .limit_ranges
            .iter()
            .flatten()
            .flat_map(|range| &range.spec.limits);
        Limits::merged(ranges.filter(|item| item.kind == kind).map(|item| Limits {
            min: item.min.clone(),
            max: item.max.clone(),
            default: item.default.clone(),
        }))
    }
}

#[test]
fn vectors_capping_pod() {
    each_case("vpa/capping_pod", |index, case: Case| {
        let limits = NamespaceLimits {
            containers: case.limits("Container"),
            pods: case.limits("Pod"),
            ..NamespaceLimits::default()
        };
        let recommendation = case.vpa.status.recommendation.clone();
        let has_policy = case.vpa.spec.resource_policy.is_some();
        let recommendation = recommendation.or_else(|| has_policy.then(Recommendation::default));
        let capped = recommendation
            .map(|recommendation| cap_for_pod(&recommendation, &case.containers(), &limits));
        if case.expect.panic {
            return;
        }
        let (recommendation, mut notes) = match capped {
            Some(capped) => (Some(json!(capped.recommendation)), capped.notes),
            None => (None, BTreeMap::new()),
        };
        for notes in notes.values_mut() {
            notes.sort();
        }
        assert_eq!(recommendation, case.expect.recommendation, "case {index}");
        let expected = case.expect.annotations.unwrap_or_default();
        assert_eq!(notes, expected, "case {index}");
    });
}
