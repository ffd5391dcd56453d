//! Series of VPA objects that come and go, and of a replica that stops leading.

use std::sync::Arc;

use prometheus::Registry;
use prometheus::core::Collector as _;
use prometheus::proto::MetricFamily;
use serde_json::json;

use super::*;
use crate::fixture;
use rollout::{ActionReason, PodCounts, Skip};

fn web() -> ObjectKey {
    ObjectKey::new("shop", "web")
}

fn plan(pods: usize) -> Plan {
    let counts = PodCounts {
        controlled: pods,
        evictable: pods,
        vpa: web(),
        ..PodCounts::default()
    };
    Plan {
        pod_counts: vec![Arc::new(counts)],
        ..Plan::default()
    }
}

/// The sum of all series of a counter, and their number.
fn counted(counter: &IntCounterVec) -> (f64, usize) {
    let families = counter.collect();
    let series: Vec<_> = families.iter().flat_map(MetricFamily::get_metric).collect();
    (
        series
            .iter()
            .map(|series| series.get_counter().get_value())
            .sum(),
        series.len(),
    )
}

#[test]
fn series_stay_until_the_vpa_object_is_deleted() {
    let mut view = View::default();
    view.vpas.apply(Arc::new(fixture::vpa(&json!({}))));
    let metrics = Metrics::register(&Registry::new()).expect("names are valid");
    let mut classes = SizeClasses::default();
    let done = ActionOutcome::Accepted { generation: None };

    metrics.planned(&plan(2), &view, &mut classes);
    metrics.finished(&fixture::eviction(ActionReason::Drift), &done, &mut classes);
    metrics.planned(&plan(1), &view, &mut classes);
    metrics.planned(&Plan::default(), &view, &mut classes);
    metrics.finished(&fixture::eviction(ActionReason::Drift), &done, &mut classes);
    assert_eq!(counted(&metrics.evicted), (2.0, 2));

    metrics.planned(&Plan::default(), &View::default(), &mut classes);
    assert_eq!(counted(&metrics.evicted), (0.0, 0));
}

#[test]
fn failures_are_zero_before_the_first_one_and_each_reason_has_a_number_of_pods() {
    let mut view = View::default();
    view.vpas.apply(Arc::new(fixture::vpa(&json!({}))));
    let metrics = Metrics::register(&Registry::new()).expect("names are valid");
    let mut classes = SizeClasses::default();
    let skip = Skip {
        vpa: web(),
        pod: ObjectKey::new("shop", "web-0"),
        reason: SkipReason::DisruptionBudget,
    };
    let skips = Plan {
        skips: vec![Arc::new(skip)],
        ..plan(2)
    };
    metrics.planned(&skips, &view, &mut classes);
    for counter in [&metrics.failed_evictions, &metrics.failed_resizes] {
        assert_eq!(counted(counter), (0.0, 1));
    }
    let pods = |reason: SkipReason| {
        let gauge = metrics
            .skipped
            .get_metric_with_label_values(&[reason.as_str()]);
        gauge.expect("the label is valid").get()
    };
    assert_eq!(pods(SkipReason::DisruptionBudget), 1);
    let series = metrics.skipped.collect();
    assert_eq!(series[0].get_metric().len(), SkipReason::ALL.len());

    metrics.planned(&plan(2), &view, &mut classes);
    assert_eq!(pods(SkipReason::DisruptionBudget), 0);
    metrics.planned(&Plan::default(), &View::default(), &mut classes);
    for counter in [&metrics.failed_evictions, &metrics.failed_resizes] {
        assert_eq!(counted(counter), (0.0, 0));
    }
}

#[test]
fn passes_without_a_valid_lease_of_the_webhook_are_counted_by_reason() {
    let metrics = Metrics::register(&Registry::new()).expect("names are valid");
    let shown = || {
        let counted = ["error", "invalid"]
            .map(|reason| metrics.webhook_invalid.with_label_values(&[reason]).get());
        let paused = metrics.paused.with_label_values(&["webhook_lease_expired"]);
        (counted, paused.get())
    };
    assert_eq!(counted(&metrics.webhook_invalid), (0.0, 2));
    metrics.paused(Some(PauseReason::WebhookLeaseMissing));
    assert_eq!(shown(), ([1, 0], 1));
    metrics.paused(Some(PauseReason::WebhookLeaseExpired));
    metrics.paused(Some(PauseReason::WebhookLeaseExpired));
    assert_eq!(shown(), ([1, 2], 1));
    metrics.paused(Some(PauseReason::Stopped));
    metrics.paused(None);
    assert_eq!(shown(), ([1, 2], 0));
}

#[test]
fn a_replica_that_stops_leading_resets_its_metrics() {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry).expect("names are valid");
    let shown = || {
        let families = registry.gather();
        let series: Vec<_> = families.iter().flat_map(MetricFamily::get_metric).collect();
        let sum: f64 = series
            .iter()
            .map(|series| series.get_counter().get_value() + series.get_gauge().get_value())
            .sum();
        (sum, series.len())
    };
    let before = shown();
    let mut classes = SizeClasses::default();
    metrics.planned(&plan(2), &View::default(), &mut classes);
    classes.of.insert(
        web(),
        Class {
            size: 1,
            mode: "Recreate",
        },
    );
    metrics.finished(
        &fixture::eviction(ActionReason::Drift),
        &ActionOutcome::Accepted { generation: None },
        &mut classes,
    );
    metrics.paused(Some(PauseReason::WebhookLeaseExpired));
    metrics.queue(1, 1);
    metrics.refuted(&fixture::refutation());
    assert_ne!(shown(), before);
    metrics.reset();
    assert_eq!(shown(), before);
}
