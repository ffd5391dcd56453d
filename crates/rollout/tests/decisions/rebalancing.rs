//! Moves of pods from hot and from fragmented nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use placement::{
    HotNodeConfig, MeasuredLoad, NodeLoad, Policy, TargetLoadPacking, Usage, WindowLoad,
};
use rollout::{ActionOutcome, ActionReason, PauseReason, Plan, REBALANCE, RebalancingSettings};
use serde_json::{Value, json};
use view::{Namespace, Node, ObjectKey};

use crate::fixture::{ACCEPTED, Fixture, TOO_MANY_REQUESTS, evicted};

const OLD: &str = "2026-01-01T09:00:00Z";
const FIVE_MINUTES: Duration = Duration::from_mins(5);

/// Nodes of 8 CPUs.
fn node(fixture: &mut Fixture, name: &str, is_cordoned: bool) {
    let status = json!({"allocatable": {"cpu": "8", "memory": "64Gi"}});
    let spec = json!({"unschedulable": is_cordoned});
    let node = json!({"metadata": {"name": name}, "spec": spec, "status": status});
    let node = Node::from_k8s(serde_json::from_value(node).expect("a node"));
    fixture.view.nodes.apply(Arc::new(node));
}

fn annotate_namespace(fixture: &mut Fixture, annotations: &[(&str, &str)]) {
    let annotations = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    fixture.view.namespaces.apply(Arc::new(Namespace {
        name: "shop".to_owned(),
        labels: model::Labels::default(),
        annotations: annotations.collect::<BTreeMap<_, _>>(),
    }));
}

/// A new load of CPU of the nodes, in percent, over 15 minutes.
fn measure(fixture: &mut Fixture, percents: &[(&str, f64)]) {
    measure_over(fixture, 15, percents);
}

/// The same over a window of some minutes; 0 for the latest values.
fn measure_over(fixture: &mut Fixture, minutes: i64, percents: &[(&str, f64)]) {
    let load = |(name, average_percent): &(&str, f64)| {
        let cpu = Some(Usage {
            average_percent: *average_percent,
            deviation_percent: 0.0,
        });
        let load = NodeLoad {
            cpu,
            ..NodeLoad::default()
        };
        ((*name).to_owned(), load)
    };
    let nodes = percents.iter().map(load).collect();
    let end = fixture.now.wall;
    fixture.node_load = Some(MeasuredLoad {
        load: WindowLoad { end, nodes },
        length: SignedDuration::from_mins(minutes),
    });
}

fn pass_time(fixture: &mut Fixture, time: Duration) {
    fixture.now.monotonic += time;
    fixture.now.wall += time;
}

fn add_pod(fixture: &mut Fixture, name: &str, node: &str, created: &str, value: Option<&str>) {
    fixture.pod_with("web", name, &json!({"cpu": "1"}), |pod| {
        pod["spec"]["nodeName"] = json!(node);
        pod["metadata"]["creationTimestamp"] = json!(created);
        if let Some(value) = value {
            pod["metadata"]["annotations"] = json!({REBALANCE: value});
        }
    });
}

/// Four pods of the recommended size on the node `n1`, and an empty node `n2`.
fn fixture_with(value: Option<&str>, created: &str, update_policy: &Value) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.workload("web", 4, update_policy);
    for index in 0..4 {
        add_pod(&mut fixture, &format!("web-{index}"), "n1", created, value);
    }
    for name in ["n1", "n2"] {
        node(&mut fixture, name, false);
    }
    annotate_namespace(&mut fixture, &[]);
    fixture.settings.rebalancing = Some(RebalancingSettings {
        hot_nodes: HotNodeConfig::default(),
        fragmented_percent: 0.0,
        policy: Policy::TargetLoadPacking(TargetLoadPacking::default()),
        moves_per_minute: 20,
    });
    fixture
}

fn fixture() -> Fixture {
    fixture_with(Some("true"), OLD, &json!({}))
}

