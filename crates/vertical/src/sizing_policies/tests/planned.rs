//! Expected plans, as text.

use super::*;

#[test]
fn each_selected_workload_of_the_right_kind_and_namespace_gets_its_object() {
    let fixture = Fixture::new()
        .has(policy("web"))
        .workload("shop", "a", IN_WEB)
        .workload("shop", "b", &[("tier", "back")])
        .workload("bank", "c", IN_WEB)
        .controller(WellKnown::StatefulSet, "shop", "a", IN_WEB, None)
        .controller(WellKnown::Job, "shop", "d", IN_WEB, None);
    let created = [
        "create shop/plimsoll-deployment-a for web",
        "create shop/plimsoll-statefulset-a for web",
    ];
    check(&fixture, &[&created[..], &["web: 2 0 0 0"]].concat());
}

#[test]
fn only_the_topmost_workload_is_sized() {
    let mut jobs = policy("web");
    jobs.spec.kinds = vec![WellKnown::Job.into(), WellKnown::ReplicaSet.into()];
    let (cron, deployment) = (("batch/v1", "CronJob"), ("apps/v1", "Deployment"));
    let fixture = Fixture::new()
        .has(jobs)
        .controller(WellKnown::Job, "shop", "alone", IN_WEB, None)
        .controller(WellKnown::Job, "shop", "of-cron", IN_WEB, Some(cron))
        .controller(
            WellKnown::ReplicaSet,
            "shop",
            "of-web",
            IN_WEB,
            Some(deployment),
        );
    check(
        &fixture,
        &["create shop/plimsoll-job-alone for web", "web: 1 0 0 0"],
    );
}

#[test]
fn a_workload_under_an_owner_that_may_be_scaled_waits_for_the_answer_and_keeps_what_it_has() {
    let fixture = |policy: Policy| {
        let rollout = Some(("argoproj.io/v1alpha1", "Rollout"));
        let fixture =
            Fixture::new().controller(WellKnown::Deployment, "shop", "a", IN_WEB, rollout);
        fixture.made(&policy, "a", |_| ()).has(policy)
    };
    check(&fixture(policy("web")), &["web: 0 0 0 0"]);
    let questions = fixture(policy("web")).plan().questions;
    let questions = questions.iter().map(ToString::to_string);
    assert_eq!(questions.collect::<Vec<_>>(), ["Deployment shop/a"]);
}

#[test]
fn what_is_as_it_should_be_is_left_alone() {
    let extra = |object: &mut Value| {
        object["metadata"]["labels"]["team"] = "a".into();
        object["metadata"]["annotations"]["note"] = "kept".into();
    };
    check(&web().made(&policy("web"), "a", extra), &["web: 1 1 0 0"]);
}

#[test]
fn changes_of_others_are_reverted() {
    let changes: [fn(&mut Value); 5] = [
        |object| object["spec"]["updatePolicy"]["updateMode"] = "Recreate".into(),
        |object| object["spec"]["targetRef"]["name"] = "other".into(),
        |object| object["metadata"]["labels"] = json!({}),
        |object| object["metadata"]["labels"]["plimsoll.dev/policy"] = "other".into(),
        |object| object["metadata"]["annotations"] = json!({"plimsoll.dev/sizing-policy": "crane"}),
    ];
    for change in changes {
        let expected = ["patch shop/plimsoll-deployment-a for web", "web: 1 1 0 0"];
        check(&web().made(&policy("web"), "a", change), &expected);
    }
}

#[test]
fn an_object_without_its_owner_is_foreign() {
    let taken_off = |object: &mut Value| drop(object["metadata"]["ownerReferences"].take());
    check(
        &web().made(&policy("web"), "a", taken_off),
        &["web: 1 0 1 0"],
    );
}

#[test]
fn a_vpa_by_hand_stays_the_only_one() {
    let fixture = || web().by_hand("mine", "a");
    check(&fixture(), &["web: 1 0 1 0"]);
    let both = fixture().made(&policy("web"), "a", |_| ());
    let deleted = "delete shop/plimsoll-deployment-a for web";
    check(&both, &[deleted, "web: 1 0 1 0"]);
    let plan = fixture().plan();
    let conflict = &plan.summaries[0].counts.conflicting[0];
    assert_eq!(conflict.by, "VerticalPodAutoscaler/mine");
}

#[test]
fn a_name_that_is_taken_is_a_conflict() {
    let taken = web().by_hand("plimsoll-deployment-a", "other");
    check(&taken, &["web: 1 0 1 0"]);
}

#[test]
fn what_is_no_longer_selected_or_there_is_removed() {
    let fixture = Fixture::new()
        .workload("shop", "a", &[("tier", "back")])
        .has(policy("web"))
        .made(&policy("web"), "a", |_| ())
        .made(&policy("web"), "gone", |_| ());
    let removed = [
        "delete shop/plimsoll-deployment-a for web",
        "delete shop/plimsoll-deployment-gone for web",
    ];
    check(&fixture, &[&removed[..], &["web: 0 0 0 0"]].concat());
}

