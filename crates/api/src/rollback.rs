//! Recommendations that were rolled back: pods got worse with one, so their workload keeps the former requests.
//!
//! The updater writes the annotation, the webhook and the updater read it, so that it survives restarts.

use std::borrow::Cow;

use jiff::Timestamp;
use model::{Quantity, Recommendation, ResourceList};
use serde::{Deserialize, Serialize};

use crate::vpa::VerticalPodAutoscaler;

/// Annotation that Plimsoll writes on a VPA: a recommendation with which pods got worse, and the requests that
/// they have in its place; see docs/updating.md#waves.
pub const ROLLED_BACK: &str = "plimsoll.dev/rolled-back";
/// The relative difference from which a target is another one.
const TOLERANCE: f64 = 0.1;

/// The value of the annotation [`ROLLED_BACK`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollback {
    /// Time of the decision.
    pub at: Timestamp,
    /// Sentence with numbers of pods.
    pub problem: String,
    /// The recommendation with which pods got worse.
    pub refused: Recommendation,
    /// The former requests as a recommendation.
    pub former: Recommendation,
}

impl Rollback {
    /// The value on an object, if it can be parsed.
    #[must_use]
    pub fn of(vpa: &VerticalPodAutoscaler) -> Option<Self> {
        let annotations = vpa.metadata.annotations.as_ref()?;
        serde_json::from_str(annotations.get(ROLLED_BACK)?).ok()
    }

    /// Whether this is still the recommendation with which pods got worse: no target that differs from the
    /// former requests has changed by a tenth.
    #[must_use]
    pub fn refuses(&self, recommendation: &Recommendation) -> bool {
        self.refused.containers.iter().all(|refused| {
            let name = &refused.container_name;
            let [former, now] = [&self.former, recommendation].map(|it| target(it, name));
            refused.target.iter().all(|(resource, refused)| {
                let [former, now] = [former, now].map(|it| it?.get(resource));
                is_close(refused, former) || is_close(refused, now)
            })
        })
    }
}

fn target<'a>(of: &'a Recommendation, container: &str) -> Option<&'a ResourceList> {
    let mut containers = of.containers.iter();
    let found = containers.find(|it| it.container_name == container)?;
    Some(&found.target)
}

fn is_close(refused: &Quantity, other: Option<&Quantity>) -> bool {
    let refused = refused.to_f64();
    other.is_some_and(|other| (other.to_f64() - refused).abs() < TOLERANCE * refused)
}

/// The recommendation of an object for its pods: the former requests while it is rolled back.
#[must_use]
pub fn not_rolled_back<'a>(
    vpa: &VerticalPodAutoscaler,
    recommendation: Cow<'a, Recommendation>,
) -> Cow<'a, Recommendation> {
    match Rollback::of(vpa) {
        Some(rollback) if rollback.refuses(&recommendation) => Cow::Owned(rollback.former),
        _ => recommendation,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn recommendation(cpu: &str, memory: &str) -> Recommendation {
        let target = json!({"cpu": cpu, "memory": memory});
        let containers = json!([{"containerName": "app", "target": target}]);
        serde_json::from_value(json!({"containerRecommendations": containers})).expect("valid")
    }

    /// Checks what a recommendation becomes for an object with this annotation.
    fn check(annotation: &str, recommended: [&str; 2], expected: [&str; 2]) {
        let target = json!({"kind": "Deployment", "name": "web"});
        let vpa: Value = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "annotations": {ROLLED_BACK: annotation}},
            "spec": {"targetRef": target},
        });
        let vpa = crate::vpa::parse(vpa).expect("a VPA object");
        let [recommended, expected] =
            [recommended, expected].map(|[cpu, memory]| recommendation(cpu, memory));
        assert_eq!(
            *not_rolled_back(&vpa, Cow::Borrowed(&recommended)),
            expected
        );
    }

    #[test]
    fn the_former_requests_count_until_the_target_changes() {
        let rollback = Rollback {
            at: Timestamp::UNIX_EPOCH,
            problem: String::new(),
            refused: recommendation("1", "100Mi"),
            former: recommendation("1", "1Gi"),
        };
        let text = json!(rollback).to_string();
        check(&text, ["1", "100Mi"], ["1", "1Gi"]);
        check(&text, ["1050m", "95Mi"], ["1", "1Gi"]);
        // Another CPU says nothing about the memory with which pods got worse.
        check(&text, ["2", "100Mi"], ["1", "1Gi"]);
        check(&text, ["1", "120Mi"], ["1", "120Mi"]);
        check("{}", ["1", "100Mi"], ["1", "100Mi"]);
    }
}
