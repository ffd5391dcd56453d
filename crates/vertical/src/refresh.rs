//! Writes that no decision waits for: which changes of a status are such, and when they are written.
//!
//! The confidence of a young history grows in every round, and with it the bounds, so upstream writes
//! every status in every round. A reader compares the bounds with the requests of pods only. While
//! all requests stay on the same side of a bound, its amount changes no decision.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;
use std::time::Duration;

use api::vpa::VerticalPodAutoscalerStatus;
use model::{ContainerRecommendation, Quantity, ResourceName, WHOLE_POD};
use view::{ObjectKey, Pod};

/// Difference of a decided status from the written one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusChange {
    /// The written status is equal.
    None,
    /// Only bounds and uncapped targets differ, and each request of the pods stays on the same side
    /// of each bound.
    Bounds,
    /// A target, a condition or the observed generation differs, or a bound crosses a request.
    Decision,
}

/// The difference between two statuses of an object whose pods have these requests.
pub(crate) fn status_change<'a>(
    written: Option<&VerticalPodAutoscalerStatus>,
    decided: &VerticalPodAutoscalerStatus,
    requests: impl FnOnce() -> Option<&'a PodRequests>,
) -> StatusChange {
    let Some(written) = written else {
        return StatusChange::Decision;
    };
    if written == decided {
        return StatusChange::None;
    }
    let (Some(old), Some(new)) = (&written.recommendation, &decided.recommendation) else {
        return StatusChange::Decision;
    };
    let [old, new] = [old, new].map(|list| &list.containers);
    let same_targets = old.len() == new.len()
        && old
            .iter()
            .zip(new)
            .all(|(old, new)| old.container_name == new.container_name && old.target == new.target);
    let is_decision = !same_targets
        || written.conditions != decided.conditions
        || written.observed_generation != decided.observed_generation
        || requests().is_some_and(|requests| requests.are_crossed(old, new));
    if is_decision {
        StatusChange::Decision
    } else {
        StatusChange::Bounds
    }
}

/// CPU and memory requests of the containers and native sidecars of pods, by container name. A
/// comparison with bounds does not depend on the number of pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodRequests(BTreeMap<String, [BTreeSet<Quantity>; 2]>);

impl<'a> FromIterator<&'a Arc<Pod>> for PodRequests {
    fn from_iter<I: IntoIterator<Item = &'a Arc<Pod>>>(pods: I) -> Self {
        let mut all = Self::default();
        for pod in pods {
            let containers = pod.containers.iter().map(|it| (&it.name, it.requests));
            let sidecars = pod.sidecars.iter().map(|it| (&it.name, it.requests));
            let names = containers.chain(sidecars).map(|(name, of)| (&**name, of));
            let whole = pod.resources.iter().map(|of| (WHOLE_POD, of.requests));
            for (name, requests) in names.chain(whole) {
                let [cpu, memory] = all.0.entry(name.to_owned()).or_default();
                cpu.extend(requests.cpu.map(Quantity::from));
                memory.extend(requests.memory.map(Quantity::from));
            }
        }
        all
    }
}

impl PodRequests {
    /// Whether a request is on another side of one of the new bounds than of the old one.
    fn are_crossed(
        &self,
        old: &[ContainerRecommendation],
        new: &[ContainerRecommendation],
    ) -> bool {
        old.iter().zip(new).any(|(old, new)| {
            let requests = self.0.get(&old.container_name).into_iter().flatten();
            let resources = [ResourceName::Cpu, ResourceName::Memory];
            resources.iter().zip(requests).any(|(name, requests)| {
                let lower = [&old.lower_bound, &new.lower_bound].map(|list| list.get(name));
                let upper = [&old.upper_bound, &new.upper_bound].map(|list| list.get(name));
                lie_between(requests, lower, true) || lie_between(requests, upper, false)
            })
        })
    }
}

/// Whether any request is on one side of the old bound and on the other side of the new one. One that
/// equals a bound is within it.
fn lie_between(
    requests: &BTreeSet<Quantity>,
    bounds: [Option<&Quantity>; 2],
    are_lower: bool,
) -> bool {
    let [Some(old), Some(new)] = bounds else {
        return bounds[0] != bounds[1] && !requests.is_empty();
    };
    let (low, high) = (old.min(new), old.max(new));
    let between = if are_lower {
        (Included(low), Excluded(high))
    } else {
        (Excluded(low), Included(high))
    };
    requests.range::<Quantity, _>(between).next().is_some()
}

