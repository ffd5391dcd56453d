//! A small cluster to decide about: Deployments whose pods ask for too little CPU, unless said
//! otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use model::Recommendation;
use serde_json::{Value, json};
use view::{
    Autoscaler, Controller, DisruptionBudget, ObjectKey, Pod, Scale, ScaleKey, View, WellKnown,
};

use rollout::{
    ClockReading, PauseReason, Plan, RolloutState, Settings, SkipReason, Snapshot, decide,
};

pub(super) struct Fixture {
    pub(super) view: View,
    pub(super) settings: Settings,
    pub(super) pause: Option<PauseReason>,
    /// Recommendations of the feed, by the unique identifiers of VPA objects.
    pub(super) feed: BTreeMap<String, Arc<Recommendation>>,
    pub(super) now: ClockReading,
    /// The namespace of objects that are added.
    pub(super) namespace: String,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let wall = "2026-01-01T12:00:00Z".parse().expect("a time");
        let now = ClockReading {
            wall,
            monotonic: Duration::from_secs(100),
        };
        let (view, settings, namespace) = (View::default(), Settings::default(), "shop".to_owned());
        Self {
            view,
            settings,
            pause: None,
            feed: BTreeMap::new(),
            now,
            namespace,
        }
    }

    pub(super) fn decide(&self, state: &mut RolloutState) -> Plan {
        let snapshot = Snapshot {
            view: &self.view,
            recommendations: &self.feed,
            pause: self.pause,
        };
        decide(&snapshot, state, &self.settings, self.now)
    }

    /// A Deployment with pods, and a VPA object that recommends one core.
    pub(super) fn deployment(&mut self, name: &str, replicas: i32, update_policy: &Value) {
        self.workload(name, replicas, update_policy);
        for index in 0..replicas {
            self.pod(name, &format!("{name}-{index}"), &json!({}));
        }
    }

    /// The same without the pods.
    pub(super) fn workload(&mut self, name: &str, replicas: i32, update_policy: &Value) {
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {}});
        let object = json!({"metadata": {"namespace": self.namespace, "name": name}, "spec": spec});
        let deployment: Deployment = serde_json::from_value(object).expect("a Deployment");
        self.view
            .controllers_mut(WellKnown::Deployment)
            .apply(Arc::new(Controller::from(deployment)));
        let owner = owner("Deployment", name);
        let object = json!({"metadata": {"namespace": self.namespace, "name": name, "ownerReferences": owner}, "spec": spec});
        let set: ReplicaSet = serde_json::from_value(object).expect("a ReplicaSet");
        self.view
            .controllers_mut(WellKnown::ReplicaSet)
            .apply(Arc::new(Controller::from(set)));
        self.vpa(name, update_policy);
    }

    /// Changes `replicas` of the `ReplicaSet` of a Deployment.
    pub(super) fn scale(&mut self, name: &str, replicas: i32) {
        let sets = self.view.controllers_mut(WellKnown::ReplicaSet);
        let mut set = sets
            .get(&ObjectKey::new("shop", name))
            .expect("it is there")
            .as_ref()
            .clone();
        set.replicas = Some(replicas);
        sets.apply(Arc::new(set));
    }

    /// A `CloneSet` with this number of pods.
    pub(super) fn clone_set(&mut self, name: &str, replicas: usize) {
        self.pods_of("CloneSet", name, 0..replicas);
        self.read_scale(name, replicas as i32);
        self.vpa_of("apps.kruise.io/v1alpha1", "CloneSet", name, &json!({}));
    }

    /// Reads the scale subresource of a `CloneSet` again.
    pub(super) fn read_scale(&mut self, name: &str, replicas: i32) {
        let [group, kind, namespace, name] =
            ["apps.kruise.io", "CloneSet", "shop", name].map(str::to_owned);
        let scale = Scale::Found {
            selector: format!("app={name}"),
            owner: None,
            replicas: Some(replicas),
        };
        let key = ScaleKey {
            group,
            kind,
            namespace,
            name,
        };
        let pods = self
            .view
            .live_pods_by_scale()
            .get(&key)
            .copied()
            .unwrap_or_default();
        self.view.apply_scale(key, scale, pods);
    }

    /// A Job with this specification and this number of successes; without the pods.
    pub(super) fn job(&mut self, name: &str, spec: &Value, succeeded: i32) {
        let mut spec = spec.clone();
        spec["selector"] = json!({"matchLabels": {"app": name}});
        spec["template"] = json!({});
        let object = json!({
            "metadata": {"namespace": "shop", "name": name}, "spec": spec, "status": {"succeeded": succeeded},
        });
        let job: Job = serde_json::from_value(object).expect("a Job");
        self.view
            .controllers_mut(WellKnown::Job)
            .apply(Arc::new(Controller::from(job)));
        self.vpa_of("batch/v1", "Job", name, &json!({}));
    }

    /// Pods of an owner of another kind than `ReplicaSet`, numbered from `numbers`.
    pub(super) fn pods_of(&mut self, kind: &str, app: &str, numbers: std::ops::Range<usize>) {
        for number in numbers {
            self.pod_with(app, &format!("{app}-{number}"), &json!({}), |pod| {
                let api_version = if kind == "Job" {
                    "batch/v1"
                } else {
                    "apps.kruise.io/v1alpha1"
                };
                pod["metadata"]["ownerReferences"][0]["kind"] = json!(kind);
                pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!(api_version);
            });
        }
    }

    pub(super) fn vpa(&mut self, name: &str, update_policy: &Value) {
        self.vpa_of("apps/v1", "Deployment", name, update_policy);
    }

    pub(super) fn vpa_of(
        &mut self,
        api_version: &str,
        kind: &str,
        name: &str,
        update_policy: &Value,
    ) {
        let cpu = json!({"cpu": "1", "memory": "100Mi"});
        let recommended = json!({"containerName": "app", "target": cpu, "lowerBound": {"cpu": "900m"}, "upperBound": cpu});
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": self.namespace, "name": name, "uid": format!("uid-{name}")},
            "spec": {
                "targetRef": {"apiVersion": api_version, "kind": kind, "name": name},
                "updatePolicy": update_policy,
            },
            "status": {"recommendation": {"containerRecommendations": [recommended]}},
        });
        let object = api::vpa::parse(object).expect("a VPA object");
        self.view.autoscalers.apply(Arc::new(Autoscaler {
            key: ObjectKey::new(&self.namespace, name),
            object,
        }));
    }

    /// A pod; `with` says whether it is `ready` and how much `cpu` it asks for.
    pub(super) fn pod(&mut self, app: &str, name: &str, with: &Value) {
        self.pod_with(app, name, with, |_| ());
    }

    /// The same, changed in some way.
    pub(super) fn pod_with(
        &mut self,
        app: &str,
        name: &str,
        with: &Value,
        change: impl FnOnce(&mut Value),
    ) {
        let ready = if with["ready"] == json!(false) {
            "False"
        } else {
            "True"
        };
        let cpu = with["cpu"].as_str().unwrap_or("100m");
        let mut object = json!({
            "metadata": {
                "namespace": self.namespace, "name": name, "uid": format!("uid-{name}"), "labels": {"app": app}, "generation": 1,
                "ownerReferences": owner("ReplicaSet", app),
            },
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}],
            },
            "status": {
                "phase": "Running", "startTime": "2026-01-01T11:00:00Z", "qosClass": "Burstable",
                "conditions": [{"type": "Ready", "status": ready}],
            },
        });
        change(&mut object);
        let pod = Pod::from_k8s_running(serde_json::from_value(object).expect("a pod"), false);
        self.view.pods.apply(Arc::new(pod));
    }

    pub(super) fn change_vpa(&mut self, name: &str, change: impl FnOnce(&mut Autoscaler)) {
        let vpa = self
            .view
            .autoscalers
            .get(&ObjectKey::new(&self.namespace, name))
            .expect("it is there");
        let mut vpa = vpa.as_ref().clone();
        change(&mut vpa);
        self.view.autoscalers.apply(Arc::new(vpa));
    }

    /// Recommends this CPU, as target and as bounds.
    pub(super) fn recommend(&mut self, name: &str, cpu: &str) {
        self.change_vpa(name, |vpa| {
            let mut object = serde_json::to_value(&vpa.object).expect("a VPA object");
            let container = &mut object["status"]["recommendation"]["containerRecommendations"][0];
            for bound in ["target", "lowerBound", "upperBound"] {
                container[bound]["cpu"] = json!(cpu);
            }
            vpa.object = api::vpa::parse(object).expect("a VPA object");
        });
    }

    pub(super) fn made_at(&mut self, name: &str, time: &str) {
        let time = serde_json::from_value(json!(time)).expect("a time");
        self.change_vpa(name, |vpa| {
            vpa.object.metadata.creation_timestamp = Some(time);
        });
    }

    /// The same target with another lower bound.
    pub(super) fn bound(&mut self, name: &str, cpu: &str) {
        self.change_vpa(name, |vpa| {
            let mut object = serde_json::to_value(&vpa.object).expect("a VPA object");
            object["status"]["recommendation"]["containerRecommendations"][0]["lowerBound"]["cpu"] =
                json!(cpu);
            vpa.object = api::vpa::parse(object).expect("a VPA object");
        });
    }

    /// Recommends this CPU for one more container.
    pub(super) fn recommend_also(&mut self, name: &str, container: &str, cpu: &str) {
        self.change_vpa(name, |vpa| {
            let mut object = serde_json::to_value(&vpa.object).expect("a VPA object");
            let all = object["status"]["recommendation"]["containerRecommendations"].as_array_mut().expect("a list");
            let list = json!({"cpu": cpu, "memory": "100Mi"});
            all.push(json!({"containerName": container, "target": list, "lowerBound": list, "upperBound": list}));
            vpa.object = api::vpa::parse(object).expect("a VPA object");
        });
    }

    pub(super) fn annotate(&mut self, name: &str, key: &str, value: &str) {
        let annotations = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        self.change_vpa(name, |vpa| {
            vpa.object.metadata.annotations = Some(annotations);
        });
    }

    /// A startup boost of factor 2 until `seconds` after a pod is ready.
    pub(super) fn boost(&mut self, name: &str, seconds: i32) {
        let boost = json!({"cpu": {"type": "Factor", "factor": 2, "durationSeconds": seconds}});
        let boost = serde_json::from_value(boost).expect("a boost");
        self.change_vpa(name, |vpa| {
            vpa.object.spec.startup_boost = Some(boost);
        });
    }

    pub(super) fn delete(&mut self, pod: &str) {
        self.view.pods.delete(&ObjectKey::new(&self.namespace, pod));
    }

    /// A budget over the pods of the app `web`.
    pub(super) fn budget(&mut self, name: &str, allowed: i32) {
        self.view
            .disruption_budgets
            .apply(Arc::new(DisruptionBudget {
                key: ObjectKey::new(&self.namespace, name),
                selector: "app=web".parse(),
                generation: 1,
                observed_generation: 1,
                disruptions_allowed: allowed,
                current_healthy: 4,
                desired_healthy: 4 - allowed,
                disrupted: BTreeSet::new(),
                always_allows_unhealthy: false,
            }));
    }

    /// The reasons of skipped pods, each once.
    pub(super) fn reasons(plan: &Plan) -> Vec<SkipReason> {
        let all: BTreeSet<SkipReason> = plan.skips.iter().map(|skip| skip.reason).collect();
        all.into_iter().collect()
    }
}

fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true}])
}
