//! Throughput of samples and recommendations, and memory per container.
//!
//! `cargo bench -p vertical`. There are 100,000 containers, each with its own VPA: the worst
//! case, since pods with the same labels share one history.

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, Cpu, Memory, Sample, Selector};
use sizing::Config;
use testing::measured::resident_bytes;
use vertical::{ClusterState, PodSpec, VpaSpec};
use view::{ObjectKey, Phase};

const CONTAINERS: usize = 100_000;
const SAMPLES: usize = 100;
const MIB: i64 = 1 << 20;

fn start() -> Timestamp {
    "2026-01-01T12:34:56Z".parse().expect("a time")
}

/// Random-walk usage from a plain generator, different for each container.
fn usage(container: usize, step: usize) -> (Cpu, Memory) {
    let noise = |salt: usize| {
        (container * 7919 + step * 104_729 + salt).wrapping_mul(2_654_435_761) >> 8 & 0xff
    };
    let base = 20 + (container % 50) as i64 * 20;
    (
        Cpu::from_millicores(base + noise(1) as i64 * base / 256),
        Memory::from_bytes((base + noise(2) as i64) * MIB),
    )
}

fn sample(container: usize, step: usize) -> Sample {
    let (cpu, memory) = usage(container, step);
    // A quarter of an hour apart, so that memory windows pass.
    Sample {
        at: start() + SignedDuration::from_mins(15 * step as i64),
        cpu: Some(cpu),
        memory: Some(memory),
    }
}

fn container(number: usize) -> ContainerRef {
    ContainerRef {
        namespace: format!("team-{}", number % 20),
        pod: format!("web-{number}-0"),
        container: "app".to_owned(),
    }
}

fn vpa(number: usize) -> ObjectKey {
    ObjectKey {
        namespace: format!("team-{}", number % 20),
        name: format!("web-{number}"),
    }
}

fn cluster() -> ClusterState {
    let mut cluster = ClusterState::new(Config::default()).expect("defaults");
    for number in 0..CONTAINERS {
        let name = format!("web-{number}");
        let labels = [
            ("app", name.as_str()),
            ("part-of", "shop"),
            ("pod-template-hash", "5d8c7b9f4"),
        ];
        let selector = Selector::match_labels([("app", name.as_str()), ("part-of", "shop")]);
        cluster.apply_vpa(
            &vpa(number),
            VpaSpec {
                selector,
                ..VpaSpec::default()
            },
        );
        let pod = PodSpec {
            namespace: format!("team-{}", number % 20),
            name: format!("web-{number}-0"),
            labels: labels.into_iter().collect(),
            phase: Phase::Running,
            containers: vec!["app".to_owned()],
            ..PodSpec::default()
        };
        cluster.apply_pod(pod, start());
    }
    cluster
}

/// Memory of everything: histograms, pods, labels, VPAs and the index.
fn report_memory(when: &str, before: Option<usize>) {
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        println!(
            "cluster state: {} bytes per container resource {when}",
            after.saturating_sub(before) / (2 * CONTAINERS)
        );
    }
}

fn cluster_states(criterion: &mut Criterion) {
    let before = resident_bytes();
    let mut cluster = cluster();
    report_memory("before any sample", before);
    let containers: Vec<_> = (0..CONTAINERS).map(container).collect();
    let begin = Instant::now();
    for step in 0..SAMPLES {
        for (number, container) in containers.iter().enumerate() {
            let sample = sample(number, step);
            cluster
                .add_sample(container, &sample, sample.at)
                .expect("a known container");
        }
    }
    let nanoseconds = begin.elapsed().as_nanos() / (CONTAINERS * SAMPLES) as u128;
    println!(
        "cluster state: {CONTAINERS} containers, {SAMPLES} samples each: {nanoseconds} ns per sample of CPU and memory"
    );
    report_memory("with all samples", before);
    let mut step = SAMPLES;
    let mut group = criterion.benchmark_group("cluster state of 100,000 containers");
    group.sample_size(10);
    group.bench_function("recompute everything", |bench| {
        let ids: Vec<_> = (0..CONTAINERS).map(vpa).collect();
        bench.iter(|| {
            ids.iter()
                .filter_map(|id| cluster.recommend(black_box(id)))
                .count()
        });
    });
    group.bench_function("one round of samples", |bench| {
        bench.iter(|| {
            step += 1;
            for (number, container) in containers.iter().enumerate() {
                let sample = sample(number, step);
                cluster
                    .add_sample(container, &sample, sample.at)
                    .expect("a known container");
            }
        });
    });
    group.bench_function("one pod update", |bench| {
        let labels = [
            ("app", "web-7"),
            ("part-of", "shop"),
            ("pod-template-hash", "5d8c7b9f4"),
        ];
        let pod = PodSpec {
            namespace: "team-7".to_owned(),
            name: "web-7-0".to_owned(),
            labels: labels.into_iter().collect(),
            containers: vec!["app".to_owned()],
            ..PodSpec::default()
        };
        bench.iter(|| cluster.apply_pod(pod.clone(), start()));
    });
    group.finish();
}

criterion_group!(benches, cluster_states);
criterion_main!(benches);
