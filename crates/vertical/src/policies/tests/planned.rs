//! Plans, as text.

use super::*;

#[test]
fn each_selected_workload_of_the_right_kind_and_namespace_gets_its_object() {
    let fixture = Fixture::new()
        .has(policy("web"))
        .workload("shop", "a", &[("tier", "web")])
        .workload("shop", "b", &[("tier", "back")])
        .workload("bank", "c", &[("tier", "web")])
        .controller(
            WellKnown::StatefulSet,
            "shop",
            "a",
            &[("tier", "web")],
            None,
        )
        .controller(WellKnown::Job, "shop", "d", &[("tier", "web")], None);
    let created = [
        "create shop/plimsoll-deployment-a for web",
        "create shop/plimsoll-statefulset-a for web",
    ];
    check(&fixture, &[&created[..], &["web: 2 0 0 0"]].concat());
}

#[test]
fn only_the_topmost_workload_is_sized() {
    let mut jobs = policy("web");
    jobs.spec.kinds = vec![WellKnown::Job, WellKnown::ReplicaSet];
    let web = &[("tier", "web")];
    let fixture = Fixture::new()
        .has(jobs)
        .controller(WellKnown::Job, "shop", "alone", web, None)
        .controller(
            WellKnown::Job,
            "shop",
            "of-cron",
            web,
            Some(("batch/v1", "CronJob")),
        )
        .controller(
            WellKnown::ReplicaSet,
            "shop",
            "of-web",
            web,
            Some(("apps/v1", "Deployment")),
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
        let fixture = Fixture::new().controller(
            WellKnown::Deployment,
            "shop",
            "a",
            &[("tier", "web")],
            rollout,
        );
        fixture.made(&policy, "a", |_| ()).has(policy)
    };
    check(&fixture(policy("web")), &["web: 0 0 0 0"]);
    let questions = fixture(policy("web")).plan().questions;
    assert_eq!(
        questions
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["Deployment shop/a"]
    );
}

#[test]
fn what_is_as_it_should_be_is_left_alone() {
    let fixture = Fixture::new()
        .workload("shop", "a", &[("tier", "web")])
        .has(policy("web"));
    let extra = |object: &mut Value| {
        object["metadata"]["labels"]["team"] = "a".into();
        object["metadata"]["annotations"] = json!({"note": "kept"});
    };
    check(&fixture.made(&policy("web"), "a", extra), &["web: 1 1 0 0"]);
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
        let fixture = Fixture::new()
            .workload("shop", "a", &[("tier", "web")])
            .has(policy("web"));
        let expected = ["patch shop/plimsoll-deployment-a for web", "web: 1 1 0 0"];
        check(&fixture.made(&policy("web"), "a", change), &expected);
    }
}

#[test]
fn an_object_without_its_owner_is_foreign() {
    let fixture = Fixture::new()
        .workload("shop", "a", &[("tier", "web")])
        .has(policy("web"));
    let taken_off = |object: &mut Value| drop(object["metadata"]["ownerReferences"].take());
    check(
        &fixture.made(&policy("web"), "a", taken_off),
        &["web: 1 0 1 0"],
    );
}

#[test]
fn an_autoscaler_by_hand_stays_the_only_one() {
    let fixture = || {
        Fixture::new()
            .workload("shop", "a", &[("tier", "web")])
            .has(policy("web"))
            .by_hand("mine", "a")
    };
    check(&fixture(), &["web: 1 0 1 0"]);
    let both = fixture().made(&policy("web"), "a", |_| ());
    check(
        &both,
        &["delete shop/plimsoll-deployment-a for web", "web: 1 0 1 0"],
    );
    let plan = fixture().plan();
    assert_eq!(
        plan.summaries[0].conflicts.listed[0].by,
        "VerticalPodAutoscaler/mine"
    );
}

#[test]
fn a_name_that_is_taken_is_a_conflict() {
    let fixture = Fixture::new()
        .workload("shop", "a", &[("tier", "web")])
        .has(policy("web"));
    check(
        &fixture.by_hand("plimsoll-deployment-a", "other"),
        &["web: 1 0 1 0"],
    );
}

#[test]
fn what_is_no_longer_selected_or_there_is_removed() {
    let fixture = Fixture::new()
        .workload("shop", "a", &[("tier", "back")])
        .has(policy("web"));
    let fixture = fixture
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
        .workload("shop", "a", &[("tier", "web")])
        .made(&policy("web"), "a", |_| ());
    check(&fixture, &[]);
    check(
        &fixture.has(Policy {
            is_terminating: true,
            ..policy("web")
        }),
        &[],
    );
}

