//! The fleet: what links pods, histories and autoscalers, and what bad data cannot do.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, Cpu, Labels, Memory, Requirement, Sample, Selector};
use proptest::collection::vec;
use proptest::prelude::*;
use sizing::{
    Accepted, AutoscalerId, AutoscalerSpec, CheckpointError, Config, ContainerPolicy, Fleet, Phase, PodSpec,
    SampleError, WithoutUsage,
};

const MIB: i64 = 1 << 20;

fn start() -> Timestamp {
    "2026-01-01T12:34:56Z".parse().unwrap()
}

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

fn fleet() -> Fleet {
    Fleet::new(Config { per_autoscaler_rules: true, ..Config::default() }).unwrap()
}

fn id(name: &str) -> AutoscalerId {
    AutoscalerId { namespace: "shop".to_owned(), name: name.to_owned() }
}

fn pod(name: &str, labels: &[(&str, &str)]) -> PodSpec {
    PodSpec {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        labels: labels.iter().copied().collect(),
        phase: Phase::Running,
        containers: vec!["app".to_owned()],
        init_containers: vec!["setup".to_owned()],
    }
}

fn selecting(labels: &[(&str, &str)]) -> AutoscalerSpec {
    AutoscalerSpec { selector: Selector::match_labels(labels.iter().copied()), ..AutoscalerSpec::default() }
}

fn container(pod: &str, container: &str) -> ContainerRef {
    ContainerRef { namespace: "shop".to_owned(), pod: pod.to_owned(), container: container.to_owned() }
}

fn sample(at: Timestamp, millicores: i64, bytes: i64) -> Sample {
    Sample { at, cpu: Some(Cpu::from_millicores(millicores)), memory: Some(Memory::from_bytes(bytes)) }
}

/// A fleet with pod `web-1` (label app=web), autoscaler `web` for it, and an hour of 100m and 100Mi usage.
fn web() -> Fleet {
    let mut fleet = fleet();
    fleet.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    fleet.apply_pod(pod("web-1", &[("app", "web")]), start());
    add_hour(&mut fleet, "web-1", start());
    fleet
}

fn add_hour(fleet: &mut Fleet, pod: &str, from: Timestamp) {
    for minute in 0..60 {
        let at = from + minutes(minute);
        fleet.add_sample(&container(pod, "app"), &sample(at, 100, 100 * MIB), at).unwrap();
    }
}

fn target(fleet: &Fleet, name: &str) -> Option<String> {
    let recommendation = fleet.recommend(&id(name))?;
    let container = recommendation.containers.first()?;
    Some(format!("{} {}", container.target.cpu()?.millicores(), container.target.memory()?.bytes()))
}

#[test]
fn an_hour_of_samples_gives_the_documented_target() {
    assert_eq!(target(&web(), "web").as_deref(), Some("126 262144000"));
}

#[test]
fn an_autoscaler_without_containers_recommends_nothing_and_an_unknown_one_is_absent() {
    let mut fleet = fleet();
    fleet.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    assert_eq!(fleet.recommend(&id("web")).unwrap().containers, []);
    assert_eq!(fleet.recommend(&id("other")), None);
}

#[test]
fn recommending_changes_nothing_and_any_number_may_do_it_at_once() {
    let mut fleet = web();
    fleet.apply_autoscaler(&id("also"), selecting(&[("app", "web")]));
    fleet.apply_pod(pod("web-2", &[("app", "web"), ("run", "2")]), start());
    add_hour(&mut fleet, "web-2", start());
    let now = start() + minutes(60);
    let all = |fleet: &Fleet| {
        let of = |name| (fleet.recommend(&id(name)), fleet.checkpoints(&id(name), now), fleet.histories(&id(name)));
        [of("web"), of("also")]
    };
    let first = all(&fleet);
    assert_eq!(first[0], first[1], "they share both histories");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| (0..50).all(|_| all(&fleet) == first))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
}

