//! Previews: the HPA scales a Substitute, and `specificReplicas` the workload.

use serde_json::json;

use super::fixture::{Fixture, existing_hpa, json_of, planned_hpa, reasons};
use crate::ehpa::plan::Desired;

#[test]
fn a_preview_scales_a_substitute_of_the_workloads_real_size() {
    let fixture = Fixture::new(&json!({"scaleStrategy": "Preview", "specificReplicas": 5}));
    let plan = fixture.plan();
    let target = json!({"apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "Substitute", "name": "ehpa-php-apache"});
    assert_eq!(planned_hpa(&plan)["spec"]["scaleTargetRef"], target);
    let Desired::Apply(substitute) = &plan.substitute else {
        panic!("{:?}", plan.substitute)
    };
    let substitute = json_of(&**substitute);
    assert_eq!(substitute["spec"]["replicas"], 3);
    assert_eq!(
        substitute["spec"]["substituteTargetRef"]["name"],
        "php-apache"
    );
    let status = json!({"labelSelector": "run=php-apache", "replicas": 3});
    assert_eq!(substitute["status"], status);
    assert_eq!(plan.scale_to, Some(5));
}

#[test]
fn specific_replicas_are_for_previews_and_can_leave_zero() {
    let check = |strategy: &str, wanted: i32, replicas: i32, expected: Option<i32>| {
        let fixture = Fixture::new(&json!({"scaleStrategy": strategy, "specificReplicas": wanted}));
        let scale_to = fixture.replicas(replicas).plan().scale_to;
        assert_eq!(scale_to, expected, "{strategy}: {wanted} of {replicas}");
    };
    check("Preview", 5, 3, Some(5));
    check("Preview", 3, 3, None);
    check("Preview", 0, 3, Some(0));
    check("Preview", 5, 0, Some(5));
    check("Auto", 5, 3, None);
}

#[test]
fn specific_replicas_do_not_compete_with_an_hpa() {
    for (replicas, reasons_expected) in [
        (3, vec!["FailedReconcileHPA"]),
        (0, vec!["ScalingDisabled", "FailedReconcileHPA"]),
    ] {
        let fixture = Fixture::new(&json!({"scaleStrategy": "Preview", "specificReplicas": 5}));
        let plan = fixture
            .replicas(replicas)
            .hpa(existing_hpa("mine", &json!({})))
            .plan();
        assert_eq!((plan.scale_to, reasons(&plan)), (None, reasons_expected));
        let message = &plan.problems[plan.problems.len() - 1].message;
        for part in ["HorizontalPodAutoscaler mine", "specificReplicas"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
