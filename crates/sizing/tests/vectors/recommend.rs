//! Whole recommender runs for one autoscaler: from samples, OOM kills and checkpoints to
//! recommendation and checkpoints.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, Cpu, Labels, Memory, ResourceList, ResourceName, Sample, Selector};
use serde::Deserialize;
use sizing::{
    Accepted, AutoscalerId, Checkpoint, Config, Estimate, Fleet, HistogramCheckpoint, MemoryRules,
    Percentiles, Phase, PodSpec, WithoutUsage,
};
use testing::vectors::{Double, each_case};

use crate::objects::Vpa;
use crate::zero_windows::ZeroWindows;

#[derive(Deserialize)]
struct Case {
    config: Flags,
    vpa: Vpa,
    selector: BTreeMap<String, String>,
    exact: Option<bool>,
    ops: Vec<Op>,
}

#[derive(Deserialize)]
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
    humanize_memory: bool,
    round_cpu_millicores: i64,
    round_memory_bytes: i64,
    memory_aggregation_interval_ns: i64,
    memory_aggregation_interval_count: i64,
    memory_half_life_ns: i64,
    cpu_half_life_ns: i64,
    oom_bump_up_ratio: f64,
    oom_min_bump_up_bytes: f64,
    cpu_integer_post_processor: bool,
    gate_per_vpa_config: bool,
    max_allowed_cpu: Option<model::Quantity>,
    max_allowed_memory: Option<model::Quantity>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Pod {
        pod: String,
        labels: BTreeMap<String, String>,
        phase: String,
        #[serde(default)]
        containers: Vec<Container>,
    },
    DeletePod {
        pod: String,
    },
    Checkpoint {
        container: String,
        status: Checkpoint,
        expect: Outcome,
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
        expect: Counts,
    },
    Oom {
        pod: String,
        container: String,
        start: Timestamp,
        request_bytes: i64,
        expect: Outcome,
    },
    Recommend {
        start: Timestamp,
        expect: Box<Expected>,
    },
}

#[derive(Deserialize)]
struct Container {
    name: String,
}

#[derive(Deserialize)]
struct Outcome {
    accepted: bool,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    cpu_accepted: usize,
    #[serde(default)]
    memory_accepted: usize,
}