#[test]
fn the_minimum_without_usage_can_be_switched_off() {
    for (without_usage, expected) in [(WithoutUsage::Minimum, &["app", "proxy"][..]), (WithoutUsage::Nothing, &["app"])]
    {
        let mut fleet = Fleet::new(Config { without_usage, ..Config::default() }).unwrap();
        fleet.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
        let containers = vec!["app".to_owned(), "proxy".to_owned()];
        fleet.apply_pod(PodSpec { containers, ..pod("web-1", &[("app", "web")]) }, start());
        assert_eq!(fleet.recommend(&id("web")).unwrap().containers.is_empty(), expected.len() == 1);
        add_hour(&mut fleet, "web-1", start());
        let recommended = fleet.recommend(&id("web")).unwrap().containers;
        let names: Vec<_> = recommended.iter().map(|container| container.container_name.as_str()).collect();
        assert_eq!(names, expected);
        assert_eq!(fleet.explain(&id("web"), "proxy").is_some(), expected.contains(&"proxy"));
        // The other one keeps its share of the pod's minimum.
        assert_eq!(recommended[0].target.memory(), Some(Memory::from_bytes(125 * MIB)));
    }
}

#[test]
fn a_missing_resource_is_not_a_zero_sample() {
    let mut fleet = web();
    let before = fleet.histories(&id("web"));
    let at = start() + minutes(60);
    let nothing = Sample { at, cpu: None, memory: None };
    assert_eq!(fleet.add_sample(&container("web-1", "app"), &nothing, at), Ok(Accepted::default()));
    assert_eq!(fleet.histories(&id("web")), before);
}

#[test]
fn samples_of_init_containers_are_dropped_and_of_unknown_containers_refused() {
    let mut fleet = web();
    let size = fleet.size();
    let at = start() + minutes(60);
    assert_eq!(fleet.add_sample(&container("web-1", "setup"), &sample(at, 1, 1), at), Ok(Accepted::default()));
    for unknown in [container("web-1", "other"), container("web-2", "app")] {
        let error = SampleError::UnknownContainer(unknown.clone());
        assert_eq!(fleet.add_sample(&unknown, &sample(at, 1, 1), at), Err(error));
    }
    assert_eq!(fleet.size(), size);
}

#[test]
fn samples_that_are_negative_old_or_from_the_future_change_nothing() {
    let mut fleet = web();
    let before = fleet.histories(&id("web"));
    let now = start() + minutes(60);
    let app = container("web-1", "app");
    let future = now + SignedDuration::from_hours(25);
    assert!(matches!(fleet.add_sample(&app, &sample(future, 1, 1), now), Err(SampleError::Future { .. })));
    assert!(matches!(
        fleet.record_oom(&app, Timestamp::MAX, Memory::from_bytes(1), now),
        Err(SampleError::Future { .. })
    ));
    for bad in [sample(now, -1, -1), sample(Timestamp::MIN, 1, 1), sample(start(), 1, 1)] {
        assert_eq!(fleet.add_sample(&app, &bad, now), Ok(Accepted::default()));
    }
    assert_eq!(fleet.histories(&id("web")), before);
}

#[test]
fn stored_history_survives_a_change_of_the_selector_and_ends_with_the_autoscaler() {
    let mut fleet = web();
    let now = start() + SignedDuration::from_hours(30);
    let stored = fleet.checkpoints(&id("web"), now).unwrap().remove("app").unwrap();
    let mut fresh = self::fleet();
    fresh.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    fresh.load_checkpoint(&id("web"), "app", &stored, now).unwrap();
    fresh.apply_autoscaler(&id("web"), AutoscalerSpec::default());
    assert_eq!(target(&fresh, "web"), target(&fleet, "web"));
    fresh.delete_autoscaler(&id("web"));
    fresh.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    assert_eq!(target(&fresh, "web"), None);
    assert_eq!(fleet.load_checkpoint(&id("other"), "app", &stored, now), Err(CheckpointError::UnknownAutoscaler));
}

