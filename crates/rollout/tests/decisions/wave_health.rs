//! Waves that wait for the health of pods by Prometheus.

use std::sync::Arc;
use std::time::Duration;

use api::rollback::{MAX_WAVE_QUERY, WAVE_QUERY};
use rollout::{HealthMetric, HealthQuery, HealthReading, Plan, SkipReason, WaveSettings};
use serde_json::json;

use super::fixture::{Fixture, evicted};
use super::waves::{MINUTE, fixture, pass_time, replace};

const LATENCY: &str = "max by (pod) (latency_seconds)";

fn query(metric: HealthMetric) -> HealthQuery {
    HealthQuery {
        namespace: "shop".to_owned(),
        metric,
    }
}

fn throttling() -> HealthQuery {
    query(HealthMetric::Throttling)
}

fn latency() -> HealthQuery {
    query(HealthMetric::Expression(LATENCY.to_owned()))
}

/// Eight pods with CPU limits, of which the first has the new requests.
fn first_wave() -> Fixture {
    let mut fixture = fixture(8, &json!({}));
    fixture.settings.waves = Some(WaveSettings {
        reads_health: true,
        ..WaveSettings::default()
    });
    fixture.annotate("web", WAVE_QUERY, LATENCY);
    let plan = replace(&mut fixture, "1");
    assert_eq!(evicted(&plan), ["web-0"]);
    assert_eq!(plan.health_queries, [latency(), throttling()]);
    fixture
}

/// A reading that began now.
fn read(fixture: &mut Fixture, query: HealthQuery, values: Option<&[(&str, f64)]>) {
    let values = values.map(|values| {
        let values = values
            .iter()
            .map(|(pod, value)| ((*pod).to_owned(), *value));
        values.collect()
    });
    let reading = HealthReading {
        began: fixture.now.monotonic,
        values,
    };
    fixture.health.insert(query, Arc::new(reading));
}

/// The pass after a minute, with these latencies and shares of throttled periods.
fn judged(latencies: &[(&str, f64)], throttled: &[(&str, f64)]) -> Plan {
    let mut fixture = first_wave();
    pass_time(&mut fixture, MINUTE);
    read(&mut fixture, latency(), Some(latencies));
    read(&mut fixture, throttling(), Some(throttled));
    fixture.pass()
}

#[test]
fn values_that_doubled_roll_back_and_others_do_not() {
    let check = |latencies: &[(&str, f64)], throttled: &[(&str, f64)], expected: Option<&str>| {
        let plan = judged(latencies, throttled);
        let rollback = plan.rollbacks.first().and_then(|it| it.rollback.as_ref());
        let problem = rollback.and_then(|it| Some(it.problem.split_once("; ")?.1));
        assert_eq!(problem, expected, "{latencies:?} {throttled:?}");
        let acts = if expected.is_some() { 0 } else { 3 };
        assert_eq!(plan.actions.len(), acts, "{latencies:?} {throttled:?}");
    };
    check(&[], &[], None);
    check(&[("web-0x", 0.2), ("web-1", 0.1)], &[], None);
    check(
        &[("web-0x", 0.3), ("web-1", 0.1), ("web-2", 0.05)],
        &[],
        Some("web-0x: its value of plimsoll.dev/wave-query is 0.300, at most 0.100 for others"),
    );
    check(
        &[],
        &[("web-0x", 0.8), ("web-1", 0.02)],
        Some("web-0x: 80 % of its CPU periods are throttled, at most 2 % of those of others"),
    );
    check(&[], &[("web-0x", 0.2)], None);
    check(&[], &[("web-0x", 0.8), ("web-1", 0.7)], None);
    check(&[("web-1", 9.0)], &[("web-1", 1.0)], None);
}

#[test]
fn a_wave_waits_for_values_from_after_a_minute() {
    let mut fixture = first_wave();
    pass_time(&mut fixture, Duration::from_secs(59));
    for query in [latency(), throttling()] {
        read(&mut fixture, query, Some(&[("web-0x", 9.0)]));
    }
    pass_time(&mut fixture, MINUTE);
    let plan = fixture.check_skipped(SkipReason::Wave);
    assert_eq!(plan.rollbacks, [], "the values may be of its start");
    for query in [latency(), throttling()] {
        read(&mut fixture, query, Some(&[]));
    }
    assert_eq!(evicted(&fixture.pass()).len(), 3);
}

#[test]
fn a_wave_without_values_waits_and_says_so() {
    let mut fixture = first_wave();
    pass_time(&mut fixture, MINUTE);
    read(&mut fixture, latency(), None);
    read(&mut fixture, throttling(), Some(&[]));
    fixture.check_skipped(SkipReason::HealthUnknown);
    pass_time(&mut fixture, MINUTE * 9);
    assert_eq!(evicted(&fixture.pass()), ["web-1"], "one in ten minutes");
}

#[test]
fn a_pod_with_a_cpu_limit_must_have_its_value() {
    let mut fixture = first_wave();
    fixture.pod_with("web", "web-0x", &json!({"cpu": "1"}), |pod| {
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "2"});
    });
    pass_time(&mut fixture, MINUTE * 2);
    read(&mut fixture, latency(), Some(&[]));
    read(&mut fixture, throttling(), Some(&[("web-1", 0.0)]));
    fixture.check_skipped(SkipReason::HealthUnknown);
    read(&mut fixture, throttling(), Some(&[("web-0x", 0.0)]));
    assert_eq!(evicted(&fixture.pass()).len(), 3);
}

#[test]
fn a_query_that_is_too_long_is_not_kept_whole() {
    let mut fixture = first_wave();
    fixture.annotate("web", WAVE_QUERY, &"a".repeat(100_000));
    let queries = fixture.pass().health_queries;
    let HealthMetric::Expression(text) = &queries[0].metric else {
        panic!("{queries:?}")
    };
    assert_eq!(text.len(), MAX_WAVE_QUERY + 1);
}

#[test]
fn without_prometheus_nothing_is_asked_for() {
    let mut fixture = fixture(8, &json!({}));
    fixture.annotate("web", WAVE_QUERY, LATENCY);
    assert_eq!(fixture.pass().health_queries, []);
}
