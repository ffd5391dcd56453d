//! The webhook and the updater agree: for the same recommendation, a pod as the webhook leaves it needs
//! no other size, also during and after a startup boost, and a resize in place leads to the pod that
//! the webhook would make.
//!
//! `PROPTEST_CASES` sets the number of cases of each property (`make fuzz`: a million).

mod generator;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admission::{AdmissionConfig, Gates, Input, review};
use api::limit_mode::LIMIT_MODE;
use api::pod_annotations::STARTUP_BOOST_PREFIX;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::ReplicaSet;
use proptest::prelude::*;
use rollout::{
    Action, ActionKind, ActionReason, ClockReading, Plan, RolloutState, Settings, Snapshot, decide,
};
use serde_json::{Map, Value, json};
use view::{Controller, LimitRange, ObjectKey, Pod, View, Vpa, WellKnown};

use generator::{Case, add_missing, case};

const NAMESPACE: &str = "shop";
const LONG_AGO: &str = "2025-12-31T00:00:00Z";
const NOW: &str = "2026-01-01T12:00:00Z";

impl Case {
    fn without_boosts(&self) -> Self {
        let mut case = Self {
            boost: None,
            ..self.clone()
        };
        for policy in &mut case.policies {
            let policy = policy.as_object_mut().expect("a policy");
            policy.remove("startupBoost");
        }
        case
    }

    /// The cluster with this recommendation, and these pods.
    fn view(&self, recommendation: &[Value], pods: &[Value]) -> View {
        let mut view = View::default();
        let selector = json!({"matchLabels": {"app": "web"}});
        let set = json!({
            "metadata": {"namespace": NAMESPACE, "name": "web"},
            "spec": {"replicas": 2, "selector": selector, "template": {"spec": self.template}},
        });
        let set: ReplicaSet = serde_json::from_value(set).expect("a ReplicaSet");
        view.controllers_mut(WellKnown::ReplicaSet)
            .apply(Arc::new(Controller::from(set)));
        let annotations: BTreeMap<_, _> = self
            .limit_mode
            .map(|mode| (LIMIT_MODE, mode))
            .into_iter()
            .collect();
        let mut object = json!({
            "metadata": {"namespace": NAMESPACE, "name": "web", "uid": "vpa", "annotations": annotations},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
                "updatePolicy": {"updateMode": self.mode},
                "resourcePolicy": {"containerPolicies": self.policies},
            },
            "status": {"recommendation": {"containerRecommendations": recommendation}},
        });
        if let Some(boost) = &self.boost {
            object["spec"]["startupBoost"] = boost.clone();
        }
        let object = api::vpa::parse(object).expect("a VPA object");
        view.vpas.apply(Arc::new(Vpa {
            key: ObjectKey::new(NAMESPACE, "web"),
            object,
        }));
        for (index, item) in self.ranges.iter().enumerate() {
            let object = json!({"metadata": {"namespace": NAMESPACE, "name": format!("r{index}")}, "spec": {"limits": [item]}});
            let range = LimitRange::from_k8s(serde_json::from_value(object).expect("a LimitRange"));
            view.limit_ranges.apply(Arc::new(range));
        }
        for pod in pods {
            let pod =
                Pod::from_k8s_running(serde_json::from_value(pod.clone()).expect("a pod"), false);
            view.pods.apply(Arc::new(pod));
        }
        view
    }

    /// A new pod as the webhook gets it: the template with the defaults of the API server.
    fn written(&self) -> Value {
        let mut spec = self.template.clone();
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                let limits = container["resources"]["limits"].clone();
                add_missing(&mut container["resources"]["requests"], &limits);
                for range in self
                    .ranges
                    .iter()
                    .filter(|range| range["type"] == "Container")
                {
                    add_missing(&mut container["resources"]["limits"], &range["default"]);
                    add_missing(
                        &mut container["resources"]["requests"],
                        &range["defaultRequest"],
                    );
                }
            }
        }
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true});
        json!({
            "apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {"namespace": NAMESPACE, "labels": {"app": "web"}, "ownerReferences": [owner]},
        })
    }

    /// Two pods as the webhook leaves them, which have been ready for a day.
    fn admitted(&self, recommendation: &[Value]) -> Vec<Value> {
        let mut pod = self.written();
        let request = json!({
            "uid": "1", "operation": "CREATE", "namespace": NAMESPACE, "object": pod,
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
        });
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let view = self.view(recommendation, &[]);
        let config = AdmissionConfig {
            native_sidecars: true,
            gates: Gates {
                cpu_startup_boost: self.gate,
                ..Gates::default()
            },
            ..AdmissionConfig::default()
        };
        let input = Input {
            view: &view,
            feed: None,
            config: &config,
        };
        let decision = review(&input, body.to_string().as_bytes());
        let answer: Value = serde_json::from_slice(&decision.body).expect("a review");
        apply_patch(&mut pod, &answer["response"]["patch"]);
        pod["metadata"]["generation"] = json!(1);
        pod["spec"]["nodeName"] = json!("n1");
        pod["status"] = json!({
            "phase": "Running", "startTime": LONG_AGO, "qosClass": "Burstable",
        });
        set_ready(&mut pod, Some(LONG_AGO));
        let named = |index: usize| {
            let mut pod = pod.clone();
            pod["metadata"]["name"] = json!(format!("web-{index}"));
            pod["metadata"]["uid"] = json!(format!("uid-{index}"));
            pod
        };
        vec![named(0), named(1)]
    }

    fn decide(&self, recommendation: &[Value], pods: &[Value]) -> Plan {
        let view = self.view(recommendation, pods);
        let snapshot = Snapshot {
            view: &view,
            recommendations: &BTreeMap::new(),
            pause: None,
            health: &BTreeMap::new(),
            node_load: None,
        };
        let now = ClockReading {
            wall: NOW.parse().expect("a time"),
            monotonic: Duration::from_hours(48),
        };
        let settings = Settings {
            native_sidecars: true,
            startup_boost: self.gate,
            ..Settings::default()
        };
        decide(&snapshot, &mut RolloutState::default(), &settings, now)
    }
}