#[test]
fn stored_history_from_the_far_future_is_refused() {
    let mut fleet = web();
    let now = start() + minutes(60);
    let stored = fleet.checkpoints(&id("web"), now).unwrap().remove("app").unwrap();
    let long_before = now - SignedDuration::from_hours(24 * 400);
    let refused = fleet.load_checkpoint(&id("web"), "app", &stored, long_before);
    assert!(matches!(refused, Err(CheckpointError::Future { .. })), "{refused:?}");
}

#[test]
fn the_open_window_is_not_stored() {
    let fleet = web();
    let during = fleet.checkpoints(&id("web"), start() + minutes(60)).unwrap();
    assert!(during["app"].memory_histogram.bucket_weights.is_empty());
    let after = fleet.checkpoints(&id("web"), start() + SignedDuration::from_hours(24)).unwrap();
    assert_eq!(after["app"].memory_histogram.bucket_weights, BTreeMap::from([(8, 10_000)]));
}

/// Kills the container by OOM at 100Mi and gives the memory peak that counts, as the end of its bucket.
fn peak_after_oom(fleet: &mut Fleet, at: Timestamp) -> i64 {
    fleet.record_oom(&container("web-1", "app"), at, Memory::from_bytes(100 * MIB), at).unwrap();
    let history = fleet.histories(&id("web")).unwrap().remove("app").unwrap();
    history.memory.percentile(&fleet.shapes().memory, 1.0) as i64
}

/// `changed`: the peak while the policy has the field.
fn check_rules_end(policy: &ContainerPolicy, changed: i64) {
    let with = |policy: Option<&ContainerPolicy>| {
        let all = ContainerPolicy { container_name: "*".to_owned(), ..policy.cloned().unwrap_or_default() };
        AutoscalerSpec { policies: vec![all], ..selecting(&[("app", "web")]) }
    };
    let window = SignedDuration::from_hours(24);
    let plain = peak_after_oom(&mut web(), start());
    let mut fleet = web();
    fleet.apply_autoscaler(&id("web"), with(Some(policy)));
    assert_eq!(peak_after_oom(&mut fleet, start()), changed, "{policy:?}");
    let mut fleet = web();
    fleet.apply_autoscaler(&id("web"), with(Some(policy)));
    fleet.apply_autoscaler(&id("web"), with(None));
    assert_eq!(peak_after_oom(&mut fleet, start()), plain, "{policy:?}");
    fleet.apply_autoscaler(&id("web"), with(Some(policy)));
    fleet.delete_autoscaler(&id("web"));
    fleet.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    assert_eq!(peak_after_oom(&mut fleet, start() + window), plain, "{policy:?}");
    let mut ungated = Fleet::new(Config::default()).unwrap();
    ungated.apply_autoscaler(&id("web"), with(Some(policy)));
    ungated.apply_pod(pod("web-1", &[("app", "web")]), start());
    assert_eq!(peak_after_oom(&mut ungated, start()), plain, "{policy:?}");
}

#[test]
fn rules_of_an_autoscaler_end_with_the_field_and_with_the_autoscaler() {
    let tenfold = ContainerPolicy { oom_bump_up_ratio: Some("10".parse().unwrap()), ..ContainerPolicy::default() };
    check_rules_end(&tenfold, 1_077_095_457);
    let by_a_gibibyte = ContainerPolicy { oom_min_bump_up: Some("1Gi".parse().unwrap()), ..ContainerPolicy::default() };
    check_rules_end(&by_a_gibibyte, 1_207_997_742);
}

#[test]
fn the_window_of_memory_goes_back_to_the_default_when_the_field_is_removed() {
    let interval = |seconds| {
        let policy = ContainerPolicy {
            container_name: "*".to_owned(),
            memory_aggregation_interval_seconds: seconds,
            ..ContainerPolicy::default()
        };
        AutoscalerSpec { policies: vec![policy], ..selecting(&[("app", "web")]) }
    };
    let mut fleet = web();
    let interval_of = |fleet: &Fleet| fleet.memory_rules(&container("web-1", "app")).interval_ns;
    fleet.apply_autoscaler(&id("web"), interval(Some(60)));
    assert_eq!(interval_of(&fleet), 60_000_000_000);
    fleet.apply_autoscaler(&id("web"), interval(None));
    assert_eq!(interval_of(&fleet), 86_400_000_000_000);
    fleet.delete_pod("shop", "web-1");
    assert_eq!(interval_of(&fleet), 86_400_000_000_000, "what is not known has the default");
}

