//! Recommendations as metrics, under the former names of kube-state-metrics. Off by default, and
//! limited in the number of series, of which the omitted ones are counted.
//!
//! CPU in cores, memory in bytes. The series are those of the last resync, so they end with their
//! objects and with the lease.

use std::sync::Arc;

use model::{ContainerRecommendation, Cpu};
use parking_lot::Mutex;
use prometheus::{GaugeVec, IntGauge, Registry};
use runtime::metrics::{count, register_on_scrape};
use view::Vpa;

use vertical::recommender_state::Decision;

runtime::metrics! {
    struct Rows {
        target: GaugeVec { namespace, verticalpodautoscaler, target_api_version, target_kind, target_name, container, resource, unit }
            = "kube_verticalpodautoscaler_status_recommendation_containerrecommendations_target",
            "Recommendation of a VerticalPodAutoscaler for a container.";
        lower_bound: GaugeVec { namespace, verticalpodautoscaler, target_api_version, target_kind, target_name, container, resource, unit }
            = "kube_verticalpodautoscaler_status_recommendation_containerrecommendations_lowerbound",
            "Recommendation of a VerticalPodAutoscaler for a container.";
        upper_bound: GaugeVec { namespace, verticalpodautoscaler, target_api_version, target_kind, target_name, container, resource, unit }
            = "kube_verticalpodautoscaler_status_recommendation_containerrecommendations_upperbound",
            "Recommendation of a VerticalPodAutoscaler for a container.";
        uncapped_target: GaugeVec { namespace, verticalpodautoscaler, target_api_version, target_kind, target_name, container, resource, unit }
            = "kube_verticalpodautoscaler_status_recommendation_containerrecommendations_uncappedtarget",
            "Recommendation of a VerticalPodAutoscaler for a container.";
        omitted: IntGauge = "vpa_recommender_recommendation_series_omitted",
            "Series of recommendations omitted because there are more than 20,000.";
    }
}

/// Maximum number of series: those of 2,500 containers, about 10 MB of a scrape.
pub(super) const LIMIT: usize = 20_000;

#[derive(Debug, Clone)]
pub(crate) struct Recommendations {
    limit: usize,
    shown: Arc<Mutex<Shown>>,
}

/// Objects with shown recommendations, and the number of omitted series.
type Shown = (Vec<ShownObject>, usize);

#[derive(Debug)]
struct ShownObject {
    vpa: Arc<Vpa>,
    containers: Vec<ContainerRecommendation>,
}

impl Recommendations {
    /// Registers metrics with at most `limit` series.
    pub(super) fn register(registry: &Registry, limit: usize) -> Result<Self, prometheus::Error> {
        let (rows, shown) = (Rows::new()?, Arc::<Mutex<Shown>>::default());
        let state = Arc::clone(&shown);
        register_on_scrape(registry, rows.collectors(), move || rows.set(&state.lock()))?;
        Ok(Self { limit, shown })
    }

    /// Replaces the shown recommendations, in their order. A container is shown with all its values
    /// or not at all.
    pub(super) fn show(&self, decisions: &[&Decision]) {
        let (mut left, mut omitted) = (self.limit, 0);
        let mut shown = Vec::new();
        for decision in decisions {
            let mut containers = Vec::new();
            for container in super::containers(decision) {
                let count = series(container).count();
                if count <= left {
                    left -= count;
                    containers.push(container.clone());
                } else {
                    // Smaller ones that come later would change places with every change of this
                    // one.
                    left = 0;
                    omitted += count;
                }
            }
            if !containers.is_empty() {
                shown.push(ShownObject {
                    vpa: Arc::clone(&decision.vpa),
                    containers,
                });
            }
        }
        *self.shown.lock() = (shown, omitted);
    }
}

