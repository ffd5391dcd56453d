//! Load of a pod before it runs.
//!
//! Sources in order: VPA recommendation, EHPA forecast, limits, multiplied requests, a default.

use std::collections::HashMap;

use model::{Quantity, Recommendation, ResourceList, ResourceName, WHOLE_POD};

use crate::{Amounts, Container, PodSpec, Policy, TargetLoadPacking, rounded};

/// Source of a predicted load. A later one says less about the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadSource {
    /// Target of the VPA recommendation.
    Recommendation,
    Forecast,
    Limit,
    /// Request times the multiplier.
    Request,
    /// The default, for a container without any of these.
    Default,
}

/// Load of a resource for containers without recommendation and forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fallback {
    /// The request, or 0. Without any recommendation, that of the pod with its init containers.
    Request,
    /// The limit, else the request times the multiplier, else the default.
    Limit {
        multiplier: f64,
        /// Load without request: millicores or bytes.
        default: i64,
    },
}

/// Fallbacks for CPU in millicores and for memory in bytes; those of [`TargetLoadPacking`] unless set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionConfig {
    pub cpu: Fallback,
    pub memory: Fallback,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodForecast {
    pub cpu_millicores: Option<i64>,
    pub memory_bytes: Option<i64>,
}

/// Predicted load of a pod, with the least certain source of its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedLoad {
    /// The load, at least 0.
    pub load: Amounts,
    pub cpu_source: LoadSource,
}

impl Default for PredictionConfig {
    fn default() -> Self {
        Self::of_packing(&TargetLoadPacking::default())
    }
}

impl PredictionConfig {
    /// The load that Trimaran's plugin of this policy expects of a pod.
    pub fn of(policy: &Policy) -> Self {
        match policy {
            Policy::TargetLoadPacking(plugin) => Self::of_packing(plugin),
            // It scores requests and limits.
            Policy::LowRiskOverCommitment(_) => Self::default(),
            Policy::LoadVariationRiskBalancing(_) | Policy::Peaks => Self {
                cpu: Fallback::Request,
                memory: Fallback::Request,
            },
        }
    }

    fn of_packing(plugin: &TargetLoadPacking) -> Self {
        let default = plugin.default_requests;
        let limit = |multiplier, default| Fallback::Limit {
            multiplier,
            default,
        };
        Self {
            cpu: limit(plugin.requests_multiplier, default.cpu_millicores),
            memory: limit(1.0, default.memory_bytes),
        }
    }
}

/// Predicted load of a pod.
///
/// A forecast covers all containers, so it comes before the rest when the recommendation lacks a
/// container. Init containers do not count.
pub fn predict(
    pod: &PodSpec,
    recommendation: Option<&Recommendation>,
    forecast: PodForecast,
    config: &PredictionConfig,
) -> PredictedLoad {
    // By name, since a tenant can write long lists.
    let mut targets = HashMap::new();
    for listed in recommendation.iter().flat_map(|it| &it.containers) {
        let name = listed.container_name.as_str();
        targets.entry(name).or_insert(&listed.target);
    }
    let of = |resource, forecast, fallback| {
        let prediction = Prediction {
            resource,
            amount: match resource {
                ResourceName::Cpu => Quantity::milli_value,
                _ => Quantity::value,
            },
            fallback,
        };
        prediction.of_pod(pod, &targets, forecast)
    };
    let (cpu, cpu_source) = of(&ResourceName::Cpu, forecast.cpu_millicores, config.cpu);
    let (memory, _) = of(&ResourceName::Memory, forecast.memory_bytes, config.memory);
    PredictedLoad {
        load: Amounts {
            cpu_millicores: cpu,
            memory_bytes: memory,
        },
        cpu_source,
    }
}

struct Prediction<'a> {
    resource: &'a ResourceName,
    amount: fn(&Quantity) -> i64,
    fallback: Fallback,
}

