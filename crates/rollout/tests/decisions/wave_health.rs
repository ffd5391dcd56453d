//! Waves that wait for the health of pods by Prometheus.

use std::time::Duration;

use api::rollback::{MAX_WAVE_QUERY, WAVE_QUERY};
use rollout::{
    HealthMetric, HealthQuery, HealthReading, Plan, SkipReason, WaveSettings, add_reading,
};
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
    limit(&mut fixture, "web-0x", "1", "1500m");
    for index in 1..8 {
        limit(&mut fixture, &format!("web-{index}"), "100m", "2");
    }
    fixture
}

/// A pod with this CPU request and limit.
fn limit(fixture: &mut Fixture, name: &str, cpu: &str, limit: &str) {
    fixture.pod_with("web", name, &json!({"cpu": cpu}), |pod| {
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": limit});
    });
}

/// The throttling of all pods, of which one has another share.
fn shares<'a>(of: &'a str, share: f64, others: f64) -> Vec<(&'a str, f64)> {
    let names = [
        "web-0x", "web-1", "web-2", "web-3", "web-4", "web-5", "web-6", "web-7",
    ];
    let share_of = |name: &'a str| (name, if name == of { share } else { others });
    names.map(share_of).to_vec()
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
    add_reading(&mut fixture.health, query, reading);
}

/// Reads these latencies and shares of throttled periods.
fn read_both(fixture: &mut Fixture, latencies: &[(&str, f64)], throttled: &[(&str, f64)]) {
    read(fixture, latency(), Some(latencies));
    read(fixture, throttling(), Some(throttled));
}

/// The pass after a minute in which these latencies and shares of throttled periods were read twice.
fn judged(latencies: &[(&str, f64)], throttled: &[(&str, f64)]) -> Plan {
    let mut fixture = first_wave();
    pass_time(&mut fixture, MINUTE);
    read_both(&mut fixture, latencies, throttled);
    read_both(&mut fixture, latencies, throttled);
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
    let calm = shares("", 0.0, 0.0);
    check(&[], &calm, None);
    check(&[("web-0x", 0.2), ("web-1", 0.1)], &calm, None);
    check(
        &[("web-0x", 0.3), ("web-1", 0.1), ("web-2", 0.05)],
        &calm,
        Some("web-0x: its value of plimsoll.dev/wave-query is 0.300, at most 0.100 for others"),
    );
    check(
        &[],
        &shares("web-0x", 0.8, 0.02),
        Some("web-0x: 80 % of its CPU periods are throttled, at most 2 % of those of others"),
    );
    check(&[], &shares("web-0x", 0.2, 0.0), None);
    check(&[], &shares("web-0x", 0.8, 0.7), None);
    check(&[("web-1", 9.0)], &shares("web-1", 1.0, 0.0), None);
}

#[test]
fn one_worse_reading_delays_the_wave_and_does_not_end_it() {
    let calm = shares("", 0.0, 0.0);
    let slow = [("web-0x", 0.3), ("web-1", 0.1)];
    let mut fixture = first_wave();
    pass_time(&mut fixture, MINUTE);
    for latencies in [&slow[..], &[], &slow] {
        read_both(&mut fixture, latencies, &calm);
        let expected = if latencies.is_empty() { 3 } else { 0 };
        let plan = fixture.pass();
        assert_eq!((plan.rollbacks.len(), plan.actions.len()), (0, expected));
        pass_time(&mut fixture, Duration::from_secs(10));
    }
    read(&mut fixture, latency(), None);
    fixture.check_skipped(SkipReason::HealthUnknown);
    read_both(&mut fixture, &slow, &calm);
    let plan = fixture.pass();
    assert_eq!(plan.rollbacks.len(), 1, "a failed reading says nothing");
}

#[test]
fn the_query_of_the_user_names_what_throttling_proves() {
    let mut fixture = first_wave();
    pass_time(&mut fixture, MINUTE);
    let throttled = shares("web-0x", 1.0, 0.0);
    read(&mut fixture, throttling(), Some(&throttled));
    read_both(&mut fixture, &[("web-0x", 0.3), ("web-1", 0.1)], &throttled);
    let plan = fixture.pass();
    let rollback = plan.rollbacks.first().and_then(|it| it.rollback.as_ref());
    let problem = &rollback.expect("a rollback").problem;
    assert!(
        problem.contains("its value of plimsoll.dev/wave-query is 0.300"),
        "{problem}"
    );
}

#[test]
fn a_larger_limit_is_not_blamed_for_throttling() {
    let mut fixture = first_wave();
    limit(&mut fixture, "web-0x", "1", "3");
    pass_time(&mut fixture, MINUTE);
    read(&mut fixture, latency(), Some(&[]));
    read(
        &mut fixture,
        throttling(),
        Some(&shares("web-0x", 1.0, 0.0)),
    );
    let plan = fixture.pass();
    assert_eq!((plan.rollbacks.len(), plan.actions.len()), (0, 3));
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
    read(&mut fixture, latency(), Some(&[]));
    read(&mut fixture, throttling(), Some(&shares("", 0.0, 0.0)));
    assert_eq!(evicted(&fixture.pass()).len(), 3);
}

#[test]
fn a_wave_without_values_waits_and_says_so() {
    let mut fixture = first_wave();
    pass_time(&mut fixture, MINUTE);
    read(&mut fixture, latency(), None);
    read(&mut fixture, throttling(), Some(&shares("", 0.0, 0.0)));
    fixture.check_skipped(SkipReason::HealthUnknown);
    pass_time(&mut fixture, MINUTE * 9);
    assert_eq!(evicted(&fixture.pass()), ["web-1"], "one in ten minutes");
}

#[test]
fn pods_with_a_cpu_limit_must_have_their_values() {
    let mut fixture = first_wave();
    pass_time(&mut fixture, MINUTE * 2);
    read(&mut fixture, latency(), Some(&[]));
    for known in [&[("web-1", 0.0)], &[("web-0x", 0.8)]] {
        read(&mut fixture, throttling(), Some(known));
        let plan = fixture.check_skipped(SkipReason::HealthUnknown);
        assert_eq!(plan.rollbacks, []);
    }
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
