//! Adoption of HPAs of the same workload, and the EHPA that gets one.

use serde_json::{Value, json};

use super::fixture::{Fixture, created_hpa, existing_hpa, hpa_name, owner, planned_hpa, reasons};
use crate::ehpa::plan::{Desired, Plan};

/// An HPA that belongs to no EHPA.
fn free(name: &str) -> Value {
    existing_hpa(name, &json!({}))
}

/// An HPA that another EHPA has created.
fn theirs() -> Value {
    existing_hpa("theirs", &json!({"ownerReferences": owner("u2")}))
}

fn adopted(name: &str, uid: &str) -> Value {
    let annotation = json!({"plimsoll.dev/adopted-by": format!("php-apache/{uid}")});
    existing_hpa(name, &json!({"annotations": annotation}))
}

#[track_caller]
fn check_hpa(plan: &Plan, name: Option<&str>, problems: &[&str]) {
    assert_eq!(
        (hpa_name(plan), reasons(plan)),
        (name, problems.to_vec()),
        "{:?}",
        plan.problems
    );
}

#[track_caller]
fn check_refused(plan: &Plan) {
    check_hpa(plan, None, &["FailedReconcileHPA"]);
}

#[track_caller]
fn check_message(plan: &Plan, start: &str) {
    assert!(
        plan.problems[0].message.starts_with(start),
        "{:?}",
        plan.problems
    );
}

#[test]
fn an_hpa_of_the_same_workload_is_adopted_only_if_it_has_no_other_owner() {
    let plan = Fixture::example().hpa(free("mine")).plan();
    assert_eq!((hpa_name(&plan), plan.adopts), (Some("mine"), true));
    for (strategy, hpas) in [
        ("Preview", vec![free("mine")]),
        ("Auto", vec![free("mine"), free("other")]),
        ("Auto", vec![theirs()]),
    ] {
        let fixture = Fixture::new(&json!({"scaleStrategy": strategy}));
        let plan = hpas.into_iter().fold(fixture, Fixture::hpa).plan();
        check_refused(&plan);
        assert_eq!(plan.substitute, Desired::Keep, "{strategy}");
    }
    // An adopted HPA is recognised under any name.
    let plan = Fixture::example()
        .hpa(free("later"))
        .hpa(adopted("mine", "u1"))
        .plan();
    check_hpa(&plan, Some("mine"), &["FailedReconcileHPA"]);
    assert_eq!(
        (plan.adopts, &plan.deleted, &plan.restored),
        (false, &vec![], &vec![])
    );
    check_message(&plan, "HorizontalPodAutoscalers later scale");
    // An HPA of another workload may have the name.
    let mut taken = free("ehpa-php-apache");
    taken["spec"]["scaleTargetRef"]["name"] = json!("else");
    check_refused(&Fixture::example().hpa(taken).plan());
}

#[test]
fn of_several_ehpas_of_a_workload_only_the_oldest_has_objects() {
    let by_hand = json!({"scaleStrategy": "Preview", "specificReplicas": 100});
    let check = |fixture: Fixture, expected: Desired<_>| {
        let plan = fixture.plan();
        check_refused(&plan);
        assert_eq!((plan.scale_to, plan.substitute), (None, Desired::Keep));
        assert_eq!(plan.prediction, expected);
    };
    check(Fixture::younger(&by_hand), Desired::Keep);
    check(Fixture::younger(&by_hand).predicted(&[]), Desired::Delete);
    // The oldest EHPA may have changed to the workload of another, which keeps its HPA.
    check(
        Fixture::new(&by_hand).hpa(theirs()).predicted(&[]),
        Desired::Delete,
    );
    let plan = Fixture::younger(&by_hand).hpa(created_hpa()).plan();
    assert!(
        matches!(plan.prediction, Desired::Apply(_)),
        "{:?}",
        plan.prediction
    );
    check_hpa(&plan, Some("ehpa-php-apache"), &["OlderAutoscaler"]);

    // An HPA uses no predictions, so one for a preview does no harm.
    let plan = Fixture::new(&by_hand).hpa(free("mine")).plan();
    assert_eq!((hpa_name(&plan), plan.scale_to), (None, None));
    assert!(
        matches!(plan.prediction, Desired::Apply(_)),
        "{:?}",
        plan.prediction
    );
}