/// The plan once `n1` has been at 90 % for five minutes, and `n2` at this utilization.
fn heat(fixture: &mut Fixture, other: f64) -> Plan {
    let percents = [("n1", 90.0), ("n2", other)];
    measure(fixture, &percents);
    let early = fixture.pass();
    assert_eq!(evicted(&early), [] as [&str; 0], "not hot yet");
    pass_time(fixture, FIVE_MINUTES);
    measure(fixture, &percents);
    fixture.pass()
}

#[test]
fn pods_leave_a_hot_node_until_it_is_cool() {
    let mut fixture = fixture();
    let plan = heat(&mut fixture, 4.0);
    // Each of the four has 22.5 % of the node.
    assert_eq!(evicted(&plan), ["web-0", "web-1"]);
    for action in &plan.actions {
        assert_eq!(action.reason, ActionReason::HotNode);
        let found = action.relocation.as_ref().expect("a move");
        assert_eq!((found.from.as_str(), found.to.as_str()), ("n1", "n2"));
        assert_eq!((found.load_percent, found.threshold_percent), (90.0, 80.0));
        assert!(found.gain >= 10 && found.load.cpu_millicores == 1800);
    }
    let report = plan.rebalancing.expect("there is a load");
    assert_eq!(report.hot_nodes, 1);
    // Until there is another load, nothing is moved.
    fixture.report(
        &Plan {
            actions: plan.actions,
            ..Plan::default()
        },
        &TOO_MANY_REQUESTS,
    );
    fixture.node_load = None;
    fixture.check_idle("no new load");
}

#[test]
fn pods_of_other_groups_go_in_place_of_those_that_a_budget_keeps() {
    let mut fixture = fixture();
    fixture.budget("web", 1);
    fixture.workload("api", 4, &json!({}));
    for index in 0..4 {
        // Smaller than those of `web`, and also of the recommended size.
        fixture.pod_with(
            "api",
            &format!("api-{index}"),
            &json!({"cpu": "600m"}),
            |pod| {
                pod["spec"]["nodeName"] = json!("n1");
                pod["metadata"]["creationTimestamp"] = json!(OLD);
                pod["metadata"]["annotations"] = json!({REBALANCE: "true"});
            },
        );
    }
    fixture.recommend("api", "600m");
    let plan = heat(&mut fixture, 4.0);
    // 14.1 % and twice 8.4 % of 90 %.
    assert_eq!(evicted(&plan), ["web-0", "api-0", "api-1"]);
}

/// Checks how many pods leave a hot node after a change.
fn check(when: &str, value: Option<&str>, change: impl FnOnce(&mut Fixture), expected: usize) {
    let mut fixture = fixture_with(value, OLD, &json!({}));
    change(&mut fixture);
    let plan = heat(&mut fixture, 4.0);
    assert_eq!(evicted(&plan).len(), expected, "{when}: {plan:?}");
}

#[test]
fn annotations_of_pods_and_namespaces_say_which_pods_are_moved() {
    let namespace = |value: &'static str| {
        move |fixture: &mut Fixture| annotate_namespace(fixture, &[(REBALANCE, value)])
    };
    check("no annotation", None, |_| (), 0);
    check("opted out", Some("false"), |_| (), 0);
    check("the namespace", None, namespace("true"), 2);
    check("pod before namespace", Some("false"), namespace("true"), 0);
    check("pod opts in", Some("true"), namespace("false"), 2);
    check("invalid", Some("True"), namespace("true"), 0);
    let mut fixture = fixture_with(Some("yes"), OLD, &json!({}));
    let report = heat(&mut fixture, 4.0).rebalancing.expect("a load");
    let pods = report.invalid_annotations.iter();
    let pods: Vec<_> = pods.map(|(pod, uid)| (&*pod.name, &**uid)).collect();
    assert_eq!(pods.first(), Some(&("web-0", "uid-web-0")));
    assert_eq!(pods.len(), 4);
}

