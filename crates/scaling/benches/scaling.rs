//! Duration of one decision: a cron window.
//!
//! `cargo bench -p scaling`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use scaling::cron::{CronReplicas, Window, cron_replicas};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

fn windows(c: &mut Criterion) {
    let (start, end) = ("0 9 * * MON-FRI", "0 18 * * MON-FRI");
    let windows = [Window::new(Some("Europe/Berlin"), start, end, 10).expect("a window")];
    let replicas = CronReplicas { min: 1, kept: None };
    c.bench_function("window of working hours", |bencher| {
        bencher.iter(|| cron_replicas(black_box(&windows), replicas, now()));
    });
}

criterion_group!(benches, windows);
criterion_main!(benches);