#[test]
fn a_second_hpa_is_adopted_in_place_of_the_created_one() {
    let later = || free("later");
    let plan = Fixture::example().hpa(created_hpa()).hpa(later()).plan();
    check_hpa(&plan, Some("later"), &[]);
    assert_eq!(
        (plan.adopts, plan.deleted),
        (true, vec!["ehpa-php-apache".to_owned()])
    );
    // An HPA that cannot be adopted scales the workload alone, and is named.
    let release = json!({"annotations": {"meta.helm.sh/release-name": "shop"}});
    for (strategy, others, expected) in [
        (
            "Preview",
            vec![later()],
            "HorizontalPodAutoscaler later scales the same workload, so there is no preview",
        ),
        (
            "Auto",
            vec![existing_hpa("later", &release)],
            "HorizontalPodAutoscaler later scales the same workload and belongs to the Helm release shop",
        ),
        (
            "Auto",
            vec![later(), free("other")],
            "HorizontalPodAutoscalers later, other scale the same workload",
        ),
    ] {
        let fixture = Fixture::new(&json!({"scaleStrategy": strategy})).hpa(created_hpa());
        let plan = others.into_iter().fold(fixture, Fixture::hpa).plan();
        check_refused(&plan);
        assert_eq!(plan.deleted, ["ehpa-php-apache"]);
        check_message(&plan, expected);
    }
    let mut leaving = later();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let plan = Fixture::example().hpa(created_hpa()).hpa(leaving).plan();
    assert_eq!(
        (hpa_name(&plan), plan.deleted.len()),
        (Some("ehpa-php-apache"), 0)
    );
}

#[test]
fn what_a_tool_installed_is_adopted_only_by_name() {
    for (adopt, expected) in [(None, false), (Some("other"), false), (Some("mine"), true)] {
        let release = json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop:autoscaling/HorizontalPodAutoscaler:shop/mine"}});
        let mut fixture = Fixture::example().hpa(existing_hpa("mine", &release));
        if let Some(name) = adopt {
            fixture = fixture.annotated("plimsoll.dev/adopt-hpa", name);
        }
        let plan = fixture.plan();
        assert_eq!(
            (plan.adopts, plan.problems.is_empty()),
            (expected, expected),
            "{adopt:?}"
        );
    }
}

#[test]
fn an_adopted_hpa_is_restored_when_the_ehpa_no_longer_uses_it() {
    let check = |fixture: Fixture, restored: &[&str], name: Option<&str>| {
        let plan = fixture.plan();
        assert_eq!(plan.restored, restored);
        assert_eq!(hpa_name(&plan), name);
        plan
    };
    let mine = || adopted("mine", "u1");
    let plan = check(Fixture::example().hpa(mine()), &[], Some("mine"));
    let metadata = &planned_hpa(&plan)["metadata"];
    assert_eq!(
        metadata["annotations"],
        json!({"plimsoll.dev/adopted-by": "php-apache/u1"})
    );
    assert_eq!(
        [&metadata["ownerReferences"], &metadata["labels"]],
        [&Value::Null; 2]
    );

    let preview = json!({"scaleStrategy": "Preview", "specificReplicas": 5});
    let plan = check(Fixture::new(&preview).hpa(mine()), &["mine"], None);
    assert_eq!(
        (plan.scale_to, reasons(&plan)),
        (None, vec!["FailedReconcileHPA"])
    );
    let elsewhere =
        json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}});
    check(
        Fixture::new(&elsewhere).hpa(mine()),
        &["mine"],
        Some("ehpa-php-apache"),
    );
    let mut gone = Fixture::new(&elsewhere).hpa(mine());
    gone.target = Err("not found".to_owned());
    check(gone, &["mine"], None);
    // An older EHPA scales the workload, and has an HPA already.
    let younger = || Fixture::younger(&json!({}));
    check(younger().hpa(mine()).hpa(theirs()), &["mine"], None);
    // An HPA adopted by another EHPA belongs to that.
    let plan = check(Fixture::example().hpa(adopted("mine", "u2")), &[], None);
    assert_eq!(plan.prediction, Desired::Keep);

    // Of two EHPAs with one HPA each the younger one deletes its own.
    let plan = check(younger().hpa(created_hpa()).hpa(theirs()), &[], None);
    assert_eq!(plan.deleted, ["ehpa-php-apache"]);
    let fixture = Fixture::example().hpa(created_hpa()).hpa(theirs());
    let plan = check(fixture, &[], Some("ehpa-php-apache"));
    assert_eq!(
        (plan.deleted.len(), reasons(&plan)),
        (0, vec!["FailedReconcileHPA"])
    );
}