#[test]
fn moves_have_the_limits_of_every_eviction() {
    let yes = Some("true");
    check("a budget", yes, |it| it.budget("web", 1), 1);
    check("no budget left", yes, |it| it.budget("web", 0), 0);
    check("too few pods", yes, |it| it.settings.min_replicas = 5, 0);
    check(
        "the tolerance",
        yes,
        |it| it.settings.eviction_tolerance = 0.25,
        1,
    );
    check("one a minute", yes, |it| moves_per_minute(it, 1), 1);
    check("in place only", yes, |it| update_mode(it, "InPlace"), 0);
    check(
        "a closed window",
        yes,
        |it| it.annotate("web", rollout::MAINTENANCE_WINDOW, "0 2 * * *; for=1h"),
        0,
    );
    check(
        "a pause",
        yes,
        |it| it.pause = Some(PauseReason::Stopped),
        0,
    );
    check("no target", yes, |it| node(it, "n2", true), 0);
    check("unknown target", yes, |it| node(it, "n3", false), 2);
}

fn moves_per_minute(fixture: &mut Fixture, count: usize) {
    let rebalancing = fixture.settings.rebalancing.as_mut();
    rebalancing.expect("it is on").moves_per_minute = count;
}

fn update_mode(fixture: &mut Fixture, mode: &str) {
    fixture.vpa("web", &json!({"updateMode": mode}));
}

#[test]
fn pods_without_a_vpa_object_have_the_same_limits() {
    let yes = Some("true");
    let without = |fixture: &mut Fixture| {
        fixture.view.vpas.delete(&ObjectKey::new("shop", "web"));
    };
    check("no VPA object", yes, without, 2);
    check("mode Off", yes, |it| update_mode(it, "Off"), 2);
    check("not opted in", None, without, 0);
    let also = |change: fn(&mut Fixture)| {
        move |fixture: &mut Fixture| {
            without(fixture);
            change(fixture);
        }
    };
    check("a budget", yes, also(|it| it.budget("web", 1)), 1);
    check("too few", yes, also(|it| it.settings.min_replicas = 5), 0);
    let window = |it: &mut Fixture| {
        annotate_namespace(it, &[(rollout::MAINTENANCE_WINDOW, "0 2 * * *; for=1h")]);
    };
    check("the namespace's window", yes, also(window), 0);
    check(
        "no owner",
        yes,
        also(|it| {
            for index in 0..4 {
                let name = format!("web-{index}");
                it.pod_with("web", &name, &json!({"cpu": "1"}), |pod| {
                    pod["metadata"]["ownerReferences"] = json!([]);
                    pod["metadata"]["annotations"] = json!({REBALANCE: "true"});
                });
            }
        }),
        0,
    );
}

#[test]
fn nothing_moves_to_a_node_that_would_not_stay_cool() {
    // With 22.5 % more, it would be at 64.5 %, or at 65 %.
    for (other, expected) in [(42.0, 1), (42.5, 0), (79.0, 0)] {
        let plan = heat(&mut fixture(), other);
        assert_eq!(evicted(&plan).len(), expected, "{other}");
    }
}

#[test]
fn nothing_moves_by_an_old_load_or_after_a_gap() {
    let mut fixture = fixture();
    let percents = [("n1", 90.0), ("n2", 4.0)];
    for (minutes, age, expected) in [
        (0, 0, 0),
        (5, 6, 0),
        (1, 0, 0),
        (7, 0, 0),
        (4, 0, 0),
        (1, 0, 2),
    ] {
        pass_time(&mut fixture, Duration::from_mins(minutes));
        measure(&mut fixture, &percents);
        if let Some(load) = &mut fixture.node_load {
            load.load.end -= SignedDuration::from_mins(age);
        }
        let plan = fixture.pass();
        assert_eq!(evicted(&plan).len(), expected, "{minutes} {age}");
    }
}