#[derive(Deserialize)]
struct Expected {
    recommendation: serde_json::Value,
    amounts: BTreeMap<String, Bounds>,
    aggregates: BTreeMap<String, Aggregate>,
    checkpoints: BTreeMap<String, Checkpoint>,
    pod_count: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bounds {
    target: Amounts,
    lower_bound: Amounts,
    upper_bound: Amounts,
}

#[derive(Deserialize)]
struct Amounts {
    cpu: Option<i64>,
    memory: Option<i64>,
}

#[derive(Deserialize)]
struct Aggregate {
    cpu_percentiles: Vec<Double>,
    memory_percentiles: Vec<Double>,
    samples: i64,
}

impl From<Flags> for Config {
    fn from(flags: Flags) -> Self {
        let max_cpu = flags.max_allowed_cpu.map(|cpu| (ResourceName::Cpu, cpu));
        let max_memory = flags
            .max_allowed_memory
            .map(|memory| (ResourceName::Memory, memory));
        Self {
            margin_fraction: flags.recommendation_margin_fraction,
            pod_min_cpu_millicores: flags.pod_min_cpu_millicores,
            pod_min_memory_mib: flags.pod_min_memory_mb,
            cpu_percentiles: Percentiles {
                target: flags.target_cpu_percentile,
                lower_bound: flags.lower_bound_cpu_percentile,
                upper_bound: flags.upper_bound_cpu_percentile,
            },
            memory_percentiles: Percentiles {
                target: flags.target_memory_percentile,
                lower_bound: flags.lower_bound_memory_percentile,
                upper_bound: flags.upper_bound_memory_percentile,
            },
            cpu_confidence_interval_ns: flags.confidence_interval_cpu_ns,
            memory_confidence_interval_ns: flags.confidence_interval_memory_ns,
            cpu_half_life_ns: flags.cpu_half_life_ns,
            memory_half_life_ns: flags.memory_half_life_ns,
            memory: MemoryRules {
                interval_ns: flags.memory_aggregation_interval_ns,
                interval_count: flags.memory_aggregation_interval_count,
                oom_bump_up_ratio: flags.oom_bump_up_ratio,
                oom_min_bump_up_bytes: flags.oom_min_bump_up_bytes,
            },
            per_autoscaler_rules: flags.gate_per_vpa_config,
            humanize_memory: flags.humanize_memory,
            round_cpu_millicores: flags.round_cpu_millicores,
            round_memory_bytes: flags.round_memory_bytes,
            integer_cpu: flags.cpu_integer_post_processor,
            without_usage: WithoutUsage::Minimum,
            max_allowed: max_cpu
                .into_iter()
                .chain(max_memory)
                .collect::<ResourceList>(),
        }
    }
}

/// One recommender with one autoscaler in namespace `default`.
struct Run {
    fleet: Fleet,
    id: AutoscalerId,
    exact: bool,
    zero_windows: ZeroWindows,
    /// The latest sample time so far.
    now: Timestamp,
    /// The first time in the case.
    start: Timestamp,
    /// A time after all that the case names.
    end: Timestamp,
}

impl Run {
    fn container(pod: &str, container: &str) -> ContainerRef {
        ContainerRef {
            namespace: "default".to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Pod {
                pod,
                labels,
                phase,
                containers,
            } => {
                let pod = PodSpec {
                    namespace: "default".to_owned(),
                    name: pod.clone(),
                    labels: Labels::from(labels.clone()),
                    phase: match phase.as_str() {
                        "Running" => Phase::Running,
                        "Succeeded" => Phase::Succeeded,
                        other => panic!("phase {other}"),
                    },
                    containers: containers
                        .iter()
                        .map(|container| container.name.clone())
                        .collect(),
                    init_containers: Vec::new(),
                };
                self.fleet.apply_pod(pod, self.start);
            }
            Op::DeletePod { pod } => {
                self.zero_windows.forget_pod(pod);
                self.fleet.delete_pod("default", pod);
            }
            Op::Checkpoint {
                container,
                status,
                expect,
            } => {
                let loaded = self
                    .fleet
                    .load_checkpoint(&self.id, container, status, self.end);
                assert_eq!(loaded.is_ok(), expect.accepted, "{loaded:?}");
            }
            Op::Samples {
                pod,
                container,
                start,
                step_ns,
                cpu_millicores,
                memory_bytes,
                expect,
            } => {
                let container = Self::container(pod, container);
                let samples =
                    (0..cpu_millicores.len().max(memory_bytes.len())).map(|index| Sample {
                        at: *start + SignedDuration::from_nanos(step_ns * index as i64),
                        cpu: cpu_millicores.get(index).copied().map(Cpu::from_millicores),
                        memory: memory_bytes.get(index).copied().map(Memory::from_bytes),
                    });
                let interval_ns = self.fleet.memory_rules(&container).interval_ns;
                let (fleet, zero_windows, now) =
                    (&mut self.fleet, &mut self.zero_windows, &mut self.now);
                let accepted: Vec<Accepted> = samples
                    .map(|sample| {
                        let ignored =
                            zero_windows.upstream_ignores(&container, &sample, interval_ns);
                        let memory = sample.memory.filter(|_| ignored.is_none());
                        let taken = Sample { memory, ..sample };
                        // Samples may be late; the clock does not go back with them.
                        *now = (*now).max(sample.at);
                        let accepted = fleet
                            .add_sample(&container, &taken, *now)
                            .unwrap_or_default();
                        Accepted {
                            memory: ignored.unwrap_or(accepted.memory),
                            ..accepted
                        }
                    })
                    .collect();
                let count = |part: fn(&Accepted) -> bool| {
                    accepted.iter().filter(|accepted| part(accepted)).count()
                };
                assert_eq!(
                    count(|accepted| accepted.cpu),
                    expect.cpu_accepted,
                    "accepted CPU samples"
                );
                assert_eq!(
                    count(|accepted| accepted.memory),
                    expect.memory_accepted,
                    "accepted memory samples"
                );
            }
            Op::Oom {
                pod,
                container,
                start,
                request_bytes,
                expect,
            } => {
                let container = Self::container(pod, container);
                let interval_ns = self.fleet.memory_rules(&container).interval_ns;
                if self
                    .zero_windows
                    .upstream_ignores_kill(&container, *start, interval_ns)
                {
                    assert!(expect.accepted, "upstream takes it and adds nothing");
                    return;
                }
                let accepted = self
                    .fleet
                    .record_oom(
                        &container,
                        *start,
                        Memory::from_bytes(*request_bytes),
                        *start,
                    )
                    .unwrap_or(false);
                assert_eq!(
                    accepted, expect.accepted,
                    "OOM kill of {container} at {start}"
                );
            }
            Op::Recommend { start, expect } => self.check(*start, expect),
        }
    }