/// Times of the writes that no decision waits for: each object once per interval, all objects spread
/// evenly over it. The first write of each comes within a third of the interval. What is stored until
/// then may be old, since a program that is killed writes nothing at its end. `elapsed` is the time since
/// any fixed moment on the monotonic clock.
#[derive(Debug)]
pub struct RefreshSchedule {
    interval: Duration,
    times: HashMap<ObjectKey, Times>,
}

#[derive(Debug)]
struct Times {
    next: Duration,
    /// The next of its writes once per interval.
    regular: Duration,
}

/// Share of the interval within which each object is written for the first time: one in this number.
const FIRST: u32 = 3;

impl RefreshSchedule {
    /// A schedule with this interval; with zero, each object is always due.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            times: HashMap::new(),
        }
    }

    /// Whether an object is due. It is due again within one interval.
    pub fn is_due(&mut self, key: &ObjectKey, elapsed: Duration) -> bool {
        if self.interval.is_zero() {
            return true;
        }
        let Some(times) = self.times.get_mut(key) else {
            let regular = self.interval.mul_f64(phase(key));
            let times = Times {
                next: elapsed + regular / FIRST,
                regular: elapsed + regular,
            };
            self.times.insert(key.clone(), times);
            return false;
        };
        let is_due = times.next <= elapsed;
        if is_due {
            while times.regular <= elapsed {
                times.regular += self.interval;
            }
            times.next = times.regular;
        }
        is_due
    }

    pub fn retain(&mut self, is_kept: impl Fn(&ObjectKey) -> bool) {
        self.times.retain(|key, _| is_kept(key));
    }
}