impl Rows {
    fn set(&self, (objects, omitted): &Shown) {
        self.reset();
        self.omitted.set(count(*omitted));
        let gauges = [
            &self.target,
            &self.lower_bound,
            &self.upper_bound,
            &self.uncapped_target,
        ];
        for ShownObject { vpa, containers } in objects {
            let target = vpa.target();
            for container in containers {
                for (bound, resource, unit, value) in series(container) {
                    let labels = [
                        &vpa.key.namespace,
                        &vpa.key.name,
                        &target.api_version,
                        &target.kind,
                        &target.name,
                        &container.container_name,
                        resource,
                        unit,
                    ];
                    gauges[bound].with_label_values(&labels).set(value);
                }
            }
        }
    }
}

/// The index of the bound, resource, unit and value of every series of a container.
fn series(
    container: &ContainerRecommendation,
) -> impl Iterator<Item = (usize, &'static str, &'static str, f64)> + '_ {
    let bounds = [
        &container.target,
        &container.lower_bound,
        &container.upper_bound,
        &container.uncapped_target,
    ];
    bounds.into_iter().enumerate().flat_map(|(bound, list)| {
        let cpu = list
            .cpu()
            .map(|cpu| (bound, "cpu", "core", Cpu::cores(cpu)));
        let memory = list
            .memory()
            .map(|memory| (bound, "memory", "byte", memory.bytes() as f64));
        cpu.into_iter().chain(memory)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, recommended};

    const PREFIX: &str =
        "kube_verticalpodautoscaler_status_recommendation_containerrecommendations_";

    struct Read {
        recommendations: Recommendations,
        registry: Registry,
    }

    impl Read {
        fn new(limit: usize) -> Self {
            let registry = Registry::new();
            let recommendations = Recommendations::register(&registry, limit).expect("valid names");
            Self {
                recommendations,
                registry,
            }
        }

        /// `expected`: how many series of each object are shown, and how many of all are left out.
        fn check(&self, objects: &[Decision], expected: &[(&str, usize)], omitted: usize) {
            self.recommendations
                .show(&objects.iter().collect::<Vec<_>>());
            let lines = fixture::samples(&self.registry);
            let count = |name: &str| {
                let label = format!("verticalpodautoscaler=\"{name}\"");
                lines.iter().filter(|line| line.contains(&label)).count()
            };
            for (name, series) in expected {
                assert_eq!(count(name), *series, "{name} in {lines:#?}");
            }
            assert!(
                lines.contains(&format!(
                    "vpa_recommender_recommendation_series_omitted {omitted}"
                )),
                "{lines:#?}"
            );
        }
    }

    #[test]
    fn names_labels_and_units_are_those_of_kube_state_metrics() {
        let read = Read::new(100);
        read.recommendations.show(&[&recommended("web", &["main"])]);
        let labels = |resource: &str, unit: &str| {
            format!(
                r#"{{container="main",namespace="shop",resource="{resource}",target_api_version="apps/v1",target_kind="Deployment",target_name="d",unit="{unit}",verticalpodautoscaler="web"}}"#
            )
        };
        let (cpu, memory) = (labels("cpu", "core"), labels("memory", "byte"));
        assert_eq!(
            fixture::samples(&read.registry),
            [
                format!("{PREFIX}lowerbound{cpu} 0.025"),
                format!("{PREFIX}target{cpu} 0.25"),
                format!("{PREFIX}target{memory} 1024"),
                format!("{PREFIX}uncappedtarget{cpu} 0.03"),
                format!("{PREFIX}upperbound{cpu} 1"),
                "vpa_recommender_recommendation_series_omitted 0".to_owned(),
            ]
        );
    }

    #[test]
    fn there_are_never_more_series_than_the_limit_and_objects_that_are_gone_are_not_shown() {
        let read = Read::new(11);
        let three = [
            recommended("a", &["x"]),
            recommended("b", &["x", "y"]),
            recommended("c", &["x"]),
        ];
        read.check(&three, &[("a", 5), ("b", 5), ("c", 0)], 10);
        read.check(&three[1..], &[("a", 0), ("b", 10), ("c", 0)], 5);
        read.check(&three[2..], &[("b", 0), ("c", 5)], 0);
        read.check(&[], &[("a", 0), ("b", 0), ("c", 0)], 0);
    }
}
