//! Waves of a policy through its workloads.

use api::rollback::ROLLED_BACK;
use api::vpa::UpdateMode;
use jiff::ToSpan as _;

use super::idempotent::carry_out;
use super::*;

/// Workloads that a policy with the mode `InPlaceOrRecreate` selects, at second 0.
fn fixture(workloads: usize) -> Fixture {
    let mut policy = policy("web");
    policy.spec.update_mode = Some(UpdateMode::InPlaceOrRecreate);
    let names = (0..workloads).map(|index| format!("w{index:02}"));
    let add = |fixture: Fixture, name: String| fixture.workload("shop", &name, IN_WEB);
    names.fold(Fixture::new().has(policy), add)
}

/// Carries out plans until nothing is left to do, some minutes later, and returns the names of the
/// workloads that are updated.
fn pass(mut fixture: Fixture, minutes: i64) -> (Fixture, Vec<String>) {
    fixture.now += minutes.minutes();
    let plan = fixture.plan();
    let fixture = carry_out(fixture, plan);
    assert!(fixture.plan().writes.is_empty());
    let updated = fixture.view.vpas.iter().filter(|vpa| {
        let update = vpa.object.spec.update_policy.as_ref();
        update.and_then(|it| it.update_mode) == Some(UpdateMode::InPlaceOrRecreate)
    });
    let names = updated.map(|vpa| vpa.object.spec.target_ref.name.clone());
    let mut names: Vec<_> = names.collect();
    names.sort();
    (fixture, names)
}

fn change(fixture: Fixture, workload: &str, change: impl FnOnce(&mut Value)) -> Fixture {
    let key = ObjectKey::new("shop", format!("plimsoll-deployment-{workload}"));
    let there = fixture.view.vpas.get(&key).expect("an object");
    let mut object = json!(there.object);
    change(&mut object);
    fixture.object(object)
}

/// Gives all pods of a workload the recommended requests.
fn apply_to(fixture: Fixture, workload: &str) -> Fixture {
    let now = fixture.now;
    change(fixture, workload, |object| {
        let condition = json!({"type": "Applied", "status": "True", "reason": "Applied", "lastTransitionTime": now});
        object["status"] = json!({"conditions": [condition]});
    })
}

fn ready(fixture: &Fixture) -> String {
    let status = status(&fixture.plan(), &[]);
    let mut ready = status.conditions.iter().filter(|it| it.kind == "Ready");
    let ready = ready.next().expect("a condition");
    format!("{}: {}", ready.reason, ready.message)
}

#[test]
fn one_workload_is_first_and_three_follow_each_that_is_settled() {
    let (fixture, updated) = pass(fixture(30), 0);
    assert_eq!(updated, ["w00"]);
    let waiting = "Wave: 1 of 30 workloads updated, 29 waiting";
    assert_eq!(ready(&fixture), waiting);
    let fixture = apply_to(fixture, "w00");
    let (fixture, updated) = pass(fixture, 4);
    assert_eq!(updated.len(), 1, "not for long enough");
    let (mut fixture, updated) = pass(fixture, 1);
    assert_eq!(updated, ["w00", "w01", "w02", "w03"]);
    for workload in &updated[1..] {
        fixture = apply_to(fixture, workload);
    }
    let (mut fixture, updated) = pass(fixture, 5);
    assert_eq!(updated.len(), 16);
    for workload in &updated[4..] {
        fixture = apply_to(fixture, workload);
    }
    let (fixture, updated) = pass(fixture, 5);
    assert_eq!(updated.len(), 30);
    assert_eq!(
        ready(&fixture),
        "UpToDate: 30 workloads have an up-to-date VPA object"
    );
}

#[test]
fn a_workload_that_is_never_settled_delays_the_others_by_half_an_hour() {
    let (fixture, _) = pass(fixture(12), 0);
    let (fixture, updated) = pass(fixture, 29);
    assert_eq!(updated, ["w00"]);
    let (_, updated) = pass(fixture, 1);
    assert_eq!(updated, ["w00", "w01"]);
}

#[test]
fn a_rollback_stops_the_wave_and_what_is_updated_stays_so() {
    let (fixture, _) = pass(fixture(12), 0);
    let fixture = change(apply_to(fixture, "w00"), "w00", |object| {
        let rollback = json!({
            "at": Timestamp::UNIX_EPOCH, "problem": "1 of 1 pods fail",
            "refused": {}, "former": {},
        });
        object["metadata"]["annotations"][ROLLED_BACK] = rollback.to_string().into();
    });
    let (fixture, updated) = pass(fixture, 60);
    assert_eq!(updated, ["w00"]);
    let stopped = "WaveStopped: 1 of 12 workloads updated, 11 waiting: the recommendation of VerticalPodAutoscaler \
                   shop/plimsoll-deployment-w00 was rolled back";
    assert_eq!(ready(&fixture), stopped);
    // It counts for a day.
    let (_, updated) = pass(fixture, 23 * 60);
    assert_eq!(updated.len(), 4);
}

