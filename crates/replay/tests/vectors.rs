//! Peers against recorded answers of the programs that they stand for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::ResourceList;
use replay::peers::{AnnotatedPolicy, Vpa};
use replay::{Policy, Resource};
use serde::Deserialize;
use sizing::{Config, MemoryRules, Percentiles, container_minimum};
use testing::vectors::each_case;

const MIB: f64 = 1_048_576.0;

/// A recorded run of upstream's recommender.
#[derive(Deserialize)]
struct VpaCase {
    config: Flags,
    ops: Vec<Op>,
}

#[derive(Clone, Copy, Deserialize)]
struct Flags {
    recommendation_margin_fraction: f64,
    pod_min_cpu_millicores: f64,
    pod_min_memory_mb: f64,
    target_cpu_percentile: f64,
    lower_bound_cpu_percentile: f64,
    upper_bound_cpu_percentile: f64,
    target_memory_percentile: f64,
    lower_bound_memory_percentile: f64,
    upper_bound_memory_percentile: f64,
    confidence_interval_cpu_ns: i64,
    confidence_interval_memory_ns: i64,
    memory_aggregation_interval_ns: i64,
    memory_aggregation_interval_count: i64,
    memory_half_life_ns: i64,
    cpu_half_life_ns: i64,
    oom_bump_up_ratio: f64,
    oom_min_bump_up_bytes: f64,
    gate_per_vpa_config: bool,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Pod {
        phase: String,
    },
    DeletePod {
        pod: String,
    },
    Checkpoint {
        container: String,
    },
    Samples {
        pod: String,
        container: String,
        start: Timestamp,
        step_ns: i64,
        #[serde(default)]
        cpu_millicores: Vec<i64>,
        #[serde(default)]
        memory_bytes: Vec<i64>,
    },
    Oom {
        pod: String,
        container: String,
        start: Timestamp,
        request_bytes: i64,
    },
    Recommend {
        start: Timestamp,
        expect: Expected,
    },
}

#[derive(Deserialize)]
struct Expected {
    amounts: BTreeMap<String, Bounds>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bounds {
    target: Amounts,
    lower_bound: Amounts,
    upper_bound: Amounts,
}

#[derive(Clone, Copy, Deserialize)]
struct Amounts {
    cpu: Option<i64>,
    memory: Option<i64>,
}

impl Amounts {
    fn of(self, resource: Resource) -> Option<i64> {
        match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
        }
    }
}

impl Flags {
    fn config(self) -> Config {
        Config {
            margin_fraction: self.recommendation_margin_fraction,
            pod_min_cpu_millicores: self.pod_min_cpu_millicores,
            pod_min_memory_mib: self.pod_min_memory_mb,
            cpu_percentiles: Percentiles {
                target: self.target_cpu_percentile,
                lower_bound: self.lower_bound_cpu_percentile,
                upper_bound: self.upper_bound_cpu_percentile,
            },
            memory_percentiles: Percentiles {
                target: self.target_memory_percentile,
                lower_bound: self.lower_bound_memory_percentile,
                upper_bound: self.upper_bound_memory_percentile,
            },
            cpu_confidence_interval_ns: self.confidence_interval_cpu_ns,
            memory_confidence_interval_ns: self.confidence_interval_memory_ns,
            cpu_half_life_ns: self.cpu_half_life_ns,
            memory_half_life_ns: self.memory_half_life_ns,
            memory: MemoryRules {
                interval_ns: self.memory_aggregation_interval_ns,
                interval_count: self.memory_aggregation_interval_count,
                oom_bump_up_ratio: self.oom_bump_up_ratio,
                oom_min_bump_up_bytes: self.oom_min_bump_up_bytes,
            },
            ..Config::default()
        }
    }

    /// The settings for one of several containers, whose minimum is its share of the pod's.
    fn of_container(self, containers: usize) -> Config {
        let config = self.config();
        let minimum = container_minimum(&config, containers);
        Config {
            pod_min_cpu_millicores: minimum.cpu.millicores() as f64,
            pod_min_memory_mib: minimum.memory.bytes() as f64 / MIB,
            ..config
        }
    }
}