/// Moves two of four pods, each with 22.5 % of `n1`, and returns how many more leave by a load of
/// `percent` after this time. The hot node is measured every two minutes in between.
fn more_moves(outcome: &ActionOutcome, minutes: i64, seconds: u64, percent: f64) -> usize {
    let mut fixture = fixture();
    let plan = heat(&mut fixture, 4.0);
    assert_eq!(evicted(&plan), ["web-0", "web-1"]);
    fixture.report(&plan, outcome);
    let now = fixture.now.wall.to_string();
    if *outcome == ACCEPTED {
        for name in ["web-0", "web-1"] {
            fixture.delete(name);
            add_pod(&mut fixture, &format!("{name}x"), "n2", &now, Some("true"));
        }
    }
    let percents = [("n1", percent), ("n2", 4.0)];
    let mut left = seconds;
    while left > 120 {
        pass_time(&mut fixture, Duration::from_mins(2));
        measure_over(&mut fixture, minutes, &percents);
        fixture.pass();
        left -= 120;
    }
    pass_time(&mut fixture, Duration::from_secs(left));
    measure_over(&mut fixture, minutes, &percents);
    evicted(&fixture.pass()).len()
}

#[test]
fn a_moved_pod_counts_as_gone_by_the_part_of_the_window_before_the_move() {
    for (minutes, seconds, percent, expected) in [
        // 70 % with 15 minutes: less 45 %, 22.5 % and 2.5 %.
        (15, 0, 70.0, 0),
        (15, 450, 70.0, 0),
        (15, 850, 70.0, 1),
        (5, 150, 70.0, 0),
        (5, 300, 70.0, 1),
        (0, 15, 70.0, 0),
        (0, 30, 70.0, 1),
        // The load shows that they left.
        (0, 30, 64.0, 0),
        (15, 900, 64.0, 0),
    ] {
        let found = more_moves(&ACCEPTED, minutes, seconds, percent);
        assert_eq!(found, expected, "{minutes} {seconds} {percent}");
    }
}

#[test]
fn a_refused_move_leaves_the_load_on_its_node() {
    for (outcome, expected) in [
        (TOO_MANY_REQUESTS, 2),
        (ActionOutcome::Rejected, 2),
        // They may have left: 90 % less 44 %.
        (ActionOutcome::Unknown, 0),
    ] {
        let found = more_moves(&outcome, 15, 20, 90.0);
        assert_eq!(found, expected, "{outcome:?}");
    }
}

#[test]
fn a_moved_pod_rests_for_an_hour() {
    let mut fixture = fixture();
    pass_time(&mut fixture, Duration::from_mins(2));
    let plan = heat(&mut fixture, 4.0);
    fixture.report(&plan, &ACCEPTED);
    let moved = fixture.now.monotonic;
    let now = fixture.now.wall.to_string();
    for name in ["web-0", "web-1"] {
        fixture.delete(name);
        add_pod(&mut fixture, &format!("{name}x"), "n2", &now, Some("true"));
    }
    // Now the other node is hot.
    let mut last = Vec::new();
    while last.is_empty() {
        pass_time(&mut fixture, Duration::from_mins(1));
        measure(&mut fixture, &[("n1", 4.0), ("n2", 90.0)]);
        let plan = fixture.pass();
        last = evicted(&plan).iter().map(|it| (*it).to_owned()).collect();
    }
    assert_eq!(last, ["web-0x"]);
    let waited = fixture.now.monotonic.checked_sub(moved);
    assert_eq!(waited, Some(Duration::from_hours(1)));
}

#[test]
fn a_new_leader_leaves_pods_alone_that_may_have_been_moved() {
    // Twelve o'clock is the time of the first pass.
    for (created, expected) in [
        ("2026-01-01T11:30:00Z", 0),
        ("2026-01-01T11:05:00Z", 2),
        ("2026-01-01T11:06:00Z", 0),
    ] {
        let mut fixture = fixture_with(Some("true"), created, &json!({}));
        let plan = heat(&mut fixture, 4.0);
        assert_eq!(evicted(&plan).len(), expected, "{created}");
    }
}