impl Prediction<'_> {
    fn of_pod(
        &self,
        pod: &PodSpec,
        targets: &HashMap<&str, &ResourceList>,
        forecast: Option<i64>,
    ) -> (i64, LoadSource) {
        let overhead = self.in_list(&pod.overhead).unwrap_or(0);
        if let Some(of_pod) = targets.get(WHOLE_POD).and_then(|list| self.in_list(list)) {
            return (of_pod.saturating_add(overhead), LoadSource::Recommendation);
        }
        let target = |container: &Container| self.in_list(targets.get(container.name.as_str())?);
        let is_recommended = pod.containers.iter().all(|it| target(it).is_some());
        if let (false, Some(forecast)) = (is_recommended, forecast) {
            return (forecast.max(0), LoadSource::Forecast);
        }
        if self.fallback == Fallback::Request
            && !pod.containers.iter().any(|it| target(it).is_some())
        {
            return (self.of_requests(pod.requests()), LoadSource::Request);
        }
        if let (false, Some((load, source))) = (is_recommended, self.of_pod_level(pod)) {
            return (load.saturating_add(overhead), source);
        }
        let mut source = LoadSource::Recommendation;
        let mut load = overhead;
        for container in &pod.containers {
            let (amount, from) = target(container).map_or_else(
                || self.of_container(container),
                |target| (target, LoadSource::Recommendation),
            );
            load = load.saturating_add(amount);
            source = source.max(from);
        }
        (load, source)
    }

    /// Load by pod-level resources; `None` without any, or when each container has a limit.
    fn of_pod_level(&self, pod: &PodSpec) -> Option<(i64, LoadSource)> {
        let is_limited = |container: &Container| self.in_list(&container.limits).is_some();
        if !pod.containers.is_empty() && pod.containers.iter().all(is_limited) {
            return None;
        }
        self.of_lists(&pod.pod_level.limits, &pod.pod_level.requests)
    }

    fn of_container(&self, container: &Container) -> (i64, LoadSource) {
        let found = self.of_lists(&container.limits, &container.requests);
        found.unwrap_or(match self.fallback {
            Fallback::Request => (0, LoadSource::Request),
            Fallback::Limit { default, .. } => (default.max(0), LoadSource::Default),
        })
    }

    /// Load by a limit or a request, where there is one.
    fn of_lists(
        &self,
        limits: &ResourceList,
        requests: &ResourceList,
    ) -> Option<(i64, LoadSource)> {
        let request = self.in_list(requests);
        match self.fallback {
            Fallback::Request => request.map(|request| (request, LoadSource::Request)),
            Fallback::Limit { multiplier, .. } => {
                let limit = self.in_list(limits).map(|limit| (limit, LoadSource::Limit));
                let multiplied = |request| rounded(request as f64 * multiplier.max(0.0));
                limit.or_else(|| Some((multiplied(request?), LoadSource::Request)))
            }
        }
    }

    fn of_requests(&self, requests: Amounts) -> i64 {
        match self.resource {
            ResourceName::Cpu => requests.cpu_millicores,
            _ => requests.memory_bytes,
        }
    }

    fn in_list(&self, list: &ResourceList) -> Option<i64> {
        list.get(self.resource)
            .map(|quantity| (self.amount)(quantity).max(0))
    }
}

