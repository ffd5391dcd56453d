//! Workloads of kinds with a scale subresource.

use api::sizing_policy::WorkloadKind;
use view::{Pod, PodSet, Scale, ScaleKey};

use super::*;

const OBJECT: &str = "shop/plimsoll-rollout.e8c5a380cfb106f7-web";

fn kind(kind: &str, group: &str) -> WorkloadKind {
    WorkloadKind::Custom {
        kind: kind.to_owned(),
        group: group.to_owned(),
    }
}

fn rollouts() -> Policy {
    let mut policy = policy("web");
    policy.spec.kinds = vec![kind("Rollout", "argoproj.io")];
    policy
}

fn key(name: &str) -> ScaleKey {
    ScaleKey {
        group: "argoproj.io".to_owned(),
        kind: "Rollout".to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

fn found(selector: &str) -> Scale {
    Scale::Found {
        selector: selector.to_owned(),
        owner: None,
        replicas: Some(1),
    }
}

fn missing(kind_has_scale: bool) -> Scale {
    Scale::NotFound {
        reason: "rollouts.argoproj.io \"web\" not found".to_owned(),
        kind_has_scale,
    }
}

impl Fixture {
    /// A live pod of the Rollout `web` with the label `app=web`.
    fn pod(mut self, name: &str, tier: &str) -> Self {
        let pod = json!({
            "metadata": {
                "namespace": "shop", "name": name, "uid": name,
                "labels": {"app": "web", "tier": tier},
                "ownerReferences": [{
                    "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web",
                    "uid": "r1", "controller": true,
                }],
            },
            "spec": {"containers": []},
            "status": {"phase": "Running"},
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        self.view.pods.apply(Arc::new(Pod::from_k8s(pod, false)));
        self
    }

    fn scale(mut self, name: &str, scale: Scale) -> Self {
        self.view.apply_scale(key(name), scale, PodSet::default());
        self
    }

    /// The object of the policy `web` for the Rollout `web`.
    fn made_for_rollout(self, change: impl FnOnce(&mut Value)) -> Self {
        let workload = model::Workload {
            api_version: "argoproj.io/v1alpha1",
            kind: "Rollout",
            namespace: "shop",
            name: "web",
        };
        let object = desired::object(&rollouts(), workload);
        let mut object = serde_json::to_value(object).expect("JSON");
        object["metadata"]["uid"] = "made".into();
        change(&mut object);
        self.object(object)
    }
}

#[test]
fn pods_lead_to_their_workload() {
    let fixture = Fixture::new()
        .has(rollouts())
        .pod("a", "web")
        .pod("b", "web");
    check(&fixture, &["web: 0 0 0 0"]);
    let questions: Vec<String> = fixture
        .plan()
        .questions
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        questions,
        ["Rollout shop/plimsoll-probe", "Rollout shop/web"]
    );
    let fixture = fixture.scale("web", found("app=web"));
    let created = format!("create {OBJECT} for web");
    check(&fixture, &[created.as_str(), "web: 1 0 0 0"]);
    let Plan { writes, .. } = fixture.plan();
    let Action::Create(object) = &writes[0].action else {
        panic!("{writes:?}");
    };
    let target = &object.spec.target_ref;
    assert_eq!(
        [&target.api_version, &target.kind, &target.name],
        ["argoproj.io/v1alpha1", "Rollout", "web"]
    );
}

#[test]
fn pods_of_other_labels_or_outside_the_scale_lead_nowhere() {
    for (tier, selector) in [("back", "app=web"), ("web", "app=other"), ("web", "")] {
        let fixture = Fixture::new().has(rollouts()).pod("a", tier);
        check(&fixture.scale("web", found(selector)), &["web: 0 0 0 0"]);
    }
    // Without a policy for the kind nothing is asked.
    let fixture = Fixture::new().has(policy("web")).pod("a", "web");
    assert!(fixture.plan().questions.is_empty());
}

#[test]
fn the_object_stays_while_pods_are_away_and_goes_with_the_workload() {
    let fixture = || Fixture::new().has(rollouts()).made_for_rollout(|_| ());
    let kept = ["web: 1 1 0 0"];
    check(&fixture(), &kept);
    check(&fixture().scale("web", found("app=web")), &kept);
    check(&fixture().scale("web", missing(false)), &kept);
    let delete = format!("delete {OBJECT} for web");
    let gone = [delete.as_str(), "web: 0 0 0 0"];
    check(&fixture().scale("web", missing(true)), &gone);
    // Its pods lost the label, or the policy lost the kind.
    let fixture = fixture().pod("a", "back");
    check(&fixture.scale("web", found("app=web")), &gone);
    check(
        &Fixture::new().has(policy("web")).made_for_rollout(|_| ()),
        &gone,
    );
}

#[test]
fn an_object_without_pods_follows_its_policy() {
    let fixture = Fixture::new().has(rollouts());
    let fixture = fixture.made_for_rollout(|object| {
        object["spec"]["updatePolicy"]["updateMode"] = "Recreate".into();
    });
    let patched = format!("patch {OBJECT} for web");
    check(&fixture, &[patched.as_str(), "web: 1 1 0 0"]);
}

#[test]
fn an_autoscaler_of_another_group_is_no_conflict() {
    let by_hand = |api_version: &str| {
        json!({
            "metadata": {"namespace": "shop", "name": "mine"},
            "spec": {"targetRef": {"apiVersion": api_version, "kind": "Rollout", "name": "web"}},
        })
    };
    let fixture = |api_version| {
        let fixture = Fixture::new().has(rollouts()).pod("a", "web");
        fixture
            .scale("web", found("app=web"))
            .object(by_hand(api_version))
    };
    check(&fixture("argoproj.io/v1beta1"), &["web: 1 0 1 0"]);
    let created = format!("create {OBJECT} for web");
    check(
        &fixture("example.com/v1"),
        &[created.as_str(), "web: 1 0 0 0"],
    );
}

#[test]
fn kinds_that_cannot_be_read_are_named_in_the_status() {
    let refused = "rollouts.argoproj.io is forbidden";
    let failed = |transient| Scale::Failed {
        reason: refused.to_owned(),
        transient,
    };
    for (scale, expected) in [
        (missing(false), "KindUnavailable"),
        (failed(false), "KindUnavailable"),
        (failed(true), "UpToDate"),
        (missing(true), "UpToDate"),
    ] {
        let fixture = Fixture::new()
            .has(rollouts())
            .scale("plimsoll-probe", scale);
        let status = status(&fixture.plan(), &[]);
        let ready = status.conditions.iter().find(|it| it.kind == "Ready");
        assert_eq!(ready.expect("a condition").reason, expected);
    }
}

#[test]
fn kinds_of_kubernetes_have_no_group_and_others_are_few() {
    let many = (0..11).map(|number| kind(&format!("Kind{number}"), "example.com"));
    for (kinds, expected) in [
        (
            vec![kind("Deployment", "example.com")],
            "spec.kinds: Deployment.example.com: Deployment of another group is not supported; the policy's VPA objects stay as they are",
        ),
        (
            many.collect(),
            "spec.kinds: more than 10 kinds with a group; the policy's VPA objects stay as they are",
        ),
    ] {
        let mut policy = rollouts();
        policy.spec.kinds = kinds;
        let fixture = Fixture::new().has(policy).made_for_rollout(|_| ());
        check(&fixture, &["web: 0 0 0 0"]);
        let status = status(&fixture.plan(), &[]);
        let ready = status
            .conditions
            .iter()
            .find(|it| it.kind == "Ready")
            .expect("a condition");
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            ("InvalidKinds", expected)
        );
    }
}