#[test]
fn what_a_policy_owned_that_is_gone_or_going_is_not_ours_to_remove() {
    let fixture = Fixture::new()
        .workload("shop", "a", IN_WEB)
        .made(&policy("web"), "a", |_| ());
    check(&fixture, &[]);
    let mut going = policy("web");
    going.is_terminating = true;
    check(&fixture.has(going), &[]);
}

#[test]
fn the_policy_of_the_namespace_goes_before_the_older_before_the_first_by_name() {
    let all = |name: &str, second| {
        let created = Timestamp::from_second(second).ok();
        Policy {
            created,
            ..for_all(name)
        }
    };
    let fixture = |policies: Vec<Policy>| {
        let fixture = Fixture::new().workload("shop", "a", &[]);
        policies.into_iter().fold(fixture, Fixture::has)
    };
    let create = |name: &str| format!("create shop/plimsoll-deployment-a for {name}");
    let cluster = cluster_policy("cluster", &[]);
    let own = fixture(vec![cluster, all("own", 9)]);
    check(&own, &[&create("own"), "cluster: 1 0 0 1", "own: 1 0 0 0"]);
    let older = fixture(vec![all("new", 9), all("old", 8)]);
    check(&older, &[&create("old"), "new: 1 0 0 1", "old: 1 0 0 0"]);
    let first = fixture(vec![all("b", 9), all("a", 9)]);
    check(&first, &[&create("a"), "b: 1 0 0 1", "a: 1 0 0 0"]);
}

#[test]
fn an_object_changes_hands_with_its_uid_and_all_that_is_known_of_it() {
    let cluster = cluster_policy("cluster", &[]);
    let fixture = Fixture::new()
        .workload("shop", "a", &[])
        .made(&cluster, "a", |_| ())
        .has(for_all("web"));
    let patched = "patch shop/plimsoll-deployment-a for web";
    check(&fixture, &[patched, "web: 1 0 0 0"]);
    let fixture = fixture.has(cluster);
    check(&fixture, &[patched, "web: 1 0 0 0", "cluster: 1 0 0 1"]);
}

#[test]
fn a_policy_of_the_cluster_reaches_the_namespaces_that_it_selects() {
    let fixture = |policy: Policy| {
        let mut fixture = Fixture::new().has(policy);
        for namespace in [
            "shop",
            "bank",
            "kube-system",
            "plimsoll-system",
            "unheard-of",
        ] {
            fixture = fixture.workload(namespace, "a", &[]);
        }
        fixture
    };
    let created = |namespace: &str| format!("create {namespace}/plimsoll-deployment-a for all");
    let (shop, bank, system) = (created("shop"), created("bank"), created("kube-system"));
    let everywhere = cluster_policy("all", &[]);
    check(&fixture(everywhere), &[&bank, &shop, "all: 2 0 0 0"]);
    let by_label = cluster_policy("all", &[("team", "a")]);
    check(&fixture(by_label), &[&shop, "all: 1 0 0 0"]);
    let by_name = cluster_policy("all", &[("kubernetes.io/metadata.name", "kube-system")]);
    check(&fixture(by_name), &[&system, "all: 1 0 0 0"]);
}

#[test]
fn the_suites_own_workloads_are_left_out_in_a_namespace_without_its_label_too() {
    let own = ("app.kubernetes.io/part-of", "plimsoll");
    let fixture = |policy| {
        let fixture = Fixture::new().has(policy);
        fixture.workload("shop", "updater", &[own])
    };
    check(&fixture(cluster_policy("all", &[])), &["all: 0 0 0 0"]);
    let created = "create shop/plimsoll-deployment-updater for all";
    let by_name = cluster_policy("all", &[("kubernetes.io/metadata.name", "shop")]);
    for policy in [by_name, for_all("all")] {
        check(&fixture(policy), &[created, "all: 1 0 0 0"]);
    }
}

#[test]
fn a_policy_is_its_recommenders_business() {
    let mut frugal = policy("web");
    frugal.spec.recommender = "frugal".to_owned();
    let fixture = Fixture::new()
        .workload("shop", "a", IN_WEB)
        .workload("shop", "b", IN_WEB);
    let mut all = for_all("rest");
    all.created = Some(Timestamp::MAX);
    // What the other recommender's policy is to take over stays until it does.
    let fixture = fixture.made(&all, "a", |_| ()).has(frugal).has(all);
    check(&fixture, &["rest: 2 0 0 2"]);
}

#[test]
fn a_policy_that_cannot_be_used_changes_nothing() {
    let mut broken = policy("web");
    broken.spec.sizing = Some(Sizing {
        policy: Some(SizingMethod::Crane),
        caution: None,
        settings: map(&[("no-such-thing", "1")]),
    });
    let fixture = Fixture::new()
        .workload("shop", "a", IN_WEB)
        .made(&broken, "a", |_| ());
    let fixture = fixture.made(&broken, "gone", |_| ());
    let fixture = fixture.has(broken).has(for_all("other"));
    check(&fixture, &["web: 0 0 0 0", "other: 1 0 0 1"]);
    let plan = fixture.plan();
    let invalid = &status(&plan, &[]).conditions[2];
    assert_eq!(invalid.reason, "InvalidSizing");
    assert!(invalid.message.contains("no-such-thing"), "{invalid:?}");
}
