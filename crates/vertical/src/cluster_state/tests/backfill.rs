//! Backfilled history: the result equals that of a state that received everything in order.

use crate::ClusterState;
use jiff::Timestamp;
use proptest::prelude::*;
use view::ObjectKey;

use super::fixture::{MIB, WEB, container, hours, id, pod, sample, start, without_pods};

/// Ten days, one sample per hour.
const HOURS: usize = 240;

fn at(hour: usize) -> Timestamp {
    start() + hours(hour as i64)
}

fn web() -> ObjectKey {
    id("web")
}

fn cluster(pods: &[&str]) -> ClusterState {
    let mut cluster = without_pods();
    for name in pods {
        cluster.apply_pod(pod(name, WEB), at(0));
    }
    cluster
}

fn feed(cluster: &mut ClusterState, pod: &str, usage: &[(i64, i64)], first_hour: usize) {
    for (index, (millicores, mebibytes)) in usage.iter().enumerate() {
        let sample = sample(at(first_hour + index), *millicores, mebibytes * MIB);
        cluster
            .add_sample(&container(pod, "app"), &sample, sample.at)
            .expect("a known container");
    }
}

/// Expects the same target, bounds and weights with history backfilled up to `split`.
fn check(usage: &[(i64, i64)], split: usize) {
    let mut whole = cluster(&["web-1", "web-2", "gone"]);
    let mut earlier = cluster(&["web-1", "web-2", "gone"]);
    let mut late = cluster(&["web-1", "web-2"]);
    feed(&mut whole, "gone", &usage[..split], 0);
    feed(&mut earlier, "gone", &usage[..split], 0);
    whole.delete_pod("shop", "gone");
    for pod in ["web-1", "web-2"] {
        feed(&mut whole, pod, usage, 0);
        feed(&mut earlier, pod, &usage[..split], 0);
        feed(&mut late, pod, &usage[split..], split);
    }
    late.prepend_history(&earlier, at(usage.len()));
    let [found, expected] = [&late, &whole].map(|cluster| cluster.estimates(&web()));
    assert_eq!(found, expected, "split at {split}");
    assert_eq!(late.size(), whole.size());
    let now = at(usage.len());
    // Weights have their own reference time, which may differ by whole half-lives.
    let weight = |cluster: &ClusterState| {
        let memory = &cluster.checkpoints(&web(), now).expect("known")["app"].memory_histogram;
        let reference = memory.reference_timestamp.as_ref();
        let reference = reference.expect("there are peaks").0;
        memory.total_weight * (reference.duration_since(at(0)).as_secs_f64() / 86_400.0).exp2()
    };
    let [found, expected] = [&late, &whole].map(weight);
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
}

fn waves() -> Vec<(i64, i64)> {
    let wave = |hour| (100 + (hour * 37) % 400, 200 + (hour * 53) % 300);
    (0..HOURS as i64).map(wave).collect()
}

#[test]
fn late_history_counts_as_if_it_had_been_seen() {
    // The memory window that is open at the split ends after the last sample.
    for split in [HOURS - 1, HOURS - 5, HOURS - 23] {
        check(&waves(), split);
    }
}

#[test]
fn history_of_pods_that_are_gone_counts_too_and_needs_no_live_pod() {
    let mut earlier = cluster(&["gone"]);
    feed(&mut earlier, "gone", &waves(), 0);
    let mut late = cluster(&[]);
    late.prepend_history(&earlier, at(HOURS));
    assert_eq!(late.estimates(&web()), earlier.estimates(&web()));
    assert_eq!(late.pod_count(&web()), Some(0));
}

#[test]
fn nothing_seen_before_changes_nothing() {
    let mut late = cluster(&["web-1"]);
    feed(&mut late, "web-1", &waves(), 0);
    let expected = late.estimates(&web());
    late.prepend_history(&cluster(&["web-1"]), at(HOURS));
    assert_eq!(late.estimates(&web()), expected);
}

#[test]
fn samples_go_on_after_the_history() {
    let usage = waves();
    let mut whole = cluster(&["web-1"]);
    let mut earlier = cluster(&["web-1"]);
    let mut late = cluster(&["web-1"]);
    feed(&mut whole, "web-1", &usage, 0);
    feed(&mut earlier, "web-1", &usage[..200], 0);
    feed(&mut late, "web-1", &usage[200..202], 200);
    late.prepend_history(&earlier, at(202));
    feed(&mut late, "web-1", &usage[202..], 202);
    assert_eq!(late.estimates(&web()), whole.estimates(&web()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_usage_split_within_the_open_window_is_the_same(
        usage in proptest::collection::vec((0i64..4000, 1i64..4000), 30..60),
        late in 1usize..20,
    ) {
        // The last window opens at hour 24; later samples are late.
        let usage = &usage[..usage.len().min(24 + 22)];
        let split = usage.len().saturating_sub(late).max(25).min(usage.len());
        check(usage, split);
    }
}