/// Sets the time since which a pod is ready; `None` before that.
fn set_ready(pod: &mut Value, since: Option<&str>) {
    let status = if since.is_some() { "True" } else { "False" };
    let since = since.unwrap_or(NOW);
    pod["status"]["conditions"] =
        json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
}

fn apply_patch(pod: &mut Value, patch: &Value) {
    if !patch.is_null() {
        let bytes: ByteString = serde_json::from_value(patch.clone()).expect("Base64");
        let patch: json_patch::Patch = serde_json::from_slice(&bytes.0).expect("a patch");
        json_patch::patch(pod, &patch).expect("it applies");
    }
}

/// Requests and limits of the resources with a recommendation: path, and amount.
fn sizes(pod: &Value, recommendation: &[Value]) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        let name = &container["name"];
        let mut recommended = recommendation.iter();
        let target = recommended.find(|of| of["containerName"] == *name);
        let target = target.and_then(|of| of["target"].as_object());
        for resource in target.into_iter().flat_map(Map::keys) {
            for field in ["requests", "limits"] {
                let amount = &container["resources"][field][resource];
                if !amount.is_null() {
                    all.insert(format!("{name} {field} {resource}"), amount.clone());
                }
            }
        }
    }
    all
}

fn resized(pod: &Value, action: &Action) -> Option<Value> {
    let ActionKind::Resize {
        patch, annotations, ..
    } = &action.kind
    else {
        return None;
    };
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, patch).expect("it applies");
    let before = pod["metadata"]["annotations"].as_object_mut();
    let before = before.expect("the webhook annotates each pod");
    for (name, value) in annotations {
        match value {
            Some(value) => drop(before.insert(name.clone(), json!(value))),
            None => drop(before.remove(name)),
        }
    }
    Some(pod)
}

/// Requests and limits of all containers. A running pod keeps its CPU request, so the smallest counts as
/// none.
fn all_sizes(pod: &Value) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            for field in ["requests", "limits"] {
                let amounts = container["resources"][field].as_object();
                for (resource, amount) in amounts.into_iter().flatten() {
                    if field != "requests"
                        || resource != "cpu"
                        || !(amount == "0" || amount == "1m")
                    {
                        let name = &container["name"];
                        all.insert(format!("{name} {field} {resource}"), amount.clone());
                    }
                }
            }
        }
    }
    all
}

fn is_boosted(pod: &Value) -> bool {
    let annotations = pod["metadata"]["annotations"].as_object();
    let mut names = annotations.into_iter().flat_map(Map::keys);
    names.any(|name| name.starts_with(STARTUP_BOOST_PREFIX))
}

proptest! {
    #[test]
    fn a_pod_as_the_webhook_leaves_it_needs_no_other_size(case in case()) {
        let recommendation = &case.recommendations[0];
        let mut pods = case.admitted(recommendation);
        let has_boost = is_boosted(&pods[0]);
        for ready in [None, Some(NOW), Some("2026-01-01T11:30:00Z"), Some(LONG_AGO)] {
            for pod in &mut pods {
                set_ready(pod, ready);
            }
            let plan = case.decide(recommendation, &pods);
            if !has_boost || ready.is_none() {
                prop_assert!(plan.actions.is_empty(), "{:#?}\n{:#}", plan.actions, pods[0]);
                continue;
            }
            // One pod after the other.
            for _ in 0..pods.len() {
                for action in case.decide(recommendation, &pods).actions {
                    let is_end = action.reason == ActionReason::BoostExpired;
                    let pod = pods.iter_mut().find(|pod| pod["metadata"]["uid"] == action.pod_uid);
                    let pod = pod.expect("one of them");
                    prop_assert!(is_end, "{ready:?}: {:#?}\n{:#}", action, pod);
                    *pod = resized(pod, &action).expect("a resize");
                }
            }
            let plan = case.decide(recommendation, &pods);
            prop_assert!(plan.actions.is_empty(), "{ready:?}: {:#?}\n{:#}", plan.actions, pods[0]);
        }
        if has_boost {
            let without = case.without_boosts().admitted(recommendation);
            prop_assert_eq!(all_sizes(&pods[0]), all_sizes(&without[0]), "{:#}", pods[0]);
            prop_assert!(!is_boosted(&pods[0]));
        }
    }

    #[test]
    fn a_resize_leads_to_the_pod_that_the_webhook_makes(case in case()) {
        let case = case.without_boosts();
        let [before, after] = &case.recommendations;
        let pods = case.admitted(before);
        let plan = case.decide(after, &pods);
        for action in &plan.actions {
            if let Some(resized) = resized(&pods[0], action) {
                // A running pod loses no request and no limit.
                let mut expected = sizes(&pods[0], after);
                expected.extend(sizes(&case.admitted(after)[0], after));
                prop_assert_eq!(sizes(&resized, after), expected);
            }
        }
    }
}