#[test]
fn a_kill_without_usage_keeps_what_was_published_of_cpu() {
    let mut fleet = fleet();
    fleet.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    fleet.apply_pod(pod("web-1", &[("app", "web")]), start());
    peak_after_oom(&mut fleet, start());
    let list = |millicores, mebibytes: i64| {
        model::ResourceList::of(Cpu::from_millicores(millicores), Memory::from_bytes(mebibytes * MIB))
    };
    let before = model::ContainerRecommendation {
        container_name: "app".to_owned(),
        target: list(700, 300),
        lower_bound: list(600, 300),
        upper_bound: list(800, 300),
        uncapped_target: list(700, 300),
    };
    let mut found = fleet.recommend(&id("web")).unwrap();
    let memory = found.containers[0].target.memory();
    let published = model::Recommendation { containers: vec![before.clone()] };
    fleet.keep_unmeasured(&id("web"), &mut found, &published);
    let kept = &found.containers[0];
    assert_eq!((kept.target.cpu(), kept.lower_bound.cpu()), (before.target.cpu(), before.lower_bound.cpu()));
    assert_eq!((kept.target.memory(), kept.target.memory() == before.target.memory()), (memory, false));
    add_hour(&mut fleet, "web-1", start());
    let measured = fleet.recommend(&id("web")).unwrap();
    let mut found = measured.clone();
    fleet.keep_unmeasured(&id("web"), &mut found, &published);
    assert_eq!(found, measured, "usage takes its place");
}

#[test]
fn a_pod_that_changes_its_labels_changes_its_autoscaler_and_keeps_its_state() {
    let mut fleet = web();
    fleet.apply_autoscaler(&id("db"), selecting(&[("app", "db")]));
    fleet.apply_pod(pod("web-1", &[("app", "db")]), start());
    assert_eq!((fleet.pod_count(&id("web")), fleet.pod_count(&id("db"))), (Some(0), Some(1)));
    let again = sample(start() + minutes(59), 100, 100 * MIB);
    let accepted = fleet.add_sample(&container("web-1", "app"), &again, again.at).unwrap();
    assert_eq!(accepted, Accepted { cpu: false, memory: true });
}

#[test]
fn history_outlives_its_pods_until_it_is_too_old_and_then_leaves_nothing_behind() {
    let mut fleet = web();
    fleet.delete_pod("shop", "web-1");
    let days = |days: i64| start() + SignedDuration::from_hours(24 * days);
    assert_eq!(fleet.collect_garbage(days(7)), 0);
    assert_eq!(target(&fleet, "web").as_deref(), Some("126 262144000"));
    assert_eq!(fleet.collect_garbage(days(9)), 1);
    assert_eq!(target(&fleet, "web"), None);
    fleet.delete_autoscaler(&id("web"));
    assert_eq!(fleet.size(), sizing::FleetSize::default());
}

#[test]
fn garbage_is_collected_at_most_once_an_hour() {
    let mut fleet = web();
    assert_eq!(fleet.collect_garbage(start() + minutes(1)), 0);
    fleet.apply_pod(pod("empty-1", &[("app", "empty")]), start());
    fleet.delete_pod("shop", "empty-1");
    assert_eq!(fleet.collect_garbage(start() + minutes(60)), 0);
    assert_eq!(fleet.collect_garbage(start() + minutes(61)), 1);
}

