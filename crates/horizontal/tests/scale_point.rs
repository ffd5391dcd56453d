//! An HPA and a VPA on the same CPU: by utilization of the requests, and by an amount per pod.

use jiff::{SignedDuration, Timestamp};
use model::{Cpu, ResourceList, ResourceName};
use proptest::prelude::*;
use sizing::{Config, ContainerHistory, ContainerState, HistogramConfigs, estimate};
use testing::hpa::{
    Container, Metric, PerPodTarget, Phase, Pod, PodMetric, PodMetrics, ReadinessDelays, Reading,
    ReadyCondition, ReadyStatus, Requests, Tolerance, Workload,
};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MAX_REPLICAS: i32 = 100;
/// Days after which the past weighs less than a bucket of the histogram.
const SETTLED: usize = 14;

/// A workload with both autoscalers.
struct Pair {
    now: Timestamp,
    target: PerPodTarget,
    replicas: i32,
    /// Request of each pod in millicores.
    request: i64,
    config: Config,
    shapes: HistogramConfigs,
    history: ContainerHistory,
    container: ContainerState,
}

impl Pair {
    fn new(target: PerPodTarget, replicas: i32, request: i64) -> Self {
        let config = Config {
            pod_min_cpu_millicores: 1.0,
            ..Config::default()
        };
        Self {
            now: Timestamp::from_second(1_800_000_000).expect("in range"),
            target,
            replicas,
            request,
            shapes: config.validate().expect("valid settings"),
            config,
            history: ContainerHistory::default(),
            container: ContainerState::default(),
        }
    }

    /// One hour with this total usage in millicores: the HPA scales, the VPA measures and sizes.
    fn hour(&mut self, load: i64) {
        self.now += HOUR;
        let usage = load / i64::from(self.replicas);
        self.container
            .add_cpu(&mut self.history, &self.shapes, usage, self.now.into());
        let minimum = sizing::container_minimum(&self.config, 1);
        let estimate = estimate(&self.config, &self.shapes, minimum, &self.history);
        self.replicas = self.proposal(usage).clamp(1, MAX_REPLICAS);
        self.request = estimate.target.cpu.millicores();
    }

    fn proposal(&self, usage: i64) -> i32 {
        let long_ago = self.now - HOUR * 24;
        let request: ResourceList =
            [(ResourceName::Cpu, Cpu::from_millicores(self.request).into())]
                .into_iter()
                .collect();
        let pods: Vec<Pod> = (0..self.replicas)
            .map(|index| Pod {
                name: index.to_string(),
                deleted: false,
                phase: Phase::Running,
                ready: Some(ReadyCondition {
                    status: ReadyStatus::True,
                    since: long_ago,
                }),
                started: Some(long_ago),
                requests: Requests {
                    pod: ResourceList::default(),
                    containers: vec![Container {
                        name: "app".to_owned(),
                        requests: request.clone(),
                    }],
                },
            })
            .collect();
        let metric = PodMetric {
            value_milli: usage,
            at: self.now,
            window: SignedDuration::from_mins(1),
        };
        let metrics: PodMetrics = pods.iter().map(|pod| (pod.name.clone(), metric)).collect();
        let workload = Workload {
            pods: &pods,
            spec_replicas: self.replicas,
            status_replicas: self.replicas,
            tolerance: Tolerance::default(),
            delays: ReadinessDelays::default(),
            now: self.now,
        };
        let metric = Metric::Resource {
            resource: ResourceName::Cpu,
            container: None,
            target: self.target,
        };
        let proposal = workload.propose(&metric, Reading::Pods(&metrics));
        proposal.expect("every pod has a value").replicas
    }

    /// Replicas and request after each hour of a day with these loads.
    fn day(&mut self, loads: &[i64]) -> Vec<(i32, i64)> {
        let hours = loads.iter().map(|load| {
            self.hour(*load);
            (self.replicas, self.request)
        });
        hours.collect()
    }
}

/// Whether two requests lie at most two buckets of the histogram apart.
fn is_close(one: i64, other: i64) -> bool {
    (one - other).abs() <= 10 + one.max(other) / 10
}

proptest! {
    #[test]
    fn with_an_amount_per_pod_replicas_and_requests_settle_for_any_load(
        loads in prop::collection::vec(100_i64..50_000, 24),
        amount in 500_i64..5_000,
        replicas in 1..MAX_REPLICAS,
        request in 10_i64..20_000,
    ) {
        let mut pair = Pair::new(PerPodTarget::AverageMilli(amount), replicas, request);
        // The same load with other requests: the HPA does not see them.
        let mut other = Pair::new(PerPodTarget::AverageMilli(amount), replicas, 20_000);
        let mut days = Vec::new();
        for _ in 0..SETTLED + 2 {
            let day = pair.day(&loads);
            let counts = other.day(&loads);
            prop_assert!(day.iter().zip(&counts).all(|(one, other)| one.0 == other.0));
            days.push(day);
        }
        let [before, last] = &days[SETTLED..] else { unreachable!("two days") };
        for ((replicas, request), (replicas_before, request_before)) in last.iter().zip(before) {
            prop_assert_eq!(replicas, replicas_before);
            prop_assert!(is_close(*request, *request_before), "{} {}", request, request_before);
        }
    }
}

/// The replicas after each 20 days of 10 cores, from 10 pods of one core.
fn replicas(target: PerPodTarget) -> [i32; 4] {
    let mut pair = Pair::new(target, 10, 1000);
    [(); 4].map(|()| {
        for _ in 0..20 {
            pair.day(&[10_000; 24]);
        }
        pair.replicas
    })
}

#[test]
fn by_utilization_the_pair_ratchets_to_many_small_or_few_large_pods() {
    let many = replicas(PerPodTarget::Utilization(50));
    assert!(many.is_sorted() && many[0] > 14, "{many:?}");
    assert_eq!(many[3], MAX_REPLICAS, "{many:?}");
    // The amount per pod of the same HPA at the start.
    let fixed = replicas(PerPodTarget::AverageMilli(500));
    assert_eq!(fixed, [20; 4]);
}