    fn check(&self, now: Timestamp, expected: &Expected) {
        let recommendation = self.fleet.recommend(&self.id).unwrap();
        assert_eq!(
            serde_json::to_value(&recommendation).unwrap(),
            expected.recommendation
        );
        assert_eq!(self.fleet.pod_count(&self.id), Some(expected.pod_count));
        self.check_amounts(&expected.amounts);
        self.check_histories(&expected.aggregates);
        let checkpoints = self.fleet.checkpoints(&self.id, now).unwrap();
        assert_eq!(
            checkpoints.keys().collect::<Vec<_>>(),
            expected.checkpoints.keys().collect::<Vec<_>>()
        );
        for ((name, ours), theirs) in checkpoints.into_iter().zip(expected.checkpoints.values()) {
            assert_eq!(ours.last_update_time, Some(now));
            let ours = Checkpoint {
                last_update_time: None,
                ..ours
            };
            if self.exact {
                assert_eq!(ours, *theirs, "checkpoint of {name}");
            } else {
                check_nearly(
                    &ours.cpu_histogram,
                    &theirs.cpu_histogram,
                    self.fleet.config().cpu_half_life_ns,
                );
                check_nearly(
                    &ours.memory_histogram,
                    &theirs.memory_histogram,
                    self.fleet.config().memory_half_life_ns,
                );
                assert_eq!(
                    ours.total_samples_count, theirs.total_samples_count,
                    "samples of {name}"
                );
                assert_eq!(
                    ours.first_sample_start, theirs.first_sample_start,
                    "first sample of {name}"
                );
                assert_eq!(
                    ours.last_sample_start, theirs.last_sample_start,
                    "last sample of {name}"
                );
            }
        }
    }