#[test]
fn the_policy_of_the_namespace_goes_before_the_older_before_the_first_by_name() {
    let all = |name: &str, second| {
        let created = Some(Timestamp::from_second(second).expect("in range"));
        Policy {
            created,
            spec: SizingPolicySpec::default(),
            ..policy(name)
        }
    };
    let fixture = |policies: Vec<Policy>| {
        let fixture = Fixture::new().workload("shop", "a", &[]);
        policies.into_iter().fold(fixture, Fixture::has)
    };
    let create = |name: &str| format!("create shop/plimsoll-deployment-a for {name}");
    let cluster = cluster_policy("cluster", &[]);
    check(
        &fixture(vec![cluster, all("own", 9)]),
        &[&create("own"), "cluster: 1 0 0 1", "own: 1 0 0 0"],
    );
    check(
        &fixture(vec![all("new", 9), all("old", 8)]),
        &[&create("old"), "new: 1 0 0 1", "old: 1 0 0 0"],
    );
    check(
        &fixture(vec![all("b", 9), all("a", 9)]),
        &[&create("a"), "b: 1 0 0 1", "a: 1 0 0 0"],
    );
}

#[test]
fn an_object_changes_hands_with_its_uid_and_all_that_is_known_of_it() {
    let winner = Policy {
        spec: SizingPolicySpec::default(),
        ..policy("web")
    };
    let cluster = cluster_policy("cluster", &[]);
    let fixture = Fixture::new()
        .workload("shop", "a", &[])
        .made(&cluster, "a", |_| ())
        .has(winner);
    let patched = "patch shop/plimsoll-deployment-a for web";
    check(&fixture, &[patched, "web: 1 0 0 0"]);
    check(
        &fixture.has(cluster),
        &[patched, "web: 1 0 0 0", "cluster: 1 0 0 1"],
    );
}

#[test]
fn a_policy_of_the_cluster_reaches_the_namespaces_that_it_selects() {
    let fixture = |policy: Policy| {
        let namespaces = [
            "shop",
            "bank",
            "kube-system",
            "plimsoll-system",
            "unheard-of",
        ];
        namespaces
            .iter()
            .fold(Fixture::new().has(policy), |fixture, namespace| {
                fixture.workload(namespace, "a", &[])
            })
    };
    let created = |namespace: &str| format!("create {namespace}/plimsoll-deployment-a for all");
    let (shop, bank, system) = (created("shop"), created("bank"), created("kube-system"));
    check(
        &fixture(cluster_policy("all", &[])),
        &[&bank, &shop, "all: 2 0 0 0"],
    );
    check(
        &fixture(cluster_policy("all", &[("team", "a")])),
        &[&shop, "all: 1 0 0 0"],
    );
    let by_name = cluster_policy("all", &[("kubernetes.io/metadata.name", "kube-system")]);
    check(&fixture(by_name), &[&system, "all: 1 0 0 0"]);
}

#[test]
fn the_suites_own_workloads_are_left_out_in_a_namespace_without_its_label_too() {
    let own = ("app.kubernetes.io/part-of", "plimsoll");
    let fixture = |policy: Policy| {
        Fixture::new()
            .has(policy)
            .workload("shop", "updater", &[own])
    };
    check(&fixture(cluster_policy("all", &[])), &["all: 0 0 0 0"]);
    let created = "create shop/plimsoll-deployment-updater for all";
    check(
        &fixture(cluster_policy(
            "all",
            &[("kubernetes.io/metadata.name", "shop")],
        )),
        &[created, "all: 1 0 0 0"],
    );
    let of_the_namespace = Policy {
        spec: SizingPolicySpec::default(),
        ..policy("all")
    };
    check(&fixture(of_the_namespace), &[created, "all: 1 0 0 0"]);
}

#[test]
fn a_policy_is_its_recommenders_business() {
    let mut frugal = policy("web");
    frugal.spec.recommender = "frugal".to_owned();
    let fixture = Fixture::new()
        .workload("shop", "a", &[("tier", "web")])
        .workload("shop", "b", &[("tier", "web")]);
    let all = Policy {
        created: Some(Timestamp::MAX),
        spec: SizingPolicySpec::default(),
        ..policy("rest")
    };
    // What the other recommender's policy is to take over stays until it does.
    let fixture = fixture.made(&all, "a", |_| ()).has(frugal).has(all);
    check(&fixture, &["rest: 2 0 0 2"]);
}

#[test]
fn a_policy_that_cannot_be_used_changes_nothing() {
    let mut broken = policy("web");
    broken.spec.sizing = Some(Sizing {
        policy: SizingMethod::Crane,
        settings: map(&[("no-such-thing", "1")]),
    });
    let fixture = Fixture::new()
        .workload("shop", "a", &[("tier", "web")])
        .made(&broken, "a", |_| ());
    let other = Policy {
        spec: SizingPolicySpec::default(),
        ..policy("other")
    };
    let fixture = fixture.made(&broken, "gone", |_| ()).has(broken).has(other);
    check(&fixture, &["web: 0 0 0 0", "other: 1 0 0 1"]);
    let plan = fixture.plan();
    let invalid = status(&plan, &[]);
    assert_eq!(invalid.conditions[2].reason, "InvalidSizing");
    assert!(
        invalid.conditions[2].message.contains("no-such-thing"),
        "{invalid:?}"
    );
}
