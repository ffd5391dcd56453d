//! Cost of one series: learning two weeks of samples, one more slot, and memory.
//!
//! `cargo bench -p forecast`. Three horizons (five minutes, one hour, a day), each with quantiles,
//! from samples a minute apart. The last figure learns 10,000 series in sequence on one core;
//! `PLIMSOLL_SERIES` sets another number.

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use forecast::{ForecastConfig, Forecaster};
use jiff::{SignedDuration, Timestamp};
use model::Series;
use testing::measured::resident_bytes;

const MINUTES: i64 = 14 * 1440;
const KEPT: usize = 200;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn at(minute: i64) -> Timestamp {
    start() + SignedDuration::from_mins(minute)
}

/// Daily and weekly pattern with noise, different for each series.
fn load(series: usize, minute: i64) -> f64 {
    let turn = 2.0 * std::f64::consts::PI * minute as f64 / 1440.0;
    let noise = (series as i64 * 7919 + minute * 104_729).wrapping_mul(2_654_435_761) >> 8 & 0xff;
    let weekend = if minute / 1440 % 7 >= 5 { 0.7 } else { 1.0 };
    (100.0 + 60.0 * turn.sin() + noise as f64 / 16.0) * weekend * (1.0 + series as f64 / 100.0)
}

fn history(series: usize) -> Series {
    Series::new(
        (0..MINUTES)
            .map(|minute| (at(minute), load(series, minute)))
            .collect(),
    )
}

fn config() -> ForecastConfig {
    ForecastConfig {
        step_seconds: 60,
        horizons_seconds: vec![300, 3600, 86_400],
    }
}

fn fitted(history: &Series) -> Forecaster {
    Forecaster::fit(history, &config()).expect("two weeks are enough")
}

fn memory() {
    let history = history(0);
    let before = resident_bytes();
    let kept: Vec<Forecaster> = (0..KEPT).map(|_| fitted(&history)).collect();
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        println!(
            "memory: {} bytes per series of three horizons",
            after.saturating_sub(before) / kept.len()
        );
    }
}

fn refit(criterion: &mut Criterion) {
    let history = history(0);
    criterion.bench_function(
        "refit: two weeks at one minute, three horizons with quantiles",
        |bench| {
            bench.iter(|| fitted(black_box(&history)));
        },
    );
    let mut forecaster = fitted(&history);
    let mut minute = MINUTES;
    criterion.bench_function(
        "live update: one slot, three horizons with quantiles",
        |bench| {
            bench.iter(|| {
                forecaster
                    .observe(at(minute), black_box(load(0, minute)))
                    .expect("in order");
                minute += 5;
                forecaster.advance(at(minute))
            });
        },
    );
    criterion.bench_function("one forecast, read", |bench| {
        bench.iter(|| {
            forecaster
                .forecast(black_box(3600))
                .expect("enough history")
        });
    });
}

fn many(_: &mut Criterion) {
    memory();
    let count: usize = std::env::var("PLIMSOLL_SERIES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(10_000);
    let histories: Vec<Series> = (0..50).map(history).collect();
    let begin = Instant::now();
    let mut sum = 0.0;
    for number in 0..count {
        let forecaster = fitted(&histories[number % histories.len()]);
        sum += forecaster.forecast(3600).expect("enough history").p95;
    }
    println!(
        "{count} series learnt and forecast in {:.1} s on one core (p95 in all {sum:.0})",
        begin.elapsed().as_secs_f64()
    );
}

criterion_group!(benches, refit, many);
criterion_main!(benches);
