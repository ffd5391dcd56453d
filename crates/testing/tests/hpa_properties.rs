//! Properties of all autoscalers: more usage never means fewer pods, bounds and rules are kept, and
//! a workload on target does not change.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::ResourceName;
use proptest::prelude::*;
use testing::hpa::{
    Behavior, Bounds, History, Metric, PerPodTarget, Phase, Pod, PodMetric, PodMetrics, Policy,
    PolicyKind, Proposal, ReadinessDelays, Reading, ReadyCondition, ReadyStatus, Requests, Rules,
    SelectPolicy, Tolerance, TotalTarget, Workload,
};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

fn pods(count: usize) -> Vec<Pod> {
    let long_ago = now() - SignedDuration::from_hours(9);
    let pod = |number: usize| Pod {
        name: format!("web-{number}"),
        deleted: false,
        phase: Phase::Running,
        ready: Some(ReadyCondition {
            status: ReadyStatus::True,
            since: long_ago,
        }),
        started: Some(long_ago),
        requests: Requests::default(),
    };
    (0..count).map(pod).collect()
}

fn metrics(values: &[i64]) -> PodMetrics {
    let metric = |value| PodMetric {
        value_milli: value,
        at: now(),
        window: SignedDuration::from_mins(1),
    };
    values
        .iter()
        .enumerate()
        .map(|(number, value)| (format!("web-{number}"), metric(*value)))
        .collect()
}

fn propose(metric: &Metric, values: &[i64], pods: &[Pod]) -> Proposal {
    let replicas = i32::try_from(pods.len()).expect("few pods");
    let workload = Workload {
        pods,
        spec_replicas: replicas,
        status_replicas: replicas,
        tolerance: Tolerance::default(),
        delays: ReadinessDelays::default(),
        now: now(),
    };
    let by_pod = metrics(values);
    let reading = match metric {
        Metric::External(_) => Reading::External(values),
        _ => Reading::Pods(&by_pod),
    };
    workload.propose(metric, reading).expect("a proposal")
}

fn per_pod(target: i64) -> Metric {
    Metric::Resource {
        resource: ResourceName::Memory,
        container: None,
        target: PerPodTarget::AverageMilli(target),
    }
}

fn external(target: i64) -> Metric {
    Metric::External(TotalTarget::AverageMilli(target))
}

fn policy() -> impl Strategy<Value = Policy> {
    (any::<bool>(), 1..200_i32, 1..=1800_i32).prop_map(|(percent, value, period_seconds)| {
        let kind = if percent {
            PolicyKind::Percent
        } else {
            PolicyKind::Pods
        };
        Policy {
            kind,
            value,
            period_seconds,
        }
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    let select = prop_oneof![
        Just(SelectPolicy::Max),
        Just(SelectPolicy::Min),
        Just(SelectPolicy::Disabled)
    ];
    (
        prop::option::of(0..3600_i32),
        prop::option::of(select),
        prop::collection::vec(policy(), 0..3),
    )
        .prop_map(|(stabilization_seconds, select_policy, policies)| Rules {
            stabilization_seconds,
            select_policy,
            policies,
            tolerance: None,
        })
}

fn behavior() -> impl Strategy<Value = Option<Behavior>> {
    prop::option::of((rules(), rules()).prop_map(|(up, down)| Behavior { up, down }))
}

proptest! {
    #[test]
    fn more_usage_never_means_fewer_pods(
        values in prop::collection::vec(0..10_000_i64, 1..20),
        more in 0..10_000_i64,
        missing in 0..5_usize,
        target in 1..10_000_i64,
        busiest in any::<prop::sample::Index>(),
    ) {
        let mut raised = values.clone();
        *busiest.get_mut(&mut raised) += more;
        let pods = pods(values.len() + missing);
        let before = propose(&per_pod(target), &values, &pods).replicas;
        prop_assert!(propose(&per_pod(target), &raised, &pods).replicas >= before);
        let before = propose(&external(target), &values, &pods).replicas;
        prop_assert!(propose(&external(target), &raised, &pods).replicas >= before);
    }

    /// A proposal meets the target for the same total within the tolerance, and is then proposed
    /// again.
    #[test]
    fn what_is_proposed_is_enough_and_stays(total in 1..1_000_000_i64, count in 1..50_usize, target in 1..10_000_i64) {
        let first = propose(&external(target), &[total], &pods(count)).replicas;
        prop_assert!(i64::from(first) * target * 11 / 10 + 1 >= total);
        let count = usize::try_from(first).expect("not negative");
        prop_assert_eq!(propose(&external(target), &[total], &pods(count)).replicas, first);
    }

    #[test]
    fn bounds_are_kept_and_rules_lead_towards_what_is_wanted(
        behavior in behavior(),
        min in 0..20_i32,
        span in 0..200_i32,
        start in 0.0..=1.0_f64,
        wanted in prop::collection::vec(0..400_i32, 1..30),
        step_seconds in 1..600_i64,
    ) {
        let bounds = Bounds { min, max: min + span };
        let mut current = min + (f64::from(span) * start) as i32;
        let mut time = now();
        let mut history = History::new(current, SignedDuration::from_mins(5), time);
        for wanted in wanted {
            time += SignedDuration::from_secs(step_seconds);
            let found = history.normalise(wanted, current, bounds, behavior.as_ref(), time).replicas;
            prop_assert!((bounds.min..=bounds.max).contains(&found), "{found}");
            // Rules never lead away from the proposal within the bounds; without them a recent peak
            // is caught up with.
            let inside = wanted.clamp(bounds.min, bounds.max);
            let between = current.min(inside)..=current.max(inside);
            prop_assert!(behavior.is_none() || between.contains(&found), "{current} to {found}, not {inside}");
            history.scaled(current, found, behavior.as_ref(), time);
            current = found;
        }
    }

    #[test]
    fn no_policy_is_outrun(
        policies in prop::collection::vec(policy(), 1..3),
        start in 0..50_i32,
        steps in prop::collection::vec(1..120_i64, 1..40),
    ) {
        let up = Rules { policies: policies.clone(), select_policy: Some(SelectPolicy::Min), ..Rules::default() };
        let behavior = Behavior { up, down: Rules::default() };
        let bounds = Bounds { min: 0, max: 1_000_000 };
        let mut seen: BTreeMap<Timestamp, i32> = BTreeMap::from([(now(), start)]);
        let (mut current, mut time) = (start, now());
        let mut history = History::new(current, SignedDuration::from_mins(5), time);
        for step in steps {
            time += SignedDuration::from_secs(step);
            let found = history.normalise(500_000, current, bounds, Some(&behavior), time).replicas;
            history.scaled(current, found, Some(&behavior), time);
            for policy in &policies {
                let edge = time - SignedDuration::from_secs(policy.period_seconds.into());
                let began = *seen.range(..=edge).next_back().map_or(&start, |(_, replicas)| replicas);
                let most = match policy.kind {
                    PolicyKind::Pods => began + policy.value,
                    PolicyKind::Percent => (f64::from(began) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32,
                };
                prop_assert!(found <= most.max(current), "{found} above {most}");
            }
            current = found;
            seen.insert(time, current);
        }
    }
}