#[test]
fn an_empty_history_stays_while_a_pod_runs_or_its_target_exists() {
    let collect = |phase: Phase, spec: Option<AutoscalerSpec>| {
        let mut fleet = fleet();
        if let Some(spec) = spec {
            fleet.apply_autoscaler(&id("web"), spec);
        }
        fleet.apply_pod(PodSpec { phase, ..pod("web-1", &[("app", "web")]) }, start());
        fleet.collect_garbage(start() + minutes(1))
    };
    let orphaned = AutoscalerSpec { target_exists: false, ..selecting(&[("app", "web")]) };
    assert_eq!(collect(Phase::Running, None), 0);
    assert_eq!(collect(Phase::Succeeded, None), 1);
    assert_eq!(collect(Phase::Failed, Some(orphaned)), 1);
    assert_eq!(collect(Phase::Failed, Some(selecting(&[("app", "web")]))), 0);
}

#[test]
fn a_reset_keeps_what_is_named_and_forgets_the_rest() {
    let mut fleet = web();
    fleet.apply_pod(pod("web-2", &[("app", "web")]), start());
    fleet.apply_autoscaler(&id("db"), selecting(&[("app", "db")]));
    fleet.reset_pods(vec![pod("web-1", &[("app", "web")])], start());
    fleet.reset_autoscalers(HashMap::from([(id("web"), selecting(&[("app", "web")]))]));
    assert_eq!((fleet.pod_count(&id("web")), fleet.pod_count(&id("db"))), (Some(1), None));
    assert_eq!(target(&fleet, "web").as_deref(), Some("126 262144000"));
}

/// Few keys and values, so that selectors match now and then.
fn labels() -> impl Strategy<Value = Labels> {
    vec(("[ab]", "[xyz]"), 0..3).prop_map(|labels| labels.into_iter().collect())
}

fn selector() -> impl Strategy<Value = Selector> {
    let requirement =
        ("[ab]", proptest::collection::btree_set("[xyz]", 1..3), 0..4).prop_map(|(key, values, kind)| match kind {
            0 => Requirement::In(key, values),
            1 => Requirement::NotIn(key, values),
            2 => Requirement::Exists(key),
            _ => Requirement::DoesNotExist(key),
        });
    prop_oneof![9 => vec(requirement, 0..3).prop_map(Selector::new), 1 => Just(Selector::nothing())]
}

#[derive(Clone, Debug)]
enum Change {
    ApplyPod(u8, Labels),
    DeletePod(u8),
    ApplyAutoscaler(u8, Selector),
    DeleteAutoscaler(u8),
    CollectGarbage,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..6_u8, labels()).prop_map(|(pod, labels)| Change::ApplyPod(pod, labels)),
        (0..6_u8).prop_map(Change::DeletePod),
        (0..4_u8, selector()).prop_map(|(autoscaler, selector)| Change::ApplyAutoscaler(autoscaler, selector)),
        (0..4_u8).prop_map(Change::DeleteAutoscaler),
        Just(Change::CollectGarbage),
    ]
}