impl VpaCase {
    /// Whether the input of a container is what a series can be: that of one pod that keeps running,
    /// from an empty history. Memory samples of 0 are left out: production does not forget the peak
    /// of their window.
    fn is_series(&self, name: &str, resource: Resource) -> bool {
        let pods = self.ops.iter().filter_map(|op| match op {
            Op::Samples { pod, container, .. } | Op::Oom { pod, container, .. } => {
                (container == name).then_some(pod)
            }
            _ => None,
        });
        let pods: BTreeSet<&String> = pods.collect();
        let is_known = |op: &Op| match op {
            Op::Pod { phase } => phase == "Running",
            Op::DeletePod { pod } => !pods.contains(pod),
            Op::Checkpoint { container } => container != name,
            Op::Samples {
                container,
                memory_bytes,
                ..
            } => container != name || resource == Resource::Cpu || !memory_bytes.contains(&0),
            Op::Oom { .. } | Op::Recommend { .. } => true,
        };
        pods.len() <= 1 && !self.config.gate_per_vpa_config && self.ops.iter().all(is_known)
    }

    /// Whether each memory sample comes with a CPU sample, as in a replay: the number of CPU samples
    /// is the confidence in the bounds.
    fn is_paired(&self) -> bool {
        self.ops.iter().all(|op| match op {
            Op::Samples {
                cpu_millicores,
                memory_bytes,
                ..
            } => cpu_millicores.len() == memory_bytes.len(),
            _ => true,
        })
    }

    fn containers(&self) -> Vec<&str> {
        let names = self.ops.iter().filter_map(|op| match op {
            Op::Recommend { expect, .. } => Some(expect.amounts.keys()),
            _ => None,
        });
        let mut names: Vec<&str> = names.flatten().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Compares every recommendation for a container and resource, and returns their number.
    fn check(&self, container: &str, resource: Resource) -> usize {
        let containers = self.containers().len();
        let mut peer = Vpa::with(resource, self.config.of_container(containers));
        let mut compared = 0;
        for op in &self.ops {
            match op {
                Op::Samples {
                    container: of,
                    start,
                    step_ns,
                    cpu_millicores,
                    memory_bytes,
                    ..
                } if of == container => {
                    let usage: Vec<f64> = match resource {
                        Resource::Cpu => cpu_millicores.iter().map(|it| *it as f64).collect(),
                        Resource::Memory => {
                            memory_bytes.iter().map(|it| *it as f64 / MIB).collect()
                        }
                    };
                    for (index, usage) in (0..).zip(usage) {
                        peer.observe(*start + SignedDuration::from_nanos(step_ns * index), usage);
                    }
                }
                Op::Oom {
                    container: of,
                    start,
                    request_bytes,
                    ..
                } if of == container && resource == Resource::Memory => {
                    peer.oom(*start, *request_bytes as f64 / MIB);
                }
                Op::Recommend { start, expect } => {
                    let expected = expect.amounts.get(container);
                    compared += expected.map_or(0, |expected| {
                        usize::from(self.compare(&mut peer, resource, *start, *expected))
                    });
                }
                _ => {}
            }
        }
        compared
    }

    fn compare(&self, peer: &mut Vpa, resource: Resource, now: Timestamp, by: Bounds) -> bool {
        let Some(target) = by.target.of(resource) else {
            return false;
        };
        let unit = match resource {
            Resource::Cpu => 1.0,
            Resource::Memory => MIB,
        };
        let recommended = peer
            .recommend(now, 0.0)
            .map(|amount| (amount * unit) as i64);
        assert_eq!(recommended, Some(target), "{resource:?} at {now}");
        if resource == Resource::Cpu || self.is_paired() {
            let estimate = peer.estimate();
            for (ours, theirs) in [
                (estimate.lower_bound, by.lower_bound),
                (estimate.upper_bound, by.upper_bound),
            ] {
                let ours = match resource {
                    Resource::Cpu => ours.cpu.millicores(),
                    Resource::Memory => ours.memory.bytes(),
                };
                assert_eq!(Some(ours), theirs.of(resource), "{resource:?} at {now}");
            }
        }
        true
    }
}

/// Compares the peer with all recorded runs of a kind that are a series, at least this many.
fn check_vpa(kind: &str, least: usize) {
    let mut compared = 0;
    each_case(kind, |_, case: VpaCase| {
        for container in case.containers() {
            for resource in [Resource::Cpu, Resource::Memory] {
                if case.is_series(container, resource) {
                    compared += case.check(container, resource);
                }
            }
        }
    });
    assert!(compared >= least || !is_shipped(), "{kind}: {compared}");
}

#[test]
fn the_vpa_recommends_as_upstream() {
    check_vpa("vpa/recommend_documented", 20);
    check_vpa("vpa/recommend", 54);
    check_vpa("vpa/recommend_short", 92);
    check_vpa("vpa/recommend_oom", 34);
}

/// A recorded run of Crane's resource recommender.
#[derive(Deserialize)]
struct CraneCase {
    config: BTreeMap<String, String>,
    history: BTreeMap<String, CraneHistory>,
    oom_records: Option<Vec<serde_json::Value>>,
    expect: CraneExpected,
}

#[derive(Deserialize)]
struct Workload {
    spec: PodSpec,
}

#[derive(Deserialize)]
struct PodSpec {
    containers: Vec<CraneContainer>,
}

#[derive(Deserialize)]
struct CraneContainer {
    name: String,
    resources: Resources,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    requests: ResourceList,
}

#[derive(Default, Deserialize)]
struct CraneHistory {
    cpu: Option<Vec<Vec<f64>>>,
    memory: Option<Vec<Vec<f64>>>,
}

#[derive(Deserialize)]
struct CraneExpected {
    recommended_info: Option<Patch>,
}

#[derive(Deserialize)]
struct Patch {
    spec: PatchSpec,
}

#[derive(Deserialize)]
struct PatchSpec {
    template: Workload,
}

/// The peer's recommendation after these samples, one a minute, in millicores or MiB.
fn crane(case: &CraneCase, resource: Resource, samples: &[Vec<f64>]) -> Option<f64> {
    let mut settings = vec![("policy", "crane")];
    settings.extend(
        case.config
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str())),
    );
    let mut peer = AnnotatedPolicy::new(resource, &settings).expect("settings of Crane");
    let unit = match resource {
        Resource::Cpu => 1000.0,
        Resource::Memory => 1.0 / MIB,
    };
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let mut now = start;
    for usage in samples.iter().flatten() {
        peer.observe(now, usage * unit);
        now += SignedDuration::from_mins(1);
    }
    peer.recommend(now, 0.0)
}

