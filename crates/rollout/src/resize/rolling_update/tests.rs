//! Deployments that may and may not be rolled.

use serde_json::{Value, json};

use super::RollingUpdateRefusal as Refusal;
use super::*;

/// A complete Deployment of four replicas with these changes, at noon.
fn refusal(change: &Value, answers_oom_kill: bool) -> Option<Refusal> {
    let mut object = json!({
        "metadata": {"namespace": "shop", "name": "web", "generation": 3},
        "spec": {
            "replicas": 4, "selector": {}, "template": {"metadata": {"labels": {"app": "web"}}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        },
        "status": {"observedGeneration": 3, "replicas": 4, "updatedReplicas": 4, "availableReplicas": 4},
    });
    json_patch::merge(&mut object, change);
    let deployment: Deployment = serde_json::from_value(object).expect("a Deployment");
    let now = "2026-01-01T12:00:00Z".parse().expect("a time");
    may_roll(&deployment, answers_oom_kill, now).err()
}

#[track_caller]
fn check(change: &Value, expected: Option<Refusal>) {
    assert_eq!(refusal(change, false), expected, "{change}");
}

#[test]
fn a_complete_deployment_may_be_rolled() {
    check(&json!({}), None);
    check(&json!({"spec": {"strategy": null}}), None);
    check(&json!({"spec": {"paused": false}}), None);
}

#[test]
fn a_single_replica_surges_by_default() {
    let status = json!({"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
    for (strategy, expected) in [
        (json!(null), None),
        (
            json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
            None,
        ),
        (
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
            Some(Refusal::NoSurge),
        ),
        (
            json!({"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 1}}),
            Some(Refusal::NoSurge),
        ),
        (
            json!({"rollingUpdate": {"maxSurge": "x", "maxUnavailable": 1}}),
            Some(Refusal::NoSurge),
        ),
        (
            json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
            Some(Refusal::AllMayBeUnavailable),
        ),
        (
            json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "99%"}}),
            None,
        ),
        (
            json!({"type": "Recreate", "rollingUpdate": null}),
            Some(Refusal::RecreateStrategy),
        ),
    ] {
        let spec = json!({"replicas": 1, "strategy": strategy});
        check(&json!({"spec": spec, "status": status}), expected);
    }
}

#[test]
fn a_deployment_of_another_controller_or_tool_is_left_alone() {
    let owner = |controller: bool| {
        let owner = json!({"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u", "controller": controller});
        json!({"metadata": {"ownerReferences": [owner]}})
    };
    check(&owner(true), Some(Refusal::Controlled));
    check(&owner(false), None);
    let managed = Some(Refusal::ManagedByTool);
    for (change, expected) in [
        (
            json!({"labels": {"argocd.argoproj.io/instance": "shop"}}),
            managed,
        ),
        (
            json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/web"}}),
            managed,
        ),
        (
            json!({"annotations": {"argocd.argoproj.io/instance": "shop"}}),
            managed,
        ),
        (
            json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "shop"}}),
            managed,
        ),
        (json!({"labels": {"olm.owner": "operator.v1"}}), managed),
        (
            json!({"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}}),
            managed,
        ),
        (
            json!({"labels": {"addonmanager.kubernetes.io/mode": "EnsureExists"}}),
            None,
        ),
        (
            json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}),
            None,
        ),
    ] {
        check(&json!({"metadata": change}), expected);
    }
}

#[test]
fn a_rollout_in_progress_is_left_alone() {
    let in_progress = Some(Refusal::RolloutInProgress);
    for status in [
        json!({"observedGeneration": 2}),
        json!({"updatedReplicas": 3}),
        json!({"updatedReplicas": null}),
        json!({"replicas": 5}),
        json!({"availableReplicas": 3}),
    ] {
        check(&json!({"status": status}), in_progress);
    }
    check(&json!({"status": null}), in_progress);
    check(&json!({"spec": {"paused": true}}), Some(Refusal::Paused));
    check(&json!({"spec": {"replicas": 0}}), Some(Refusal::NoReplicas));
    check(&json!({"spec": {"replicas": 3}}), in_progress);
}

#[test]
fn an_oom_kill_is_answered_while_pods_are_unavailable_but_not_during_a_rollout() {
    let unavailable = json!({"status": {"availableReplicas": 3}});
    assert_eq!(refusal(&unavailable, true), None);
    let rolling = json!({"status": {"updatedReplicas": 3}});
    assert_eq!(refusal(&rolling, true), Some(Refusal::RolloutInProgress));
}

#[test]
fn the_template_tells_when_the_last_rolling_update_was() {
    for (at, expected) in [
        ("2026-01-01T11:50:01Z", Some(Refusal::TooSoon)),
        ("2026-01-01T11:50:00Z", None),
        ("2026-01-01T12:00:00Z", Some(Refusal::TooSoon)),
        ("9999-01-01T00:00:00Z", Some(Refusal::TooSoon)),
        ("yesterday", None),
    ] {
        let metadata = json!({"annotations": {RESIZED_AT: at}});
        check(
            &json!({"spec": {"template": {"metadata": metadata}}}),
            expected,
        );
    }
}