#[test]
fn few_workloads_and_those_that_are_updated_already_do_not_wait() {
    let (_, updated) = pass(fixture(9), 0);
    assert_eq!(updated.len(), 9);
    // The objects of a policy of nine.
    let (mut grown, _) = pass(fixture(9), 0);
    grown = grown.workload("shop", "w09", IN_WEB);
    grown = grown.workload("shop", "w10", IN_WEB);
    let (_, updated) = pass(grown, 0);
    assert_eq!(updated.len(), 11, "nine have had their turn");
}

#[test]
fn a_pause_of_the_updater_counts_for_as_long_as_it_is() {
    let (fixture, _) = pass(fixture(12), 0);
    let fixture = change(fixture, "w00", |object| {
        let condition = json!({"type": "Applied", "status": "False", "reason": "OutsideWindow"});
        object["status"] = json!({"conditions": [condition]});
    });
    let (_, updated) = pass(fixture, 600);
    assert_eq!(updated, ["w00"]);
}

#[test]
fn a_time_in_the_future_is_over() {
    let (fixture, _) = pass(fixture(12), 0);
    let fixture = change(fixture, "w00", |object| {
        object["metadata"]["annotations"]["plimsoll.dev/updates-since"] =
            "9000-01-01T00:00:00Z".into();
    });
    let (_, updated) = pass(fixture, 0);
    assert_eq!(updated, ["w00", "w01"]);
}

#[test]
fn an_object_that_cannot_be_written_or_is_switched_off_takes_no_turn() {
    let mut first = fixture(12);
    first.failing = vec!["plimsoll-deployment-w00".to_owned()];
    let (first, updated) = pass(first, 0);
    assert_eq!(updated, ["w01"]);
    let off = change(first, "w01", |object| {
        object["spec"]["updatePolicy"]["updateMode"] = "Off".into();
    });
    let (_, updated) = pass(off, 0);
    assert_eq!(updated, ["w01", "w02"]);
}

#[test]
fn workloads_without_pods_that_run_for_long_take_no_turn() {
    let mut jobs = policy("web");
    jobs.spec.update_mode = Some(UpdateMode::InPlaceOrRecreate);
    jobs.spec.kinds = vec![WellKnown::CronJob.into(), WellKnown::Deployment.into()];
    let mut fixture = Fixture::new().has(jobs);
    for number in 0..10 {
        fixture = fixture.controller(
            WellKnown::CronJob,
            "shop",
            &format!("j{number}"),
            IN_WEB,
            None,
        );
        fixture = fixture.workload("shop", &format!("w{number}"), IN_WEB);
    }
    let (_, updated) = pass(fixture, 0);
    assert_eq!(updated.len(), 11);
}

#[test]
fn a_policy_that_is_switched_on_again_begins_anew() {
    let (mut fixture, _) = pass(fixture(12), 0);
    let mut off = policy("web");
    off.spec.update_mode = None;
    let on = std::mem::replace(&mut fixture.policies[0], Arc::new(off));
    let (mut fixture, updated) = pass(fixture, 60);
    assert!(updated.is_empty());
    fixture.policies[0] = on;
    let (fixture, updated) = pass(fixture, 0);
    assert_eq!(updated, ["w00"]);
    let annotation = "plimsoll.dev/updates-since";
    let since = fixture.view.vpas.iter().filter_map(|vpa| {
        let annotations = vpa.object.metadata.annotations.as_ref()?;
        annotations.get(annotation).cloned()
    });
    assert_eq!(since.collect::<Vec<_>>(), ["1970-01-01T01:00:00Z"]);
}

#[test]
fn objects_that_wait_keep_a_mode_for_new_pods() {
    let initial = |fixture: &mut Fixture, mode: UpdateMode| {
        let mut policy = policy("web");
        policy.spec.update_mode = Some(mode);
        fixture.policies[0] = Arc::new(policy);
    };
    let mut fixture = fixture(12);
    initial(&mut fixture, UpdateMode::Initial);
    let (mut fixture, _) = pass(fixture, 0);
    initial(&mut fixture, UpdateMode::InPlaceOrRecreate);
    let (fixture, updated) = pass(fixture, 0);
    assert_eq!(updated, ["w00"]);
    let mut modes = fixture.view.vpas.iter().map(|vpa| {
        let update = vpa.object.spec.update_policy.as_ref();
        update.and_then(|it| it.update_mode)
    });
    assert!(modes.all(|it| it != Some(UpdateMode::Off)));
}

#[test]
fn each_namespace_has_a_wave_of_its_own() {
    let mut policy = cluster_policy("all", &[]);
    policy.spec.update_mode = Some(UpdateMode::InPlaceOrRecreate);
    let mut fixture = Fixture::new().has(policy);
    for (namespace, workloads) in [("shop", 3), ("bank", 20)] {
        for number in 0..workloads {
            fixture = fixture.workload(namespace, &format!("{namespace}{number}"), IN_WEB);
        }
    }
    let (fixture, updated) = pass(fixture, 0);
    assert_eq!(updated, ["bank0", "shop0"]);
    assert_eq!(
        ready(&fixture),
        "Wave: 2 of 23 workloads updated, 21 waiting"
    );
}
