//! Complete recommender runs for one VPA: from samples, OOM kills and checkpoints to recommendation
//! and checkpoints.

mod case;
mod check;

use crate::resource_policy::{container_policies, integer_cpu};
use crate::{Accepted, ClusterState, PodSpec, VpaSpec};
use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, Cpu, Labels, Memory, Sample, Selector};
use serde_json::{Value, json};
use testing::vectors::each_case;
use view::{ObjectKey, Phase};

use super::open_windows::OpenWindows;
use super::zero_windows::ZeroWindows;
use case::{Case, Container, Counts, Op, Outcome, config};

/// The VPA of a recorded object, which has neither kind nor target.
fn vpa(mut vpa: Value, selector: Selector) -> VpaSpec {
    vpa["apiVersion"] = json!("autoscaling.k8s.io/v1");
    vpa["kind"] = json!("VerticalPodAutoscaler");
    vpa["spec"]["targetRef"] =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"});
    let vpa = api::vpa::parse(vpa).expect("an object");
    VpaSpec {
        selector,
        policies: container_policies(&vpa),
        integer_cpu: integer_cpu(&vpa),
        ..VpaSpec::default()
    }
}

/// One recommender with one VPA in namespace `default`.
struct Run {
    cluster: ClusterState,
    id: ObjectKey,
    exact: bool,
    zero_windows: ZeroWindows,
    open_windows: OpenWindows,
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
            } => self.apply_pod(pod, Labels::from(labels.clone()), phase, containers),
            Op::DeletePod { pod } => {
                self.zero_windows.forget_pod(pod);
                self.open_windows.set_pod(pod, &[]);
                self.cluster.delete_pod("default", pod);
            }
            Op::Checkpoint {
                container,
                status,
                expect,
            } => {
                let loaded = self
                    .cluster
                    .load_checkpoint(&self.id, container, status, self.end, false);
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
                let samples =
                    (0..cpu_millicores.len().max(memory_bytes.len())).map(|index| Sample {
                        at: *start + SignedDuration::from_nanos(step_ns * index as i64),
                        cpu: cpu_millicores.get(index).copied().map(Cpu::from_millicores),
                        memory: memory_bytes.get(index).copied().map(Memory::from_bytes),
                    });
                self.add_samples(&Self::container(pod, container), samples, expect);
            }
            Op::Oom {
                pod,
                container,
                start,
                request_bytes,
                expect,
            } => {
                let request = Memory::from_bytes(*request_bytes);
                self.record_oom(&Self::container(pod, container), *start, request, expect);
            }
            Op::Recommend { start, expect } => self.check(*start, expect),
        }
    }

    fn apply_pod(&mut self, pod: &str, labels: Labels, phase: &str, containers: &[Container]) {
        let own = containers
            .iter()
            .map(|container| Self::container(pod, &container.name));
        self.open_windows.set_pod(pod, &own.collect::<Vec<_>>());
        let pod = PodSpec {
            namespace: "default".to_owned(),
            name: pod.to_owned(),
            labels,
            phase: match phase {
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                other => panic!("phase {other}"),
            },
            containers: containers
                .iter()
                .map(|container| container.name.clone())
                .collect(),
            ..PodSpec::default()
        };
        self.cluster.apply_pod(pod, self.start);
    }

    fn add_samples(
        &mut self,
        container: &ContainerRef,
        samples: impl Iterator<Item = Sample>,
        expect: &Counts,
    ) {
        let (shapes, rules) = (*self.cluster.shapes(), self.cluster.memory_rules(container));
        let interval_ns = rules.interval_ns;
        let (cluster, zero_windows, now) =
            (&mut self.cluster, &mut self.zero_windows, &mut self.now);
        let open_windows = &mut self.open_windows;
        let accepted: Vec<Accepted> = samples
            .map(|sample| {
                let ignored = zero_windows.upstream_ignores(container, &sample, interval_ns);
                let memory = sample.memory.filter(|_| ignored.is_none());
                let taken = Sample { memory, ..sample };
                // Samples may be late; the clock does not go back with them.
                *now = (*now).max(sample.at);
                let accepted = cluster
                    .add_sample(container, &taken, *now)
                    .unwrap_or_default();
                if let Some(usage) = memory.filter(|_| accepted.memory) {
                    open_windows.add_memory(container, (&shapes, &rules), usage, sample.at);
                }
                Accepted {
                    memory: ignored.unwrap_or(accepted.memory),
                    ..accepted
                }
            })
            .collect();
        let count =
            |part: fn(&Accepted) -> bool| accepted.iter().filter(|accepted| part(accepted)).count();
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

    fn record_oom(
        &mut self,
        container: &ContainerRef,
        at: Timestamp,
        request: Memory,
        expect: &Outcome,
    ) {
        let (shapes, rules) = (*self.cluster.shapes(), self.cluster.memory_rules(container));
        let interval_ns = rules.interval_ns;
        if self
            .zero_windows
            .upstream_ignores_kill(container, at, interval_ns)
        {
            assert!(expect.accepted, "upstream takes it and adds nothing");
            return;
        }
        let accepted = self
            .cluster
            .record_oom(container, at, request, at)
            .unwrap_or(false);
        assert_eq!(accepted, expect.accepted, "OOM kill of {container} at {at}");
        if accepted {
            self.open_windows
                .add_oom(container, (&shapes, &rules), request, at);
        }
    }
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
            cluster: ClusterState::new(config(&case.config)).unwrap(),
            id: ObjectKey {
                namespace: "default".to_owned(),
                name: "vpa".to_owned(),
            },
            exact: case.exact.unwrap_or(true),
            zero_windows: ZeroWindows::default(),
            open_windows: OpenWindows::default(),
            now: Timestamp::MIN,
            start: case.ops.iter().filter_map(times).min().unwrap(),
            end: case.ops.iter().filter_map(times).max().unwrap(),
        };
        run.cluster.apply_vpa(
            &run.id,
            vpa(case.vpa, Selector::match_labels(case.selector)),
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
