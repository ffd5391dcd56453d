//! Duration of one decision: the native HPA over a hundred pods, its scaling rules, and a cron
//! window.
//!
//! `cargo bench -p scaling`.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use jiff::{SignedDuration, Timestamp};
use model::{Cpu, Memory, ResourceList, ResourceName};
use scaling::cron::{CronReplicas, Window, cron_replicas};
use scaling::hpa::{
    Behavior, Bounds, Container, History, Metric, PerPodTarget, Phase, Pod, PodMetric, PodMetrics,
    ReadinessDelays, Reading, ReadyCondition, ReadyStatus, Requests, Tolerance, Workload,
};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

fn pod(number: usize) -> Pod {
    let long_ago = now() - SignedDuration::from_hours(9);
    let requests = ResourceList::of(Cpu::from_millicores(500), Memory::from_bytes(1 << 30));
    Pod {
        name: format!("web-{number}"),
        deleted: false,
        phase: Phase::Running,
        ready: Some(ReadyCondition {
            status: ReadyStatus::True,
            since: long_ago,
        }),
        started: Some(long_ago),
        requests: Requests {
            pod: ResourceList::new(),
            containers: vec![Container {
                name: "app".to_owned(),
                requests,
            }],
        },
    }
}

fn metric(number: usize) -> (String, PodMetric) {
    let value_milli = 300 + (number as i64 * 7919) % 200;
    (
        format!("web-{number}"),
        PodMetric {
            value_milli,
            at: now(),
            window: SignedDuration::from_mins(1),
        },
    )
}

fn utilisation(c: &mut Criterion) {
    let pods: Vec<Pod> = (0..100).map(pod).collect();
    let metrics: PodMetrics = (0..100).map(metric).collect();
    let cpu = Metric::Resource {
        resource: ResourceName::Cpu,
        container: None,
        target: PerPodTarget::Utilization(50),
    };
    let workload = Workload {
        pods: &pods,
        spec_replicas: 100,
        status_replicas: 100,
        tolerance: Tolerance::default(),
        delays: ReadinessDelays::default(),
        now: now(),
    };
    c.bench_function("utilisation of 100 pods", |bencher| {
        bencher.iter(|| workload.propose(black_box(&cpu), Reading::Pods(&metrics)));
    });
}

fn rules(c: &mut Criterion) {
    let behavior = Behavior::default();
    let bounds = Bounds { min: 1, max: 200 };
    // An hour of passes, fifteen seconds apart.
    let mut full = History::new(50, SignedDuration::from_mins(5), now());
    let mut time = now();
    for pass in 0..240 {
        time += SignedDuration::from_secs(15);
        full.normalise(50 + pass % 3, 50, bounds, Some(&behavior), time);
        full.scaled(50, 50 + pass % 3, Some(&behavior), time);
    }
    time += SignedDuration::from_secs(15);
    c.bench_function("rules after an hour of passes", |bencher| {
        let pass = |mut history: History| {
            history.normalise(black_box(60), 50, bounds, Some(&behavior), time)
        };
        bencher.iter_batched(|| full.clone(), pass, BatchSize::SmallInput);
    });
}

fn windows(c: &mut Criterion) {
    let (start, end) = ("0 9 * * MON-FRI", "0 18 * * MON-FRI");
    let windows = [Window::new(Some("Europe/Berlin"), start, end, 10).expect("a window")];
    let replicas = CronReplicas { min: 1, kept: None };
    c.bench_function("window of working hours", |bencher| {
        bencher.iter(|| cron_replicas(black_box(&windows), replicas, now()));
    });
}

criterion_group!(benches, utilisation, rules, windows);
criterion_main!(benches);