proptest! {
    #[test]
    fn every_autoscaler_is_linked_to_exactly_the_pods_that_it_selects(changes in vec(change(), 0..60)) {
        let mut fleet = fleet();
        let mut pods = BTreeMap::new();
        let mut autoscalers = BTreeMap::new();
        for (hour, change) in changes.into_iter().enumerate() {
            match change {
                Change::ApplyPod(number, labels) => {
                    let spec = PodSpec { labels: labels.clone(), ..pod(&number.to_string(), &[]) };
                    fleet.apply_pod(spec, start());
                    pods.insert(number, labels);
                }
                Change::DeletePod(number) => {
                    fleet.delete_pod("shop", &number.to_string());
                    pods.remove(&number);
                }
                Change::ApplyAutoscaler(number, selector) => {
                    let spec = AutoscalerSpec { selector: selector.clone(), ..AutoscalerSpec::default() };
                    fleet.apply_autoscaler(&id(&number.to_string()), spec);
                    autoscalers.insert(number, selector);
                }
                Change::DeleteAutoscaler(number) => {
                    fleet.delete_autoscaler(&id(&number.to_string()));
                    autoscalers.remove(&number);
                }
                Change::CollectGarbage => {
                    fleet.collect_garbage(start() + SignedDuration::from_hours(hour as i64));
                }
            }
            for (number, selector) in &autoscalers {
                let expected = pods.values().filter(|labels| selector.matches(labels)).count();
                prop_assert_eq!(fleet.pod_count(&id(&number.to_string())), Some(expected));
            }
            prop_assert_eq!((fleet.size().pods, fleet.size().autoscalers), (pods.len(), autoscalers.len()));
        }
    }

    #[test]
    fn no_sample_panics_and_a_day_of_real_samples_is_always_enough_to_recommend(
        samples in vec((any::<i64>(), any::<i64>(), any::<i64>(), any::<bool>()), 0..50),
    ) {
        let mut fleet = web();
        let app = container("web-1", "app");
        for (millicores, bytes, seconds, oom) in samples {
            let at = Timestamp::from_second(seconds % 253_402_207_200).unwrap_or(Timestamp::MIN);
            if oom {
                let _ = fleet.record_oom(&app, at, Memory::from_bytes(bytes), start());
            } else {
                let _ = fleet.add_sample(&app, &sample(at, millicores, bytes), start());
            }
        }
        // Thirty half-lives later nothing that was accepted weighs anything.
        let later = start() + SignedDuration::from_hours(24 * 30);
        add_hour(&mut fleet, "web-1", later);
        prop_assert_eq!(target(&fleet, "web"), Some("126 262144000".to_owned()));
        prop_assert!(fleet.checkpoints(&id("web"), later).is_some());
    }
}

#[test]
fn a_container_is_abandoned_when_it_is_old_and_running_pods_do_without_it() {
    let heard = start() + minutes(59);
    let soon = heard + SignedDuration::from_hours(8 * 24) - SignedDuration::from_secs(1);
    let late = heard + SignedDuration::from_hours(8 * 24);
    let mut fleet = web();
    assert!(!fleet.is_abandoned(&id("web"), "app", None, late), "its pod has it");
    assert!(fleet.is_abandoned(&id("web"), "old", Some(heard), late));
    assert!(fleet.is_abandoned(&id("web"), "old", None, late), "nothing was ever heard of it");
    assert!(!fleet.is_abandoned(&id("web"), "old", Some(heard), soon), "it may come back");
    assert!(!fleet.is_abandoned(&id("other"), "old", Some(heard), late), "there is no such autoscaler");
    fleet.apply_pod(PodSpec { containers: vec!["new".to_owned()], ..pod("web-1", &[("app", "web")]) }, late);
    assert!(!fleet.is_abandoned(&id("web"), "app", None, soon), "its live history is young");
    assert!(fleet.is_abandoned(&id("web"), "app", None, late));
    fleet.apply_pod(PodSpec { phase: Phase::Succeeded, ..pod("web-1", &[("app", "web")]) }, late);
    assert!(!fleet.is_abandoned(&id("web"), "old", Some(heard), late), "no pod runs to show that it is gone");
}

#[test]
fn a_forgotten_container_takes_no_share_of_the_minimum() {
    let mut fleet = web();
    let late = start() + SignedDuration::from_hours(8 * 24 + 1);
    let stored = fleet.checkpoints(&id("web"), late).unwrap().remove("app").unwrap();
    fleet.load_checkpoint(&id("web"), "old", &stored, late).unwrap();
    fleet.apply_pod(PodSpec { containers: vec!["new".to_owned()], ..pod("web-1", &[("app", "web")]) }, late);
    let names = |fleet: &Fleet| fleet.histories(&id("web")).unwrap().into_keys().collect::<Vec<_>>();
    assert_eq!(names(&fleet), ["app", "new", "old"]);
    for (container, left) in [("old", vec!["app", "new"]), ("app", vec!["new"]), ("new", vec!["new"])] {
        fleet.forget_container(&id("web"), container, late);
        assert_eq!(names(&fleet), left);
    }
}