/// The expected requests of the containers of a case that says something about one container and
/// resource alone: without OOM records and without a list of sizes of both resources.
fn alone(case: &CraneCase) -> &[CraneContainer] {
    let is_coupled = case.config.contains_key("specification");
    let is_killed = case.oom_records.as_ref().is_some_and(|it| !it.is_empty());
    match &case.expect.recommended_info {
        Some(patch) if !is_coupled && !is_killed => &patch.spec.template.spec.containers,
        _ => &[],
    }
}

/// CPU samples are whole millicores here, as the metrics API has them. The recorded ones have tenths,
/// which do not change a percentile in buckets of a tenth of a core.
#[test]
fn crane_recommends_as_upstream() {
    let mut compared = 0;
    each_case("crane/resource", |_, case: CraneCase| {
        for container in alone(&case) {
            let history = &case.history[&container.name];
            let requests = &container.resources.requests;
            if let Some((samples, expected)) = history.cpu.as_deref().zip(requests.cpu()) {
                let found = crane(&case, Resource::Cpu, samples).map(|it| it as i64);
                assert_eq!(found, Some(expected.millicores()), "{:?}", case.config);
                compared += 1;
            }
            if let Some((samples, expected)) = history.memory.as_deref().zip(requests.memory()) {
                let found = crane(&case, Resource::Memory, samples).map(|it| (it * MIB) as i64);
                assert_eq!(found, Some(expected.bytes()), "{:?}", case.config);
                compared += 1;
            }
        }
    });
    assert!(compared >= 46 || !is_shipped(), "{compared}");
}

/// Whether the recordings are those of the repository.
fn is_shipped() -> bool {
    std::env::var_os("PLIMSOLL_VECTORS").is_none()
}