/// A share of the interval, from 0 to 1, by the hash of the name.
fn phase(key: &ObjectKey) -> f64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    f64::from(hasher.finish() as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use model::{Cpu, ResourceList};
    use proptest::array::uniform2;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const INTERVAL: Duration = Duration::from_mins(5);

    /// A status with the CPU bounds and target of one container.
    fn status([lower, target, upper]: [&str; 3]) -> Value {
        json!({
            "observedGeneration": 1,
            "conditions": [{"type": "RecommendationProvided", "status": "True"}],
            "recommendation": {"containerRecommendations": [{
                "containerName": "app",
                "lowerBound": {"cpu": lower},
                "target": {"cpu": target},
                "upperBound": {"cpu": upper},
                "uncappedTarget": {"cpu": target},
            }]},
        })
    }

    fn check(old: &Value, new: &Value, request: Option<&str>, expected: StatusChange) {
        let parse = |status: &Value| serde_json::from_value(status.clone()).expect("a status");
        let resources = request.map(|cpu| json!({"requests": {"cpu": cpu}}));
        let containers = json!([
            {"name": "other", "resources": {"requests": {"cpu": "1m"}}},
            {"name": "app", "resources": resources.unwrap_or_default()},
        ]);
        let pod = json!({"metadata": {"name": "web-1"}, "spec": {"containers": containers}});
        let pod = serde_json::from_value(pod).expect("a pod");
        let requests = PodRequests::from_iter([&Arc::new(Pod::from_k8s(pod, false))]);
        let (old, new): (_, VerticalPodAutoscalerStatus) = (parse(old), parse(new));
        let change = status_change(Some(&old), &new, || Some(&requests));
        assert_eq!(change, expected, "{old:?} -> {new:?} at {request:?}");
        let first = status_change(None, &new, || Some(&requests));
        assert_eq!(first, StatusChange::Decision);
    }

    #[test]
    fn bounds_wait_unless_one_crosses_a_request() {
        use StatusChange::{Bounds, Decision, None as Same};
        let old = ["100m", "200m", "900m"];
        for (new, request, expected) in [
            (old, Some("50m"), Same),
            (["110m", "200m", "800m"], Some("300m"), Bounds),
            (["110m", "200m", "800m"], Some("90m"), Bounds),
            (["110m", "200m", "800m"], Some("1"), Bounds),
            (["110m", "200m", "800m"], Some("110m"), Bounds),
            (["110m", "200m", "800m"], Some("800m"), Bounds),
            (["110m", "200m", "800m"], None, Bounds),
            (["110m", "200m", "800m"], Some("105m"), Decision),
            (["110m", "200m", "800m"], Some("850m"), Decision),
            (["90m", "200m", "900m"], Some("95m"), Decision),
            (["100m", "201m", "900m"], Some("300m"), Decision),
        ] {
            check(&status(old), &status(new), request, expected);
        }
    }

    proptest! {
        #[test]
        fn requests_together_cross_what_each_alone_would_cross(
            millicores in vec(0_i64..6, 0..5),
            [old, new] in uniform2(uniform2(option::of(0_i64..6))),
        ) {
            let cpu = |millicores| Quantity::from(Cpu::from_millicores(millicores));
            let list = |bound: Option<i64>| {
                let mut list = ResourceList::new();
                if let Some(bound) = bound {
                    list.insert(ResourceName::Cpu, cpu(bound));
                }
                list
            };
            let recommendation = |[lower, upper]: [Option<i64>; 2]| ContainerRecommendation {
                container_name: "app".to_owned(),
                lower_bound: list(lower),
                upper_bound: list(upper),
                ..ContainerRecommendation::default()
            };
            let sides = |[lower, upper]: [Option<i64>; 2], request: i64| {
                (lower.map(|lower| request < lower), upper.map(|upper| request > upper))
            };
            let mut all = millicores.iter();
            let expected = all.any(|request| sides(old, *request) != sides(new, *request));
            let requests = [millicores.into_iter().map(cpu).collect(), BTreeSet::new()];
            let requests = PodRequests([("app".to_owned(), requests)].into());
            let crossed = requests.are_crossed(&[recommendation(old)], &[recommendation(new)]);
            prop_assert_eq!(crossed, expected);
        }
    }

    #[test]
    fn other_changes_are_written_at_once() {
        let old = status(["100m", "200m", "900m"]);
        for (path, value) in [
            ("/observedGeneration", json!(2)),
            ("/conditions/0/status", json!("False")),
            (
                "/conditions/0",
                json!({"type": "NoPodsMatched", "status": "True"}),
            ),
            ("/recommendation", Value::Null),
            (
                "/recommendation/containerRecommendations/0/containerName",
                json!("b"),
            ),
            (
                "/recommendation/containerRecommendations/0/lowerBound",
                json!({}),
            ),
        ] {
            let mut new = old.clone();
            *new.pointer_mut(path).expect(path) = value;
            check(&old, &new, Some("300m"), StatusChange::Decision);
        }
        let mut new = old.clone();
        new["recommendation"]["containerRecommendations"][0]["uncappedTarget"]["cpu"] = json!("1");
        check(&old, &new, Some("300m"), StatusChange::Bounds);
    }

    #[test]
    fn each_object_is_due_soon_and_then_once_per_interval_spread_over_it() {
        const OBJECTS: usize = 1000;
        let keys: Vec<_> = (0..OBJECTS)
            .map(|number| ObjectKey::new("shop", format!("web-{number}")))
            .collect();
        let mut schedule = RefreshSchedule::new(INTERVAL);
        let mut due = |seconds: u64| -> Vec<&ObjectKey> {
            let elapsed = Duration::from_secs(seconds);
            keys.iter()
                .filter(|key| schedule.is_due(key, elapsed))
                .collect()
        };
        assert_eq!(due(0).len(), 0);
        let rounds: Vec<_> = (1..=5).map(|round| due(60 * round)).collect();
        let soon: BTreeSet<_> = rounds[..2].iter().flatten().collect();
        assert_eq!(soon.len(), OBJECTS, "within 100 s");
        assert!(rounds.iter().flatten().count() < 2 * OBJECTS);
        for interval in 1..4 {
            let rounds: Vec<_> = (1..=5)
                .map(|round| due(300 * interval + 60 * round).len())
                .collect();
            assert_eq!(rounds.iter().sum::<usize>(), OBJECTS, "{rounds:?}");
            assert!(
                rounds.iter().all(|count| (150..250).contains(count)),
                "{rounds:?}"
            );
        }
        // A process that was suspended does not catch up.
        assert_eq!((due(30_000).len(), due(30_000).len()), (OBJECTS, 0));
    }

    #[test]
    fn without_an_interval_everything_is_due_and_dropped_objects_begin_anew() {
        let key = ObjectKey::new("shop", "web");
        let mut always = RefreshSchedule::new(Duration::ZERO);
        assert!(always.is_due(&key, Duration::ZERO));
        let mut schedule = RefreshSchedule::new(INTERVAL);
        assert!(!schedule.is_due(&key, Duration::ZERO));
        schedule.retain(|_| false);
        assert!(!schedule.is_due(&key, INTERVAL));
        assert!(schedule.is_due(&key, 2 * INTERVAL));
    }
}
