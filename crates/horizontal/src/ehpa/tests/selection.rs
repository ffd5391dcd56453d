//! Adoption of HPAs of the same workload, and the EHPA that gets one.

use serde_json::{Value, json};

use super::fixture::{Fixture, existing_hpa, owner, planned_hpa, reasons};
use crate::ehpa::plan::Desired;

#[test]
fn an_hpa_of_the_same_workload_is_adopted_only_if_it_has_no_other_owner() {
    let controlled = json!({"ownerReferences": owner("u2")});
    let mine = existing_hpa("mine", &json!({}));
    let plan = Fixture::new(&json!({})).hpa(mine.clone()).plan();
    assert_eq!(
        (planned_hpa(&plan)["metadata"]["name"].as_str(), plan.adopts),
        (Some("mine"), true)
    );
    for (strategy, hpas) in [
        ("Preview", vec![mine.clone()]),
        (
            "Auto",
            vec![mine.clone(), existing_hpa("other", &json!({}))],
        ),
        ("Auto", vec![existing_hpa("theirs", &controlled)]),
    ] {
        let fixture = Fixture::new(&json!({"scaleStrategy": strategy}));
        let plan = hpas.into_iter().fold(fixture, Fixture::hpa).plan();
        let observed = (plan.hpa.is_none(), plan.substitute.clone(), reasons(&plan));
        assert_eq!(
            observed,
            (true, Desired::Keep, vec!["FailedReconcileHPA"]),
            "{strategy}"
        );
    }
    // An adopted HPA is recognised under any name.
    let plan = Fixture::new(&json!({}))
        .hpa(existing_hpa("later", &json!({})))
        .hpa(adopted("mine", "u1"))
        .plan();
    assert_eq!(
        (planned_hpa(&plan)["metadata"]["name"].as_str(), plan.adopts),
        (Some("mine"), false)
    );
    assert_eq!(
        (reasons(&plan), plan.deleted, plan.restored),
        (vec!["FailedReconcileHPA"], vec![], vec![])
    );
    assert!(
        plan.problems[0]
            .message
            .starts_with("HorizontalPodAutoscalers later scale"),
        "{:?}",
        plan.problems
    );
    // An HPA of another workload may have the name.
    let mut taken = existing_hpa("ehpa-php-apache", &json!({}));
    taken["spec"]["scaleTargetRef"]["name"] = json!("else");
    let plan = Fixture::new(&json!({})).hpa(taken).plan();
    assert_eq!(
        (plan.hpa.is_none(), reasons(&plan)),
        (true, vec!["FailedReconcileHPA"])
    );
}

#[test]
fn of_several_ehpas_of_a_workload_only_the_oldest_has_objects() {
    let by_hand = json!({"scaleStrategy": "Preview", "specificReplicas": 100});
    let check = |fixture: Fixture| {
        let plan = fixture.plan();
        assert_eq!(
            (plan.hpa.as_ref(), reasons(&plan)),
            (None, vec!["FailedReconcileHPA"])
        );
        assert_eq!((plan.scale_to, plan.substitute), (None, Desired::Keep));
        plan.prediction
    };
    let younger = || Fixture {
        older_ehpa: Some("a"),
        ..Fixture::new(&by_hand)
    };
    assert_eq!(check(younger()), Desired::Keep);
    assert_eq!(check(younger().predicted(&[])), Desired::Delete);
    // The oldest EHPA may have changed to the workload of another, which keeps its HPA.
    let theirs = existing_hpa("theirs", &json!({"ownerReferences": owner("u2")}));
    assert_eq!(
        check(Fixture::new(&by_hand).hpa(theirs).predicted(&[])),
        Desired::Delete
    );
    let own = existing_hpa("ehpa-php-apache", &json!({"ownerReferences": owner("u1")}));
    let plan = younger().hpa(own).plan();
    assert!(
        matches!(plan.prediction, Desired::Apply(_)),
        "{:?}",
        plan.prediction
    );
    assert_eq!(
        (plan.hpa.is_some(), reasons(&plan)),
        (true, vec!["OlderAutoscaler"])
    );

    // An HPA uses no predictions, so one for a preview does no harm.
    let plan = Fixture::new(&by_hand)
        .hpa(existing_hpa("mine", &json!({})))
        .plan();
    assert_eq!((plan.hpa.is_none(), plan.scale_to), (true, None));
    assert!(
        matches!(plan.prediction, Desired::Apply(_)),
        "{:?}",
        plan.prediction
    );
}

/// An HPA adopted by the EHPA with this UID.
fn adopted(name: &str, uid: &str) -> Value {
    existing_hpa(
        name,
        &json!({"annotations": {"plimsoll.dev/adopted-by": format!("php-apache/{uid}")}}),
    )
}