/// The largest finite value of a workload's forecast from `from` to before `until`, divided by its
/// replicas. `None` without values or replicas. Times are in seconds since 1970.
pub fn forecast_per_pod(
    points: impl IntoIterator<Item = (i64, f64)>,
    from: i64,
    until: i64,
    replicas: u32,
) -> Option<f64> {
    if replicas == 0 {
        return None;
    }
    let within = |at: &i64| (from..until).contains(at);
    points
        .into_iter()
        .filter(|(at, value)| within(at) && value.is_finite())
        .map(|(_, value)| value.max(0.0))
        .reduce(f64::max)
        .map(|largest| largest / f64::from(replicas))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ContainerRecommendation, ForecastSeries};
    use proptest::prelude::*;

    fn list(cpu: &str) -> ResourceList {
        let parsed = (!cpu.is_empty()).then(|| (ResourceName::Cpu, cpu.parse().expect(cpu)));
        parsed.into_iter().collect()
    }

    fn container(name: &str, request: &str, limit: &str) -> Container {
        Container {
            name: name.to_owned(),
            requests: list(request),
            limits: list(limit),
        }
    }

    fn recommend(targets: &[(&str, &str)]) -> Recommendation {
        let of = |(name, cpu): &(&str, &str)| ContainerRecommendation {
            container_name: (*name).to_owned(),
            target: list(cpu),
            ..ContainerRecommendation::default()
        };
        Recommendation {
            containers: targets.iter().map(of).collect(),
        }
    }

    #[test]
    fn sources_are_used_in_order() {
        use LoadSource::{Default, Forecast, Limit, Recommendation, Request};
        let app = || container("app", "1", "2");
        let proxy = || container("proxy", "100m", "");
        let bare = || container("bare", "", "");
        let targets = recommend(&[("app", "300m"), ("proxy", "50m"), ("gone", "9")]);
        for (containers, targets, forecast, expected) in [
            (
                vec![app(), proxy()],
                Some(&targets),
                Some(700),
                (360, Recommendation),
            ),
            (
                vec![app(), bare()],
                Some(&targets),
                Some(700),
                (700, Forecast),
            ),
            (vec![app(), proxy()], None, Some(700), (700, Forecast)),
            (vec![app(), proxy()], None, None, (2160, Request)),
            (vec![app()], None, None, (2010, Limit)),
            (vec![app(), bare()], None, None, (3010, Default)),
            (vec![app(), bare()], Some(&targets), None, (1310, Default)),
            (vec![app()], None, Some(-1), (0, Forecast)),
        ] {
            let pod = PodSpec {
                containers,
                init_containers: vec![container("init", "64", "64")],
                overhead: list("10m"),
                ..PodSpec::default()
            };
            let forecast = PodForecast {
                cpu_millicores: forecast,
                memory_bytes: None,
            };
            let found = predict(&pod, targets, forecast, &PredictionConfig::default());
            let found = (found.load.cpu_millicores, found.cpu_source);
            assert_eq!(found, expected, "{pod:?} {targets:?}");
        }
    }

    #[test]
    fn pod_level_resources_come_before_containers_without_limits() {
        use LoadSource::{Limit, Recommendation, Request};
        let targets = recommend(&[("app", "300m")]);
        for (container, requests, limits, targets, expected) in [
            (container("app", "1", ""), "", "3", None, (3010, Limit)),
            (container("app", "1", ""), "2", "", None, (3010, Request)),
            (container("app", "1", "2"), "1", "3", None, (2010, Limit)),
            (
                container("app", "1", ""),
                "1",
                "3",
                Some(&targets),
                (310, Recommendation),
            ),
        ] {
            let pod = PodSpec {
                containers: vec![container],
                overhead: list("10m"),
                pod_level: crate::PodLevel {
                    requests: list(requests),
                    limits: list(limits),
                },
                ..PodSpec::default()
            };
            let forecast = PodForecast::default();
            let found = predict(&pod, targets, forecast, &PredictionConfig::default());
            let found = (found.load.cpu_millicores, found.cpu_source);
            assert_eq!(found, expected, "{pod:?}");
        }
    }

    #[test]
    fn policies_without_a_target_use_the_requests_of_the_pod() {
        let policy =
            Policy::LoadVariationRiskBalancing(crate::LoadVariationRiskBalancing::default());
        let targets = recommend(&[("app", "300m")]);
        let bare = || container("bare", "", "2");
        for (containers, targets, expected) in [
            (vec![container("app", "1", "2")], None, 1010),
            (vec![container("app", "1", "2"), bare()], None, 1010),
            (vec![container("app", "100m", "")], None, 210),
            (vec![bare()], None, 210),
            (vec![container("app", "1", "2")], Some(&targets), 310),
            (
                vec![container("app", "1", "2"), container("proxy", "50m", "1")],
                Some(&targets),
                360,
            ),
        ] {
            let pod = PodSpec {
                containers,
                init_containers: vec![container("init", "200m", "64")],
                overhead: list("10m"),
                ..PodSpec::default()
            };
            for policy in [policy, Policy::Peaks] {
                let config = PredictionConfig::of(&policy);
                let found = predict(&pod, targets, PodForecast::default(), &config);
                assert_eq!(found.load.cpu_millicores, expected, "{pod:?}");
            }
        }
    }

    #[test]
    fn the_largest_value_ahead_is_divided_by_the_replicas() {
        let series = ForecastSeries {
            first_second: 100,
            step_seconds: 10,
            values: vec![9.0, 4.0, f64::NAN, 6.0, 8.0],
            ..ForecastSeries::default()
        };
        for (from, until, replicas, expected) in [
            (110, 140, 2, Some(3.0)),
            (110, 141, 2, Some(4.0)),
            (120, 130, 2, None),
            (0, 1000, 0, None),
            (141, 1000, 1, None),
        ] {
            let found = forecast_per_pod(series.points(), from, until, replicas);
            assert_eq!(found, expected, "{from} {until} {replicas}");
        }
    }

    /// Trimaran's prediction in millicores: per container the limit, else the request times the
    /// multiplier, else the default; plus overhead.
    fn target_load_packing(pod: &PodSpec) -> i64 {
        let plugin = TargetLoadPacking::default();
        let amount = |list: &ResourceList| list.cpu().map(model::Cpu::millicores);
        let request = |request: i64| rounded(request as f64 * plugin.requests_multiplier);
        let containers = pod.containers.iter().map(|container| {
            amount(&container.limits)
                .or_else(|| amount(&container.requests).map(request))
                .unwrap_or(plugin.default_requests.cpu_millicores)
        });
        containers.sum::<i64>() + amount(&pod.overhead).unwrap_or(0)
    }

    proptest! {
        #[test]
        fn without_recommendation_and_forecast_cpu_is_that_of_target_load_packing(
            containers in prop::collection::vec((0..4000_i64, 0..4000_i64, 0..4_u8), 0..4),
        ) {
            let written = |amount: i64, is_set: bool| {
                list(&if is_set { format!("{amount}m") } else { String::new() })
            };
            let of = |(request, limit, set): &(i64, i64, u8)| Container {
                name: String::new(),
                requests: written(*request, set & 1 != 0),
                limits: written(*limit, set & 2 != 0),
            };
            let pod = PodSpec {
                containers: containers.iter().map(of).collect(),
                overhead: list("7m"),
                ..PodSpec::default()
            };
            let config = PredictionConfig::default();
            let found = predict(&pod, None, PodForecast::default(), &config).load;
            let expected = target_load_packing(&pod);
            prop_assert_eq!(found.cpu_millicores, expected);
        }
    }
}