#[test]
fn a_fragmented_node_is_emptied_when_everything_fits_elsewhere() {
    for (threshold, other, expected) in [(0.0, 30.0, 0), (60.0, 30.0, 2), (60.0, 61.0, 0)] {
        let mut fixture = fixture();
        let rebalancing = fixture.settings.rebalancing.as_mut().expect("it is on");
        rebalancing.fragmented_percent = threshold;
        measure(&mut fixture, &[("n1", 6.0), ("n2", other)]);
        // A pod keeps the other node from being empty.
        add_pod(&mut fixture, "web-5", "n2", OLD, None);
        let plan = fixture.pass();
        assert_eq!(evicted(&plan).len(), expected, "{threshold} {other}");
        let reasons = plan.actions.iter().map(|action| action.reason);
        assert!(reasons.eq(vec![ActionReason::FragmentedNode; expected]));
    }
}

type Change<'a> = &'a dyn Fn(&mut Value);

#[test]
fn a_namespace_does_not_move_what_other_nodes_or_tools_may_not_bear() {
    let annotate = |key: &'static str, value: &'static str| {
        move |pod: &mut Value| pod["metadata"]["annotations"] = json!({key: value})
    };
    let of_job = |pod: &mut Value| pod["metadata"]["ownerReferences"][0]["kind"] = json!("Job");
    let with_data = |pod: &mut Value| {
        pod["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    };
    let of_group = |pod: &mut Value| pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    let kept: [(&str, Change); 5] = [
        (
            "Karpenter",
            &annotate("karpenter.sh/do-not-disrupt", "true"),
        ),
        (
            "Cluster Autoscaler",
            &annotate("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        ),
        ("Job", &of_job),
        ("volume", &with_data),
        ("group", &of_group),
    ];
    for (name, change) in kept {
        for (own, expected) in [(None, 0), (Some("true"), 2)] {
            if own.is_some() && name == "Job" {
                // The fixture has no Job of that name, so that no size of the group is known.
                continue;
            }
            let mut fixture = fixture_with(None, OLD, &json!({}));
            annotate_namespace(&mut fixture, &[(REBALANCE, "true")]);
            for index in 0..4 {
                fixture.pod_with(
                    "web",
                    &format!("web-{index}"),
                    &json!({"cpu": "1"}),
                    |pod| {
                        pod["spec"]["nodeName"] = json!("n1");
                        pod["metadata"]["creationTimestamp"] = json!(OLD);
                        change(pod);
                        if let Some(own) = own {
                            pod["metadata"]["annotations"][REBALANCE] = json!(own);
                        }
                    },
                );
            }
            let plan = heat(&mut fixture, 4.0);
            assert_eq!(plan.actions.len(), expected, "{name}, own {own:?}");
        }
    }
}

#[test]
fn pods_that_come_back_to_their_node_are_moved_four_times_a_day() {
    let mut fixture = fixture_with(None, OLD, &json!({}));
    add_pod(&mut fixture, "web-0", "n1", OLD, Some("true"));
    let percents = [("n1", 90.0), ("n2", 4.0)];
    let (mut name, mut moves) = ("web-0".to_owned(), Vec::new());
    for minutes in (0..24 * 60).step_by(5) {
        measure(&mut fixture, &percents);
        let plan = fixture.pass();
        if let [gone] = evicted(&plan)[..] {
            fixture.report(&plan, &ACCEPTED);
            fixture.delete(gone);
            fixture.pass();
            moves.push(minutes);
            name.push('x');
            let created = fixture.now.wall.to_string();
            add_pod(&mut fixture, &name, "n1", &created, Some("true"));
        }
        pass_time(&mut fixture, FIVE_MINUTES);
    }
    assert_eq!(moves, [5, 2 * 60 + 5, 6 * 60 + 5, 14 * 60 + 5]);
}