    fn check_amounts(&self, expected: &BTreeMap<String, Bounds>) {
        let estimates = self.fleet.estimates(&self.id).unwrap();
        assert_eq!(
            estimates.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        for ((name, estimate), bounds) in estimates.iter().zip(expected.values()) {
            let Estimate {
                target,
                lower_bound,
                upper_bound,
            } = estimate;
            for (ours, theirs) in [
                (target, &bounds.target),
                (lower_bound, &bounds.lower_bound),
                (upper_bound, &bounds.upper_bound),
            ] {
                // Resources that are not controlled are absent in the recording.
                let ours = (
                    theirs.cpu.and(Some(ours.cpu.millicores())),
                    theirs.memory.and(Some(ours.memory.bytes())),
                );
                assert_eq!(ours, (theirs.cpu, theirs.memory), "amounts of {name}");
            }
        }
    }

    fn check_histories(&self, expected: &BTreeMap<String, Aggregate>) {
        let histories = self.fleet.histories(&self.id).unwrap();
        assert_eq!(
            histories.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        let shapes = self.fleet.shapes();
        for ((name, history), aggregate) in histories.iter().zip(expected.values()) {
            assert_eq!(history.samples(), aggregate.samples, "samples of {name}");
            if !self.exact {
                continue;
            }
            for (index, fraction) in [0.0, 0.1, 0.5, 0.9, 0.95, 1.0].into_iter().enumerate() {
                let ours = (
                    history.cpu.percentile(&shapes.cpu, fraction),
                    history.memory.percentile(&shapes.memory, fraction),
                );
                let theirs = (
                    aggregate.cpu_percentiles[index].0,
                    aggregate.memory_percentiles[index].0,
                );
                assert_eq!(
                    ours.0.to_bits(),
                    theirs.0.to_bits(),
                    "CPU percentile {fraction} of {name}: {ours:?} {theirs:?}"
                );
                assert_eq!(
                    ours.1.to_bits(),
                    theirs.1.to_bits(),
                    "memory percentile {fraction} of {name}: {ours:?} {theirs:?}"
                );
            }
        }
    }
}

/// Tolerance for results that depend on the order of a map upstream: bucket weights within 1, totals within 1e-6 at the
/// same reference.
fn check_nearly(ours: &HistogramCheckpoint, theirs: &HistogramCheckpoint, half_life_ns: i64) {
    for bucket in ours
        .bucket_weights
        .keys()
        .chain(theirs.bucket_weights.keys())
    {
        let weight = |checkpoint: &HistogramCheckpoint| {
            checkpoint.bucket_weights.get(bucket).copied().unwrap_or(0)
        };
        assert!(
            weight(ours).abs_diff(weight(theirs)) <= 1,
            "bucket {bucket}: {ours:?} {theirs:?}"
        );
    }
    let (Some(our_reference), Some(their_reference)) =
        (ours.reference_timestamp, theirs.reference_timestamp)
    else {
        assert_eq!(ours.reference_timestamp, theirs.reference_timestamp);
        return;
    };
    let half_lives =
        our_reference.duration_since(their_reference).as_secs_f64() * 1e9 / half_life_ns as f64;
    let total = ours.total_weight * half_lives.exp2();
    assert!(
        (total - theirs.total_weight).abs() <= 1e-6 * theirs.total_weight.abs(),
        "{ours:?} {theirs:?}"
    );
}

fn times(op: &Op) -> Option<Timestamp> {
    match op {
        Op::Samples { start, .. } | Op::Oom { start, .. } | Op::Recommend { start, .. } => {
            Some(*start)
        }
        Op::Pod { .. } | Op::DeletePod { .. } | Op::Checkpoint { .. } => None,
    }
}

fn check_all(kind: &str) {
    each_case(kind, |index, case: Case| {
        println!("{kind} case {index}");
        assert!(case.ops.iter().any(|op| matches!(op, Op::Recommend { .. })));
        let mut run = Run {
            fleet: Fleet::new(case.config.into()).unwrap(),
            id: AutoscalerId {
                namespace: "default".to_owned(),
                name: "vpa".to_owned(),
            },
            exact: case.exact.unwrap_or(true),
            zero_windows: ZeroWindows::default(),
            now: Timestamp::MIN,
            start: case.ops.iter().filter_map(times).min().unwrap(),
            end: case.ops.iter().filter_map(times).max().unwrap(),
        };
        run.fleet.apply_autoscaler(
            &run.id,
            case.vpa.into_spec(Selector::match_labels(case.selector)),
        );
        for op in &case.ops {
            run.apply(op);
        }
    });
}

#[test]
fn vectors_recommend() {
    check_all("vpa/recommend");
}

#[test]
fn vectors_recommend_checkpoint() {
    check_all("vpa/recommend_checkpoint");
}

#[test]
fn vectors_recommend_oom() {
    check_all("vpa/recommend_oom");
}

#[test]
fn vectors_recommend_short() {
    check_all("vpa/recommend_short");
}

#[test]
fn vectors_recommend_documented() {
    check_all("vpa/recommend_documented");
}
