//! Recommendations capped for one pod, as in the updater and the webhook.

use std::collections::BTreeMap;

use model::{Allowed, ControlledValues, LimitModes, Limits, NamespaceLimits, Recommendation};
use serde::Deserialize;
use serde_json::{Value, json};
use sizing::{DEFAULT_CONTAINER, PodContainer, cap_for_pod};
use testing::vectors::{each_case, items, or_default};

use crate::limits::Resources;
use crate::objects::VpaSpec;

#[derive(Deserialize)]
struct Case {
    vpa: Vpa,
    pod: Value,
    #[serde(default)]
    limit_ranges: Value,
    expect: Expected,
}

#[derive(Deserialize)]
struct Vpa {
    spec: VpaSpec,
    #[serde(default)]
    status: Value,
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
    /// The containers by name, with their present resources.
    fn containers(&self) -> Vec<(&str, Resources)> {
        let container = |container: &Value| {
            let mut statuses = items(&self.pod["status"]["containerStatuses"]);
            let status = statuses.find(|status| status["name"] == container["name"]);
            let reported = status.map(|status| &status["resources"]);
            let reported = reported.filter(|resources| !resources.is_null());
            or_default(reported.unwrap_or(&container["resources"]))
        };
        let containers = items(&self.pod["spec"]["containers"]);
        containers
            .map(|it| (it["name"].as_str().expect("a name"), container(it)))
            .collect()
    }

    fn limits(&self, kind: &str) -> Option<Limits> {
        let ranges = items(&self.limit_ranges);
        let limits = ranges.flat_map(|range| items(&range["spec"]["limits"]));
        Limits::merged(
            limits
                .filter(|item| item["type"] == kind)
                .map(|item| Limits {
                    min: or_default(&item["min"]),
                    max: or_default(&item["max"]),
                    default: or_default(&item["default"]),
                }),
        )
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
        let recommendation: Option<Recommendation> = or_default(&case.vpa.status["recommendation"]);
        let has_policy = case.vpa.spec.resource_policy.is_some();
        let recommendation = recommendation.or_else(|| has_policy.then(Recommendation::default));
        let containers = case.containers();
        let containers = containers.iter().map(|(name, resources)| PodContainer {
            name,
            requests: &resources.requests,
            limits: &resources.limits,
            allowed: allowed(&case.vpa.spec, name),
            limit_modes: LimitModes::PROPORTIONAL,
        });
        let containers: Vec<_> = containers.collect();
        let capped =
            recommendation.map(|recommendation| cap_for_pod(&recommendation, &containers, &limits));
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
