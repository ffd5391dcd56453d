//! Test of the names, types and labels of upstream's metrics, which dashboards and alerts rely on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use model::{Cpu, Memory, ResourceList, Sample};
use prometheus::proto::MetricFamily;
use sources::prometheus::Exchange;
use vertical::Accepted;
use vertical::recommender_state::Recommended;
use view::View;

use super::publish::LATENCY_BUCKETS;
use super::*;

/// Upstream's recommender 1.8 (`pkg/utils/metrics/recommender`, `pkg/utils/metrics/quality`).
const UPSTREAM: &[&str] = &[
    "vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores histogram recommendation_missing,update_mode",
    "vpa_quality_cpu_recommendation_over_usage_diffs_cores histogram recommendation_missing,update_mode",
    "vpa_quality_cpu_recommendations_cores histogram update_mode",
    "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes histogram is_oom,recommendation_missing,update_mode",
    "vpa_quality_mem_recommendation_over_usage_diffs_bytes histogram is_oom,recommendation_missing,update_mode",
    "vpa_quality_mem_recommendations_bytes histogram is_oom,update_mode",
    "vpa_quality_relative_recommendation_changes histogram resource,update_mode,vpa_size_log2",
    "vpa_quality_usage_recommendation_relative_diffs histogram is_oom,resource,update_mode",
    "vpa_quality_usage_sample_missing_recommendation_count counter is_oom,resource,update_mode",
    "vpa_recommender_aggregate_container_states_count gauge ",
    "vpa_recommender_execution_latency_seconds histogram step",
    "vpa_recommender_metric_server_responses counter client_name,is_error",
    "vpa_recommender_prometheus_client_api_requests_count counter code,method",
    "vpa_recommender_prometheus_client_api_requests_duration_seconds histogram code,method",
    "vpa_recommender_recommendation_latency_seconds histogram ",
    "vpa_recommender_vpa_objects_count gauge api,has_recommendation,matches_pods,unsupported_config,update_mode",
];

/// Name, type and labels.
fn shape(family: &MetricFamily) -> String {
    let labels = family.get_metric().iter().flat_map(|metric| {
        metric
            .get_label()
            .iter()
            .map(prometheus::proto::LabelPair::name)
    });
    let labels: BTreeSet<&str> = labels.collect();
    let kind = format!("{:?}", family.get_field_type()).to_lowercase();
    format!(
        "{} {kind} {}",
        family.name(),
        labels.into_iter().collect::<Vec<_>>().join(",")
    )
}

/// Everything that may be shown was seen once.
fn shown() -> Vec<MetricFamily> {
    let registry = Registry::new();
    let view = watch::Sender::new(View::default()).subscribe();
    let metrics = Metrics::register(&registry, vec![view]).expect("valid names");
    metrics.publish.decided([]);
    metrics.publish.steps.start().done("LoadVPAs");
    metrics.history.exchanged(Exchange {
        code: Some(200),
        duration: Duration::from_secs(1),
    });
    let uncapped = ResourceList::of(Cpu::from_millicores(100), Memory::from_bytes(100));
    let accepted = Accepted {
        cpu: true,
        memory: true,
    };
    for (millicores, uncapped) in [(50, Some(&uncapped)), (150, Some(&uncapped)), (50, None)] {
        let sample = Sample {
            at: Timestamp::UNIX_EPOCH,
            cpu: Some(Cpu::from_millicores(millicores)),
            memory: Some(Memory::from_bytes(millicores)),
        };
        let recommended = Recommended {
            update_mode: None,
            uncapped,
        };
        let quality = &metrics.ingest.quality;
        quality.sample(recommended, &sample, accepted);
    }
    let decision = crate::fixture::recommended("web", &["main"]);
    let mut changes = RecommendationChanges::default();
    changes.observe(&metrics.publish.quality, [&decision]);
    changes.observe(&metrics.publish.quality, [&decision]);
    registry.gather()
}

#[test]
fn everything_is_shown_under_its_name_with_its_type_and_labels() {
    let shown: BTreeSet<String> = shown().iter().map(shape).collect();
    for expected in UPSTREAM {
        assert!(shown.contains(*expected), "{expected} is not in {shown:#?}");
    }
    let is_upstreams = |name: &&String| name.starts_with("vpa_quality_");
    assert_eq!(
        shown.iter().filter(is_upstreams).count(),
        9,
        "vpa_quality_* are upstream's alone"
    );
}

#[test]
fn buckets_are_upstreams() {
    let cpu: Vec<f64> = (0..17).map(|power| 0.01 * f64::from(1 << power)).collect();
    let memory: Vec<f64> = (0..17).map(|power| 1e6 * f64::from(1 << power)).collect();
    let buckets: BTreeMap<String, Vec<f64>> = shown()
        .iter()
        .filter_map(|family| {
            let bounds = family.get_metric()[0].get_histogram().get_bucket().iter();
            let bounds: Vec<f64> = bounds
                .map(prometheus::proto::Bucket::upper_bound)
                .filter(|bound| bound.is_finite())
                .collect();
            (!bounds.is_empty()).then(|| (family.name().to_owned(), bounds))
        })
        .collect();
    for (name, expected) in [
        ("vpa_quality_cpu_recommendations_cores", &cpu[..]),
        (
            "vpa_quality_cpu_recommendation_over_usage_diffs_cores",
            &cpu,
        ),
        (
            "vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores",
            &cpu,
        ),
        ("vpa_quality_mem_recommendations_bytes", &memory),
        (
            "vpa_quality_mem_recommendation_over_usage_diffs_bytes",
            &memory,
        ),
        (
            "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes",
            &memory,
        ),
        (
            "vpa_recommender_recommendation_latency_seconds",
            &LATENCY_BUCKETS,
        ),
    ] {
        assert_eq!(buckets[name], expected, "{name}");
    }
    let ends = |name: &str| {
        (
            buckets[name].len(),
            buckets[name][0],
            buckets[name][buckets[name].len() - 1],
        )
    };
    let requests = "vpa_recommender_prometheus_client_api_requests_duration_seconds";
    for (name, expected) in [
        (
            "vpa_quality_usage_recommendation_relative_diffs",
            (29, -1.0, 100.0),
        ),
        (
            "vpa_quality_relative_recommendation_changes",
            (29, -1.0, 100.0),
        ),
        (
            "vpa_recommender_execution_latency_seconds",
            (23, 0.01, 300.0),
        ),
        (requests, (21, 0.01, 300.0)),
    ] {
        assert_eq!(ends(name), expected, "{name}");
    }
}