#[test]
fn a_second_hpa_is_adopted_in_place_of_the_created_one() {
    let made = existing_hpa("ehpa-php-apache", &json!({"ownerReferences": owner("u1")}));
    let later = || existing_hpa("later", &json!({}));
    let plan = Fixture::new(&json!({}))
        .hpa(made.clone())
        .hpa(later())
        .plan();
    assert_eq!(
        (planned_hpa(&plan)["metadata"]["name"].as_str(), plan.adopts),
        (Some("later"), true)
    );
    assert_eq!(
        (plan.deleted, plan.problems),
        (vec!["ehpa-php-apache".to_owned()], vec![])
    );
    // An HPA that cannot be adopted scales the workload alone, and is named.
    let release = json!({"annotations": {"meta.helm.sh/release-name": "shop"}});
    let mut leaving = later();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
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
            vec![later(), existing_hpa("other", &json!({}))],
            "HorizontalPodAutoscalers later, other scale the same workload",
        ),
    ] {
        let fixture = Fixture::new(&json!({"scaleStrategy": strategy})).hpa(made.clone());
        let plan = others.into_iter().fold(fixture, Fixture::hpa).plan();
        assert_eq!(
            (plan.hpa.is_none(), plan.deleted.as_slice()),
            (true, &["ehpa-php-apache".to_owned()][..])
        );
        assert_eq!(reasons(&plan), ["FailedReconcileHPA"]);
        assert!(
            plan.problems[0].message.starts_with(expected),
            "{:?}",
            plan.problems
        );
    }
    let plan = Fixture::new(&json!({})).hpa(made).hpa(leaving).plan();
    assert_eq!(
        (
            planned_hpa(&plan)["metadata"]["name"].as_str(),
            plan.deleted
        ),
        (Some("ehpa-php-apache"), vec![])
    );
}

#[test]
fn what_a_tool_installed_is_adopted_only_by_name() {
    let check = |annotations: &[(&str, &str)], expected: bool| {
        let release = json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop:autoscaling/HorizontalPodAutoscaler:shop/mine"}});
        let fixture = Fixture::new(&json!({})).hpa(existing_hpa("mine", &release));
        let plan = annotations
            .iter()
            .fold(fixture, |fixture, (key, value)| {
                fixture.annotated(key, value)
            })
            .plan();
        assert_eq!(
            (plan.adopts, plan.problems.is_empty()),
            (expected, expected),
            "{annotations:?}"
        );
    };
    check(&[], false);
    check(&[("plimsoll.dev/adopt-hpa", "other")], false);
    check(&[("plimsoll.dev/adopt-hpa", "mine")], true);
}

#[test]
fn an_adopted_hpa_is_restored_when_the_ehpa_no_longer_uses_it() {
    let check = |fixture: Fixture, restored: &[&str], name: Option<&str>| {
        let plan = fixture.plan();
        let scaled_by = plan
            .hpa
            .as_ref()
            .and_then(|hpa| hpa.metadata.name.as_deref());
        assert_eq!(
            (
                plan.restored
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .as_slice(),
                scaled_by
            ),
            (restored, name)
        );
        plan
    };
    let plan = check(
        Fixture::new(&json!({})).hpa(adopted("mine", "u1")),
        &[],
        Some("mine"),
    );
    let metadata = &planned_hpa(&plan)["metadata"];
    assert_eq!(
        metadata["annotations"],
        json!({"plimsoll.dev/adopted-by": "php-apache/u1"})
    );
    assert_eq!(
        (&metadata["ownerReferences"], &metadata["labels"]),
        (&Value::Null, &Value::Null)
    );

    let preview = json!({"scaleStrategy": "Preview", "specificReplicas": 5});
    let plan = check(
        Fixture::new(&preview).hpa(adopted("mine", "u1")),
        &["mine"],
        None,
    );
    assert_eq!(
        (plan.scale_to, reasons(&plan)),
        (None, vec!["FailedReconcileHPA"])
    );
    let elsewhere =
        json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}});
    check(
        Fixture::new(&elsewhere).hpa(adopted("mine", "u1")),
        &["mine"],
        Some("ehpa-php-apache"),
    );
    let mut gone = Fixture::new(&elsewhere).hpa(adopted("mine", "u1"));
    gone.target = Err("not found".to_owned());
    check(gone, &["mine"], None);
    // An older EHPA scales the workload, and has an HPA already.
    let theirs = existing_hpa("theirs", &json!({"ownerReferences": owner("u2")}));
    let younger = Fixture {
        older_ehpa: Some("a"),
        ..Fixture::new(&json!({}))
    };
    check(
        younger.hpa(adopted("mine", "u1")).hpa(theirs.clone()),
        &["mine"],
        None,
    );
    // An HPA adopted by another EHPA belongs to that.
    let plan = check(
        Fixture::new(&json!({})).hpa(adopted("mine", "u2")),
        &[],
        None,
    );
    assert_eq!(plan.prediction, Desired::Keep);

    // Of two EHPAs with one HPA each the younger one deletes its own.
    let made = existing_hpa("ehpa-php-apache", &json!({"ownerReferences": owner("u1")}));
    let younger = Fixture {
        older_ehpa: Some("a"),
        ..Fixture::new(&json!({}))
    };
    let plan = check(younger.hpa(made.clone()).hpa(theirs.clone()), &[], None);
    assert_eq!(plan.deleted, ["ehpa-php-apache"]);
    let plan = check(
        Fixture::new(&json!({})).hpa(made).hpa(theirs),
        &[],
        Some("ehpa-php-apache"),
    );
    assert_eq!(
        (plan.deleted.len(), reasons(&plan)),
        (0, vec!["FailedReconcileHPA"])
    );
}
