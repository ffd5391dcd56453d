//! Upstream's VPA: `sizing`'s histograms and estimates, and the updater's rules for applying them.

use jiff::{SignedDuration, Timestamp};
use sizing::{Config, ContainerHistory, ContainerState, Estimate, HistogramConfigs, estimate};

use crate::policy::{MIB, Policy, Resource};

/// The updater's minimum age of a pod for a change within the bounds.
const LIFETIME_THRESHOLD: SignedDuration = SignedDuration::from_hours(12);
/// The updater's minimum relative difference for a change within the bounds.
const UPDATE_THRESHOLD: f64 = 0.1;

/// The recommender's history of one container, and the age of its pod.
#[derive(Clone, Debug)]
pub struct Vpa {
    resource: Resource,
    config: Config,
    shapes: HistogramConfigs,
    history: ContainerHistory,
    /// Those of each pod.
    containers: Vec<ContainerState>,
    /// Whether changes obey the updater's rules in place of the executor's alone.
    updater: bool,
    /// Start of the present pod and its request.
    pod: Option<(Timestamp, f64)>,
}

impl Vpa {
    /// The defaults without minimum sizes.
    pub fn new(resource: Resource) -> Self {
        let config = Config {
            pod_min_cpu_millicores: 0.0,
            pod_min_memory_mib: 0.0,
            ..Config::default()
        };
        Self::with(resource, config)
    }

    /// The settings of the recommender's flags.
    ///
    /// # Panics
    ///
    /// If the recommender would refuse them.
    pub fn with(resource: Resource, config: Config) -> Self {
        let shapes = config
            .validate()
            .expect("settings that the recommender accepts");
        Self {
            resource,
            config,
            shapes,
            history: ContainerHistory::default(),
            containers: Vec::new(),
            updater: false,
            pod: None,
        }
    }

    /// Changes obey the updater's rules: outside the bounds at once, within them after 12 hours and
    /// from a difference of 10 %.
    #[must_use]
    pub fn with_updater(self) -> Self {
        Self {
            updater: true,
            ..self
        }
    }

    /// Target and bounds at present.
    pub fn estimate(&self) -> Estimate {
        let minimum = sizing::container_minimum(&self.config, 1);
        estimate(&self.config, &self.shapes, minimum, &self.history)
    }

    /// Whether the updater replaces a pod that started at a time with this request.
    pub fn updates(&self, now: Timestamp, started: Timestamp, request: f64, by: &Estimate) -> bool {
        let amounts = [by.target, by.lower_bound, by.upper_bound];
        let [target, lower, upper] = amounts.map(|amounts| self.resource.amount(amounts));
        let outside = request < lower || request > upper;
        let is_old = now.duration_since(started) >= LIFETIME_THRESHOLD;
        outside || is_old && (target - request).abs() / request.max(1.0) >= UPDATE_THRESHOLD
    }
}

fn state(containers: &mut Vec<ContainerState>, pod: usize) -> &mut ContainerState {
    if containers.len() <= pod {
        containers.resize_with(pod + 1, ContainerState::default);
    }
    &mut containers[pod]
}

impl Policy for Vpa {
    fn observe(&mut self, pod: usize, at: Timestamp, usage: f64) {
        // Confidence depends on CPU samples, for memory too.
        let (millicores, bytes) = match self.resource {
            Resource::Cpu => (usage.round() as i64, None),
            Resource::Memory => (1, Some((usage * MIB) as i64)),
        };
        let (history, shapes, at) = (&mut self.history, &self.shapes, at.into());
        let container = state(&mut self.containers, pod);
        container.add_cpu(history, shapes, millicores, at);
        if let Some(bytes) = bytes {
            let rules = &self.config.memory;
            container.add_memory(history, shapes, rules, bytes, at);
        }
    }

    fn oom(&mut self, at: Timestamp, request: f64) {
        let request = (request * MIB) as i64;
        let rules = &self.config.memory;
        let (history, shapes) = (&mut self.history, &self.shapes);
        state(&mut self.containers, 0).add_oom(history, shapes, rules, request, at.into());
    }

    fn recommend(&mut self, now: Timestamp, request: f64) -> Option<f64> {
        let estimate = self.estimate();
        let (started, of) = *self.pod.get_or_insert((now, request));
        if of.to_bits() != request.to_bits() {
            self.pod = Some((now, request));
        }
        let applies = !self.updater || self.updates(now, started, request, &estimate);
        applies.then(|| self.resource.amount(estimate.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_the_updater() {
        let settings = rollout::Settings::default();
        assert_eq!(
            settings.lifetime_threshold,
            LIFETIME_THRESHOLD.unsigned_abs()
        );
        assert!((settings.update_threshold - UPDATE_THRESHOLD).abs() < 1e-12);
    }
}
