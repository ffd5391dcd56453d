//! A small cluster to decide about: Deployments whose pods ask for too little CPU, unless said
//! otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use model::{ContainerRecommendation, Cpu, Memory, Recommendation, ResourceList};
use placement::MeasuredLoad;
use rollout::{
    Action, ActionKind, ActionOutcome, ClockReading, HealthReadings, PauseReason, Plan,
    RolloutState, Settings, SkipReason, Snapshot, decide,
};
use serde_json::{Value, json};
use view::{
    Controller, DisruptionBudget, LimitRange, Node, ObjectKey, Pod, Scale, ScaleKey, View, Vpa,
    WellKnown,
};

pub(super) const ACCEPTED: ActionOutcome = ActionOutcome::Accepted { generation: None };
pub(super) const TOO_MANY_REQUESTS: ActionOutcome =
    ActionOutcome::TooManyRequests { retry_after: None };

pub(super) struct Fixture {
    pub(super) view: View,
    pub(super) settings: Settings,
    pub(super) pause: Option<PauseReason>,
    pub(super) health: HealthReadings,
    /// Recommendations of the feed, by the unique identifiers of VPA objects.
    pub(super) feed: BTreeMap<String, Arc<Recommendation>>,
    pub(super) now: ClockReading,
    pub(super) state: RolloutState,
    pub(super) namespace: String,
    pub(super) node_load: Option<MeasuredLoad>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self {
            view: View::default(),
            settings: Settings::default(),
            pause: None,
            health: HealthReadings::new(),
            feed: BTreeMap::new(),
            now: ClockReading {
                wall: "2026-01-01T12:00:00Z".parse().expect("a time"),
                monotonic: Duration::from_secs(100),
            },
            state: RolloutState::default(),
            namespace: "shop".to_owned(),
            node_load: None,
        }
    }

    pub(super) fn decide(&self, state: &mut RolloutState) -> Plan {
        let snapshot = Snapshot {
            view: &self.view,
            recommendations: &self.feed,
            pause: self.pause,
            health: &self.health,
            node_load: self.node_load.as_ref(),
        };
        decide(&snapshot, state, &self.settings, self.now)
    }

    pub(super) fn pass(&mut self) -> Plan {
        let mut state = std::mem::take(&mut self.state);
        let plan = self.decide(&mut state);
        self.state = state;
        plan
    }

    /// The first pass of an updater that has just begun.
    pub(super) fn first_pass(&self) -> Plan {
        self.decide(&mut RolloutState::default())
    }

    /// Reports the same outcome of everything in a plan. The cluster does not show it yet.
    pub(super) fn report(&mut self, plan: &Plan, outcome: &ActionOutcome) {
        for action in &plan.actions {
            self.state.begin(action, self.now);
            self.state.end(action, outcome, self.now);
        }
    }

    #[track_caller]
    pub(super) fn check_evicted(&mut self, expected: &[&str], when: &str) {
        assert_eq!(evicted(&self.pass()), expected, "{when}");
    }

    #[track_caller]
    pub(super) fn check_idle(&mut self, when: &str) {
        assert_eq!(self.pass().actions, [], "{when}");
    }

    /// Checks that a pass skips pods for this reason alone, and does nothing. Returns the plan.
    #[track_caller]
    pub(super) fn check_skipped(&mut self, reason: SkipReason) -> Plan {
        let plan = self.pass();
        assert_eq!((plan.actions.len(), reasons(&plan)), (0, vec![reason]));
        plan
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

    pub(super) fn scale(&mut self, name: &str, replicas: i32) {
        self.edit_replica_set(name, |set| set.replicas = Some(replicas));
    }

    /// Writes the resources of the container into the pod template of a Deployment's `ReplicaSet`.
    pub(super) fn set_template(&mut self, name: &str, resources: &Value) {
        let containers = json!([{"name": "app", "resources": resources}]);
        let spec = json!({"selector": {}, "template": {"spec": {"containers": containers}}});
        let object = json!({"metadata": {"namespace": self.namespace, "name": name}, "spec": spec});
        let set: ReplicaSet = serde_json::from_value(object).expect("a ReplicaSet");
        let template = Controller::from(set).template;
        self.edit_replica_set(name, |set| set.template = template);
    }

    pub(super) fn edit_replica_set(&mut self, name: &str, edit: impl FnOnce(&mut Controller)) {
        let sets = self.view.controllers_mut(WellKnown::ReplicaSet);
        let set = sets.get(&ObjectKey::new("shop", name));
        let mut set = set.expect("it is there").as_ref().clone();
        edit(&mut set);
        sets.apply(Arc::new(set));
    }

    pub(super) fn clone_set(&mut self, name: &str, replicas: usize) {
        self.pods_of("CloneSet", name, 0..replicas);
        self.read_scale(name, replicas as i32);
        self.vpa_of("apps.kruise.io/v1alpha1", "CloneSet", name, &json!({}));
    }

    /// A `StatefulSet` with pods and a VPA object.
    pub(super) fn stateful_set(&mut self, name: &str, replicas: usize) {
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "serviceName": "", "template": {}});
        let set = json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec});
        let set: StatefulSet = serde_json::from_value(set).expect("a StatefulSet");
        let sets = self.view.controllers_mut(WellKnown::StatefulSet);
        sets.apply(Arc::new(Controller::from(set)));
        self.vpa_of("apps/v1", "StatefulSet", name, &json!({}));
        let own = |it: &mut Value| it["metadata"]["ownerReferences"] = owner("StatefulSet", name);
        for number in 0..replicas {
            self.pod_with(name, &format!("{name}-{number}"), &json!({}), own);
        }
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
        let pods = self.view.live_pods_by_scale().get(&key).copied();
        self.view.apply_scale(key, scale, pods.unwrap_or_default());
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
        let cpu = requests("1", "100Mi");
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
        self.view.vpas.apply(Arc::new(Vpa {
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
                "containers": [{"name": "app", "resources": {"requests": requests(cpu, "100Mi")}}],
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

    pub(super) fn reviewed(pod: &mut Value) {
        pod["metadata"]["annotations"]["vpaObservedContainers"] = json!("app");
    }

    pub(super) fn change_vpa(&mut self, name: &str, change: impl FnOnce(&mut Vpa)) {
        let vpa = self.view.vpas.get(&ObjectKey::new(&self.namespace, name));
        let mut vpa = vpa.expect("it is there").as_ref().clone();
        change(&mut vpa);
        self.view.vpas.apply(Arc::new(vpa));
    }

    pub(super) fn edit_vpa(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.change_vpa(name, |vpa| {
            let mut object = serde_json::to_value(&vpa.object).expect("a VPA object");
            edit(&mut object);
            vpa.object = api::vpa::parse(object).expect("a VPA object");
        });
    }

    fn edit_recommendations(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.edit_vpa(name, |object| {
            edit(&mut object["status"]["recommendation"]["containerRecommendations"]);
        });
    }

    pub(super) fn recommend(&mut self, name: &str, cpu: &str) {
        self.edit_recommendations(name, |list| {
            for bound in ["target", "lowerBound", "upperBound"] {
                list[0][bound]["cpu"] = json!(cpu);
            }
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
        self.edit_recommendations(name, |list| list[0]["lowerBound"]["cpu"] = json!(cpu));
    }

    pub(super) fn recommend_also(&mut self, name: &str, container: &str, cpu: &str) {
        let size = requests(cpu, "100Mi");
        let added = json!({"containerName": container, "target": size, "lowerBound": size, "upperBound": size});
        self.edit_recommendations(name, |list| push(list, added));
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

    pub(super) fn limit_range(&mut self, item: &Value) {
        let object = json!({"metadata": {"namespace": self.namespace, "name": "limits"}, "spec": {"limits": [item]}});
        let range = serde_json::from_value(object).expect("a LimitRange");
        self.view
            .limit_ranges
            .apply(Arc::new(LimitRange::from_k8s(range)));
    }

    pub(super) fn delete(&mut self, pod: &str) {
        self.view.pods.delete(&ObjectKey::new(&self.namespace, pod));
    }

    /// A node on which all pods run.
    pub(super) fn node(&mut self, cpu: &str, memory: &str) {
        let status = json!({"allocatable": {"cpu": cpu, "memory": memory}});
        let node = json!({"metadata": {"name": "n1"}, "status": status});
        let node = Node::from_k8s(serde_json::from_value(node).expect("a node"));
        self.view.nodes.apply(Arc::new(node));
    }

    pub(super) fn budget(&mut self, name: &str, allowed: i32) {
        self.budget_over(name, "app=web", [allowed, 4 - allowed], &[]);
    }

    /// A budget over the pods that a selector matches, with the disruptions that it allows and the
    /// pods that it requires of four. `disrupted` are the pods whose evictions its status shows.
    pub(super) fn budget_over(
        &mut self,
        name: &str,
        selector: &str,
        [allowed, desired]: [i32; 2],
        disrupted: &[String],
    ) {
        let at = self.now.wall;
        let budget = DisruptionBudget {
            key: ObjectKey::new(&self.namespace, name),
            selector: selector.parse(),
            generation: 1,
            observed_generation: 1,
            disruptions_allowed: allowed,
            current_healthy: 4,
            desired_healthy: desired,
            disrupted: disrupted.iter().map(|name| (name.clone(), at)).collect(),
            always_allows_unhealthy: false,
        };
        self.view.disruption_budgets.apply(Arc::new(budget));
    }
}

/// The reasons of skipped pods, each once.
pub(super) fn reasons(plan: &Plan) -> Vec<SkipReason> {
    let all: BTreeSet<SkipReason> = plan.skips.iter().map(|skip| skip.reason).collect();
    all.into_iter().collect()
}

pub(super) fn evicted(plan: &Plan) -> Vec<&str> {
    let evictions = plan
        .actions
        .iter()
        .filter(|action| action.kind == ActionKind::Evict);
    evictions.map(|action| action.pod.name.as_str()).collect()
}

#[track_caller]
pub(super) fn only_action(plan: &Plan) -> &Action {
    let [action] = plan.actions.as_slice() else {
        panic!("one act: {plan:?}")
    };
    action
}

/// A recommendation for the container `app` whose target is its bounds.
pub(super) fn recommendation(millicores: i64) -> Recommendation {
    recommendation_of(millicores, 100)
}

/// The same with memory in MiB.
pub(super) fn recommendation_of(millicores: i64, mib: i64) -> Recommendation {
    let (cpu, memory) = (
        Cpu::from_millicores(millicores),
        Memory::from_bytes(mib << 20),
    );
    let list = ResourceList::of(cpu, memory);
    let container = ContainerRecommendation {
        container_name: "app".to_owned(),
        target: list.clone(),
        lower_bound: list.clone(),
        upper_bound: list.clone(),
        uncapped_target: list,
    };
    Recommendation {
        containers: vec![container],
    }
}

pub(super) fn push(list: &mut Value, value: Value) {
    list.as_array_mut().expect("a list").push(value);
}

pub(super) fn requests(cpu: &str, memory: &str) -> Value {
    json!({"cpu": cpu, "memory": memory})
}

pub(super) fn set_requests(pod: &mut Value, cpu: &str, memory: &str) {
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests(cpu, memory)});
}

/// The resize of a pod is pending for this reason since this time.
pub(super) fn pending(pod: &mut Value, reason: &str, since: &str) {
    let condition = json!({"type": "PodResizePending", "status": "True", "reason": reason, "lastTransitionTime": since});
    push(&mut pod["status"]["conditions"], condition);
}

/// The kubelet's message where a node is too small.
pub(super) const TOO_SMALL: &str =
    "Node didn't have enough capacity: cpu, requested: 1000, capacity: 500";

/// Gives the pod's last condition a message.
pub(super) fn say(pod: &mut Value, message: &str) {
    let conditions = pod["status"]["conditions"].as_array_mut();
    let last = conditions
        .and_then(|all| all.last_mut())
        .expect("a condition");
    last["message"] = json!(message);
}

/// The kubelet has not resized a pod of 100m CPU yet.
pub(super) fn not_resized_yet(pod: &mut Value) {
    pod["status"]["containerStatuses"] = json!([{
        "name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": "",
        "resources": {"requests": requests("100m", "100Mi")},
    }]);
}

/// A pod that is ready since this time, whose startup boost raised its CPU from `cpu`.
pub(super) fn boosted(pod: &mut Value, cpu: &str, ready_at: &str) {
    let before = json!({"requests": {"cpu": cpu}}).to_string();
    pod["metadata"]["annotations"] = json!({"vpaCpuStartupBoost/app": before});
    pod["status"]["conditions"][0]["lastTransitionTime"] = json!(ready_at);
}

fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true}])
}
