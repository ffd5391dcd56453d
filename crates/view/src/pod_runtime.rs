//! Runtime details of a pod: node, readiness, resize policy and resize conditions. Kept only where
//! pods are evicted or resized, since clusters have many pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::{Quantity, ResourceList, ResourceName};

use crate::effective_resources::of_pod;
use crate::limits::quantities;

pub const ANNOTATION_PREFIXES: [&str; 5] = [
    "vpa",
    "plimsoll.dev/",
    "updater.plimsoll.dev/",
    KEEPS_POD[0].0,
    KEEPS_POD[1].0,
];
/// Annotations of other tools by which users forbid evictions for the sake of other pods or of nodes:
/// Karpenter's and the Cluster Autoscaler's.
const KEEPS_POD: [(&str, &str); 2] = [
    ("karpenter.sh/do-not-disrupt", "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
];
/// Label of a pod that the plugin coscheduling schedules with others.
const POD_GROUP: &str = "scheduling.x-k8s.io/pod-group";
/// Size in bytes from which an `emptyDir` is too large to be filled anew without need.
const LARGE_VOLUME: i64 = 1 << 30;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Running {
    pub created_at: Option<Timestamp>,
    pub generation: Option<i64>,
    pub observed_generation: Option<i64>,
    /// Name of the node that it is bound to; `None` before the binding.
    pub node: Option<String>,
    pub is_terminating: bool,
    /// Time at which the condition Ready became True; `None` while it is not.
    pub ready_since: Option<Timestamp>,
    /// Resize conditions, in the written order.
    pub resizes: Vec<ResizeCondition>,
    pub annotations: BTreeMap<String, String>,
    /// `Guaranteed`, `Burstable` or `BestEffort`.
    pub qos_class: String,
    /// Value of its priority class; higher values preempt lower ones.
    pub priority: i32,
    /// App containers of the specification.
    pub containers: Vec<ContainerSpec>,
    pub init_containers: Vec<ContainerSpec>,
    /// The pod as a whole, with the resources of `spec.resources`; `None` without.
    pub whole: Option<Box<ContainerSpec>>,
    /// The pod with its containers, if this is the pod as one container.
    pub whole_of: Option<Arc<Running>>,
    /// Whether other nodes may not do: it has a claim of a volume, a `hostPath` or a large `emptyDir`,
    /// required anti-affinity to other pods, or a topology spread that must hold.
    pub is_tied: bool,
    /// Whether it is scheduled as one of a group of pods (`schedulingGroup`, or the label of coscheduling).
    pub is_of_group: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResizeCondition {
    pub stage: ResizeStage,
    pub is_true: bool,
    /// Reason, in CamelCase.
    pub reason: String,
    pub message: String,
    /// Time of the last change of its status.
    pub since: Option<Timestamp>,
    pub observed_generation: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResizeStage {
    /// `PodResizePending`: the kubelet has not started it.
    Pending,
    /// `PodResizeInProgress`: the kubelet has started it.
    InProgress,
}

/// A container of the specification, with quantities as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerSpec {
    pub name: String,
    /// Requests; `None` if the field is absent.
    pub requests: Option<ResourceList>,
    /// Limits; `None` if the field is absent.
    pub limits: Option<ResourceList>,
    /// Requests and limits by the kubelet; `None` before its first report.
    pub reported: Option<[ResourceList; 2]>,
    /// Resources whose resize restarts the container (`RestartContainer`).
    pub restarts_for: Vec<ResourceName>,
    /// Whether it has resource claims (`resources.claims`), which a resize must not change.
    pub has_claims: bool,
    pub is_sidecar: bool,
    pub is_ready: bool,
}

impl Running {
    pub(crate) fn from_k8s(
        metadata: &ObjectMeta,
        spec: &v1::PodSpec,
        status: &v1::PodStatus,
    ) -> Self {
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let ready = conditions
            .iter()
            .find(|condition| condition.type_ == "Ready" && condition.status == "True");
        let statuses = status.container_statuses.as_deref().unwrap_or_default();
        let init_statuses = status.init_container_statuses.as_deref();
        let init_statuses = init_statuses.unwrap_or_default();
        let init_containers = spec.init_containers.iter().flatten();
        Self {
            created_at: metadata.creation_timestamp.as_ref().map(|time| time.0),
            generation: metadata.generation,
            observed_generation: status.observed_generation,
            node: spec.node_name.clone().filter(|node| !node.is_empty()),
            is_terminating: metadata.deletion_timestamp.is_some(),
            ready_since: ready.map(|ready| {
                ready
                    .last_transition_time
                    .as_ref()
                    .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
            }),
            resizes: conditions
                .iter()
                .filter_map(ResizeCondition::from_k8s)
                .collect(),
            annotations: kept(metadata.annotations.as_ref()),
            qos_class: status.qos_class.clone().unwrap_or_default(),
            priority: spec.priority.unwrap_or_default(),
            containers: spec
                .containers
                .iter()
                .map(|container| ContainerSpec::from_k8s(container, statuses))
                .collect(),
            init_containers: init_containers
                .map(|container| ContainerSpec::from_k8s(container, init_statuses))
                .collect(),
            whole: spec.resources.as_ref().map(|resources| {
                let in_effect = of_pod(metadata.generation, spec, status);
                Box::new(ContainerSpec::with(resources, in_effect.as_ref()))
            }),
            whole_of: None,
            is_tied: is_tied(spec),
            is_of_group: spec.scheduling_group.is_some()
                || (metadata.labels.iter().flatten()).any(|(key, _)| key == POD_GROUP),
        }
    }

    /// Whether the pod must not be evicted for others: an annotation of Karpenter or of the Cluster Autoscaler
    /// forbids it, or the other pods of its group would stop.
    pub fn keeps_pod(&self) -> bool {
        let has =
            |(key, value): (&str, &str)| self.annotations.get(key).is_some_and(|it| it == value);
        self.is_of_group || KEEPS_POD.into_iter().any(has)
    }
}

fn is_tied(spec: &v1::PodSpec) -> bool {
    let is_large = |volume: &v1::EmptyDirVolumeSource| {
        let limit = volume.size_limit.as_ref();
        let limit = limit.and_then(|limit| limit.0.parse::<Quantity>().ok());
        limit.is_some_and(|limit| limit.value() >= LARGE_VOLUME)
    };
    let keeps_data = |volume: &v1::Volume| {
        volume.persistent_volume_claim.is_some()
            || volume.ephemeral.is_some()
            || volume.host_path.is_some()
            || volume.empty_dir.as_ref().is_some_and(is_large)
    };
    let affinity = spec.affinity.as_ref();
    let anti_affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let required = anti_affinity.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let mut spreads = spec.topology_spread_constraints.iter().flatten();
    spec.volumes.iter().flatten().any(keeps_data)
        || required.is_some_and(|terms| !terms.is_empty())
        || spreads.any(|spread| spread.when_unsatisfiable == "DoNotSchedule")
}

fn kept(annotations: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let all = annotations.into_iter().flatten();
    let ours = all.filter(|(key, _)| {
        ANNOTATION_PREFIXES
            .iter()
            .any(|prefix| key.starts_with(prefix))
    });
    ours.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

impl ResizeCondition {
    fn from_k8s(condition: &v1::PodCondition) -> Option<Self> {
        let stage = match condition.type_.as_str() {
            "PodResizePending" => ResizeStage::Pending,
            "PodResizeInProgress" => ResizeStage::InProgress,
            _ => return None,
        };
        Some(Self {
            stage,
            is_true: condition.status == "True",
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            since: condition.last_transition_time.as_ref().map(|time| time.0),
            observed_generation: condition.observed_generation,
        })
    }
}

impl ContainerSpec {
    fn from_k8s(container: &v1::Container, statuses: &[v1::ContainerStatus]) -> Self {
        let none = v1::ResourceRequirements::default();
        let resources = container.resources.as_ref().unwrap_or(&none);
        let status = statuses.iter().find(|status| status.name == container.name);
        let reported = status.and_then(|status| status.resources.as_ref());
        let restarting = container
            .resize_policy
            .iter()
            .flatten()
            .filter(|policy| policy.restart_policy == "RestartContainer");
        Self {
            name: container.name.clone(),
            restarts_for: restarting
                .map(|policy| policy.resource_name.as_str().into())
                .collect(),
            has_claims: (resources.claims.as_ref()).is_some_and(|claims| !claims.is_empty()),
            is_sidecar: container.restart_policy.as_deref() == Some("Always"),
            is_ready: status.is_some_and(|status| status.ready),
            ..Self::with(resources, reported)
        }
    }

    /// A container, or a pod, with these resources, as specified and as the kubelet reports them.
    fn with(
        specified: &v1::ResourceRequirements,
        reported: Option<&v1::ResourceRequirements>,
    ) -> Self {
        let list = |list: &Option<BTreeMap<_, _>>| list.clone().map(quantities);
        let lists = |of: &v1::ResourceRequirements| [list(&of.requests), list(&of.limits)];
        let [requests, limits] = lists(specified);
        Self {
            requests,
            limits,
            reported: reported.map(|of| lists(of).map(Option::unwrap_or_default)),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::pod::Pod;

    fn running(pod: serde_json::Value) -> Arc<Running> {
        let pod = serde_json::from_value(pod).expect("a pod");
        Pod::from_k8s_running(pod, false).running.expect("details")
    }

    #[track_caller]
    fn check_tied(spec: &serde_json::Value, expected: bool) {
        let parsed: v1::PodSpec = serde_json::from_value(spec.clone()).expect("a specification");
        assert_eq!(is_tied(&parsed), expected, "{spec}");
    }

    #[test]
    fn volumes_anti_affinity_and_spreads_tie_a_pod_to_nodes() {
        let volume = |source: serde_json::Value| json!({"containers": [], "volumes": [source]});
        check_tied(
            &volume(json!({"name": "a", "persistentVolumeClaim": {"claimName": "c"}})),
            true,
        );
        check_tied(
            &volume(json!({"name": "a", "hostPath": {"path": "/data"}})),
            true,
        );
        check_tied(&volume(json!({"name": "a", "ephemeral": {}})), true);
        check_tied(
            &volume(json!({"name": "a", "emptyDir": {"sizeLimit": "2Gi"}})),
            true,
        );
        check_tied(
            &volume(json!({"name": "a", "emptyDir": {"sizeLimit": "100Mi"}})),
            false,
        );
        check_tied(&volume(json!({"name": "a", "emptyDir": {}})), false);
        check_tied(
            &volume(json!({"name": "a", "configMap": {"name": "c"}})),
            false,
        );
        let anti_affinity = |kind: &str, term: serde_json::Value| json!({"containers": [], "affinity": {"podAntiAffinity": {kind: [term]}}});
        let term = json!({"topologyKey": "kubernetes.io/hostname"});
        check_tied(
            &anti_affinity(
                "requiredDuringSchedulingIgnoredDuringExecution",
                term.clone(),
            ),
            true,
        );
        let preferred = json!({"weight": 1, "podAffinityTerm": term});
        check_tied(
            &anti_affinity("preferredDuringSchedulingIgnoredDuringExecution", preferred),
            false,
        );
        for (when, expected) in [("DoNotSchedule", true), ("ScheduleAnyway", false)] {
            let spread = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when});
            check_tied(
                &json!({"containers": [], "topologySpreadConstraints": [spread]}),
                expected,
            );
        }
    }

    #[test]
    fn fields_that_decide_evictions_and_resizes_are_kept() {
        let pod = json!({
            "metadata": {
                "name": "web-1", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T02:00:00Z",
                "annotations": {"vpaObservedContainers": "app", "vpaCpuStartupBoost/app": "{}", "other": "x"},
            },
            "spec": {
                "nodeName": "n1", "priority": 7,
                "containers": [{
                    "name": "app",
                    "resources": {"requests": {"cpu": "0.1"}},
                    "resizePolicy": [
                        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
                    ],
                }],
                "initContainers": [{"name": "side", "restartPolicy": "Always"}],
            },
            "status": {
                "qosClass": "Burstable",
                "observedGeneration": 2,
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T01:00:00Z"},
                    {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "later",
                     "observedGeneration": 3},
                ],
                "containerStatuses": [{
                    "name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": "",
                    "resources": {"requests": {"cpu": "200m"}},
                }],
            },
        });
        let running = running(pod);
        let annotations = running.annotations.keys();
        assert!(annotations.eq(["vpaCpuStartupBoost/app", "vpaObservedContainers"]));
        assert_eq!((running.node.as_deref(), running.priority), (Some("n1"), 7));
        assert!(running.is_terminating);
        assert_eq!(running.ready_since, "2026-01-01T01:00:00Z".parse().ok());
        let generations = (running.generation, running.observed_generation);
        assert_eq!(generations, (Some(3), Some(2)));
        let [resize] = running.resizes.as_slice() else {
            panic!("one condition")
        };
        assert_eq!((resize.stage, resize.is_true), (ResizeStage::Pending, true));
        assert_eq!(resize.reason, "Deferred");
        let [app] = running.containers.as_slice() else {
            panic!("one container")
        };
        assert_eq!((app.limits.as_ref(), app.is_ready), (None, true));
        assert_eq!(app.restarts_for, [ResourceName::Memory]);
        let cpu = |list: &ResourceList| list.cpu().map(model::Cpu::millicores);
        assert_eq!(app.requests.as_ref().and_then(cpu), Some(100));
        let [reported, _] = app.reported.as_ref().expect("reported");
        assert_eq!(cpu(reported), Some(200));
        assert!(running.init_containers[0].is_sidecar);
    }

    #[test]
    fn a_pod_is_ready_only_while_its_condition_says_so() {
        for (conditions, expected) in [
            (json!([{"type": "Ready", "status": "True"}]), true),
            (
                json!([{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]),
                false,
            ),
            (json!([]), false),
        ] {
            let pod = json!({"metadata": {}, "status": {"conditions": conditions}});
            let running = running(pod);
            assert_eq!(running.ready_since.is_some(), expected, "{conditions}");
        }
    }
}
