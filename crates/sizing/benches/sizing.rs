//! Throughput of histograms: `cargo bench -p sizing`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use jiff::{SignedDuration, Timestamp};
use sizing::{Buckets, DecayingHistogram, HalfLife, HistogramConfig};

fn start() -> Timestamp {
    "2026-01-01T12:34:56Z".parse().expect("a time")
}

fn shape() -> HistogramConfig {
    let day = HalfLife::from_nanoseconds(86_400_000_000_000).expect("above zero");
    HistogramConfig {
        buckets: Buckets::cpu(),
        half_life: day,
    }
}

/// CPU usage in cores from a plain generator, a quarter of an hour apart.
fn sample(step: usize) -> (Timestamp, f64) {
    let noise = (step % 7 * 7919 + step * 104_729 + 1).wrapping_mul(2_654_435_761) >> 8 & 0xff;
    let base = 20 + (step % 7) * 20;
    let at = start() + SignedDuration::from_mins(15 * step as i64);
    (at, (base + noise * base / 256) as f64 / 1000.0)
}

fn histograms(criterion: &mut Criterion) {
    let samples: Vec<_> = (0..1000).map(sample).collect();
    let mut filled = DecayingHistogram::default();
    for (at, cores) in &samples {
        filled.add(&shape(), *cores, 0.1, *at);
    }
    let mut next = samples.iter().cycle();
    let mut histogram = DecayingHistogram::default();
    criterion.bench_function("histogram: add one sample", |bench| {
        bench.iter(|| {
            let (at, cores) = next.next().expect("a cycle");
            histogram.add(&shape(), black_box(*cores), 0.1, *at);
        });
    });
    criterion.bench_function("histogram: one percentile", |bench| {
        bench.iter(|| black_box(&filled).percentile(&shape(), black_box(0.9)));
    });
    criterion.bench_function("histogram: merge", |bench| {
        bench.iter(|| {
            let mut merged = DecayingHistogram::default();
            merged.merge(&shape(), black_box(&filled));
            merged
        });
    });
}

criterion_group!(benches, histograms);
criterion_main!(benches);
