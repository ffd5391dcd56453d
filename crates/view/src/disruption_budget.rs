//! A `PodDisruptionBudget`, reduced to the disruptions that it allows now.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use model::{ParseSelectorError, Selector};

use crate::table::ObjectKey;
use crate::workload_controller::of_selector;

/// Time after which the disruption controller forgets an admitted eviction whose pod stays.
///
/// Source: `DeletionTimeout` in `pkg/controller/disruption/disruption.go`.
const DELETION_TIMEOUT: jiff::SignedDuration = jiff::SignedDuration::from_mins(2);

#[derive(Debug, Clone, PartialEq)]
pub struct DisruptionBudget {
    pub key: ObjectKey,
    /// Selector of its pods, within its namespace.
    pub selector: Result<Selector, ParseSelectorError>,
    pub generation: i64,
    /// Generation of the status. While it is behind `generation`, the API server refuses evictions.
    pub observed_generation: i64,
    /// Number of pods that may be evicted now.
    pub disruptions_allowed: i32,
    pub current_healthy: i32,
    pub desired_healthy: i32,
    /// Names of pods with an admitted eviction that is not observed yet, and its time.
    pub disrupted: BTreeSet<(String, Timestamp)>,
    /// Whether unready pods may be evicted even while no disruption is allowed
    /// (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub always_allows_unhealthy: bool,
}

impl DisruptionBudget {
    pub fn from_k8s(object: PodDisruptionBudget) -> Self {
        let (metadata, spec) = (object.metadata, object.spec.unwrap_or_default());
        let status = object.status.unwrap_or_default();
        Self {
            key: ObjectKey::of(metadata.namespace, metadata.name),
            selector: of_selector(spec.selector),
            generation: metadata.generation.unwrap_or_default(),
            observed_generation: status.observed_generation.unwrap_or_default(),
            disruptions_allowed: status.disruptions_allowed.unwrap_or_default(),
            current_healthy: status.current_healthy.unwrap_or_default(),
            desired_healthy: status.desired_healthy.unwrap_or_default(),
            disrupted: status
                .disrupted_pods
                .into_iter()
                .flatten()
                .map(|(name, time)| (name, time.0))
                .collect(),
            always_allows_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref()
                == Some("AlwaysAllow"),
        }
    }

    /// Whether the status belongs to the present specification.
    pub fn is_current(&self) -> bool {
        self.observed_generation >= self.generation
    }

    /// Whether the API server admits the eviction of a pod. The eviction of an unready pod is no
    /// disruption while `current_healthy` is at least `desired_healthy`.
    ///
    /// Source: `checkAndDecrement` and `canIgnorePDB` in
    /// `pkg/registry/core/pod/storage/eviction.go`.
    pub fn allows(&self, is_ready: bool) -> bool {
        if !is_ready {
            let enough = self.current_healthy >= self.desired_healthy && self.desired_healthy > 0;
            if self.always_allows_unhealthy || enough {
                return true;
            }
        }
        self.is_current() && self.disruptions_allowed > 0
    }

    /// Whether an eviction of the pod of this name was admitted and is not observed yet at `now`.
    pub fn is_disrupting(&self, pod: &str, now: Timestamp) -> bool {
        self.disrupted
            .iter()
            .any(|(name, at)| name == pod && now.duration_since(*at) < DELETION_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use model::Labels;
    use serde_json::{Value, json};

    use super::*;

    fn budget(spec: &Value, status: &Value) -> DisruptionBudget {
        let object = json!({
            "metadata": {"namespace": "shop", "name": "web", "generation": 2, "managedFields": []},
            "spec": spec,
            "status": status,
        });
        DisruptionBudget::from_k8s(serde_json::from_value(object).expect("a budget"))
    }

    /// Checks whether a ready pod and an unready pod may be evicted.
    fn check(
        policy: &str,
        [allowed, healthy, desired]: [i32; 3],
        observed: i64,
        expected: [bool; 2],
    ) {
        let status = json!({
            "observedGeneration": observed, "disruptionsAllowed": allowed, "currentHealthy": healthy,
            "desiredHealthy": desired, "expectedPods": 3,
        });
        let budget = budget(&json!({"unhealthyPodEvictionPolicy": policy}), &status);
        let found = [true, false].map(|is_ready| budget.allows(is_ready));
        assert_eq!(found, expected, "{budget:?}");
    }

    #[test]
    fn a_budget_admits_the_evictions_that_the_api_server_admits() {
        check("IfHealthyBudget", [1, 3, 2], 2, [true, true]);
        check("IfHealthyBudget", [0, 2, 2], 2, [false, true]);
        check("IfHealthyBudget", [0, 1, 2], 2, [false, false]);
        check("AlwaysAllow", [0, 1, 2], 2, [false, true]);
        check("IfHealthyBudget", [0, 0, 0], 2, [false, false]);
    }

    #[test]
    fn a_status_of_an_older_generation_does_not_count() {
        check("IfHealthyBudget", [1, 1, 2], 1, [false, false]);
    }

    #[test]
    fn an_empty_selector_means_all_pods_and_none_means_no_pod() {
        let labels = Labels::from_iter([("app", "web")]);
        for (spec, expected) in [
            (json!({"selector": {}}), true),
            (json!({"selector": {"matchLabels": {"app": "web"}}}), true),
            (json!({}), false),
        ] {
            let selector = budget(&spec, &json!({})).selector.expect("a selector");
            assert_eq!(selector.matches(&labels), expected, "{spec}");
        }
    }

    #[test]
    fn an_eviction_that_was_let_through_is_on_its_way_for_two_minutes() {
        let status = json!({
            "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}, "disruptionsAllowed": 0, "currentHealthy": 1,
            "desiredHealthy": 1, "expectedPods": 1,
        });
        let budget = budget(&json!({}), &status);
        let at = |text: &str| text.parse().expect("a time");
        assert!(budget.is_disrupting("web-1", at("2026-01-01T00:01:59Z")));
        assert!(!budget.is_disrupting("web-1", at("2026-01-01T00:02:00Z")));
        assert!(!budget.is_disrupting("web-2", at("2026-01-01T00:00:00Z")));
    }
}
