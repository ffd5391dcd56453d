//! Recommendations that were rolled back: pods got worse with one, so their workload keeps the former requests.
//!
//! The updater writes the annotation, the webhook and the updater read it, so that it survives restarts.

use jiff::Timestamp;
use model::{Quantity, Recommendation, ResourceList};
use serde::{Deserialize, Serialize};

use crate::vpa::VerticalPodAutoscaler;

/// Annotation that Plimsoll writes on a VPA: a recommendation with which pods got worse, and the requests that
/// they have in its place; see docs/updating.md#waves.
pub const ROLLED_BACK: &str = "plimsoll.dev/rolled-back";
/// Annotation that users set on a VPA: `PromQL` with a value by `pod`, larger is worse, which new requests must
/// not double; see docs/updating.md#health-by-prometheus.
pub const WAVE_QUERY: &str = "plimsoll.dev/wave-query";
/// Maximum length of that query in characters.
pub const MAX_WAVE_QUERY: usize = 8000;
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
    /// The rollback of an object's recommendation, unless it is another one by now.
    #[must_use]
    pub fn of(vpa: &VerticalPodAutoscaler, recommendation: &Recommendation) -> Option<Self> {
        let annotations = vpa.metadata.annotations.as_ref()?;
        let rollback: Self = serde_json::from_str(annotations.get(ROLLED_BACK)?).ok()?;
        rollback.refuses(recommendation).then_some(rollback)
    }

    /// Whether this is still the recommendation with which pods got worse: none of the targets that differ
    /// from the former requests by a tenth has changed by a tenth. If none differs so much, all count.
    fn refuses(&self, recommendation: &Recommendation) -> bool {
        let targets = self.refused.containers.iter().flat_map(|refused| {
            let name = &refused.container_name;
            let [former, now] = [&self.former, recommendation].map(|it| target(it, name));
            (refused.target.iter()).map(move |(resource, refused)| {
                let [former, now] = [former, now].map(|it| it?.get(resource));
                (is_close(refused, former), is_close(refused, now))
            })
        });
        let targets: Vec<_> = targets.collect();
        let all_are_close = targets.iter().all(|(is_former, _)| *is_former);
        let mut counting = targets
            .iter()
            .filter(|(is_former, _)| all_are_close || !is_former);
        !targets.is_empty() && counting.all(|(_, is_unchanged)| *is_unchanged)
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn recommendation(cpu: &str, memory: &str) -> Recommendation {
        let target = json!({"cpu": cpu, "memory": memory});
        let containers = json!([{"containerName": "app", "target": target}]);
        serde_json::from_value(json!({"containerRecommendations": containers})).expect("valid")
    }

    /// Checks whether an object with this annotation refuses a recommendation.
    fn check(annotation: &str, [cpu, memory]: [&str; 2], refuses: bool) {
        let target = json!({"kind": "Deployment", "name": "web"});
        let vpa: Value = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "annotations": {ROLLED_BACK: annotation}},
            "spec": {"targetRef": target},
        });
        let vpa = crate::vpa::parse(vpa).expect("a VPA object");
        let rollback = Rollback::of(&vpa, &recommendation(cpu, memory));
        assert_eq!(rollback.is_some(), refuses, "{cpu} {memory}: {annotation}");
    }

    fn annotation(refused: Recommendation, former: Recommendation) -> String {
        let rollback = Rollback {
            at: Timestamp::UNIX_EPOCH,
            problem: String::new(),
            refused,
            former,
        };
        json!(rollback).to_string()
    }

    #[test]
    fn the_former_requests_count_until_the_target_changes() {
        let text = annotation(recommendation("1", "100Mi"), recommendation("1", "1Gi"));
        check(&text, ["1", "100Mi"], true);
        check(&text, ["1050m", "95Mi"], true);
        // Another CPU says nothing about the memory with which pods got worse.
        check(&text, ["2", "100Mi"], true);
        check(&text, ["1", "120Mi"], false);
        check("{}", ["1", "100Mi"], false);
    }

    #[test]
    fn small_differences_that_add_up_end_by_another_target_too() {
        let text = annotation(
            recommendation("1", "100Mi"),
            recommendation("1060m", "106Mi"),
        );
        check(&text, ["1", "100Mi"], true);
        check(&text, ["2", "100Mi"], false);
        check(&text, ["1", "120Mi"], false);
    }

    #[test]
    fn an_empty_recommendation_refuses_nothing() {
        let text = annotation(Recommendation::default(), Recommendation::default());
        check(&text, ["1", "100Mi"], false);
    }
}
