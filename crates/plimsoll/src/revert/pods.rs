//! Pods get the resources of their workload's template.

use std::time::Duration;

use anyhow::ensure;
use api::pod_annotations::OPT_OUT_LABEL;
use api::vpa::CrossVersionObjectReference;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{
    Api, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::core::Status;
use model::Quantity;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, Target, list};
use crate::json::{items, text};

/// Pause between two looks at a pod.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest wait for the effect of a resize.
const RESIZE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reverted {
    pub(super) namespace: String,
    /// Kind and name.
    pub(super) workload: String,
    pub(super) pods: usize,
    /// Pods with other requests or limits than the template's.
    pub(super) different: usize,
    pub(super) resized: usize,
    pub(super) replaced: usize,
    /// Reason why not all pods have the resources of the template.
    pub(super) problem: Option<String>,
}

struct Workload<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    reference: &'a CrossVersionObjectReference,
    pods: Api<DynamicObject>,
    selected: ListParams,
    written: Written,
    /// Ready pods at the beginning.
    ready: usize,
    timeout: Duration,
}

/// The specification of a new pod.
struct Written {
    spec: Value,
    /// Whether it has the defaults of the API server; else what is not written says nothing.
    is_complete: bool,
}

/// Gives the pods of a workload the resources of its template; only counts them without a timeout.
pub(super) async fn revert_pods(
    cluster: &Cluster,
    reference: &CrossVersionObjectReference,
    timeout: Option<Duration>,
    reverted: &mut Reverted,
) -> anyhow::Result<()> {
    if matches!(reference.kind.as_str(), "Job" | "CronJob") {
        // Their pods end by themselves, and an eviction would lose their work.
        return Ok(());
    }
    let namespace = reverted.namespace.clone();
    let Target { object, selector } = cluster.target(&namespace, reference).await?;
    let pods = cluster.untyped::<Pod>(Some(&namespace));
    let mut workload = Workload {
        cluster,
        namespace: &namespace,
        reference,
        written: written(cluster, &pods, &object).await?,
        pods,
        selected: ListParams::default().labels(&selector),
        ready: 0,
        timeout: timeout.unwrap_or_default(),
    };
    let present = workload.present().await?;
    workload.ready = present.iter().filter(|pod| is_ready(pod)).count();
    reverted.pods = present.len();
    reverted.different = workload.different(&present);
    if timeout.is_none() {
        return Ok(());
    }
    // All resizes come first: an eviction that a budget forbids ends the work.
    let mut refused = Vec::new();
    for pod in present.iter().filter(|pod| workload.written.differs(pod)) {
        if workload.resized(pod).await? {
            reverted.resized += 1;
        } else {
            refused.push(pod);
        }
    }
    for pod in refused {
        workload.replace(pod).await?;
        reverted.replaced += 1;
    }
    // A pod that came meanwhile has the resources, unless another program gave it others.
    let left = workload.different(&workload.present().await?);
    ensure!(
        left == 0,
        "{left} pods have other resources again: another program changes them"
    );
    Ok(())
}

/// The specification of a new pod, as the API server would store it. Where it refuses one, without the
/// right or without room in a quota, that of the template.
async fn written(
    cluster: &Cluster,
    pods: &Api<DynamicObject>,
    object: &DynamicObject,
) -> anyhow::Result<Written> {
    let template = &object.data["spec"]["template"];
    let mut spec = template["spec"].clone();
    ensure!(spec.is_object(), "it has no spec.template");
    // A StatefulSet adds the volumes of its claims.
    for claim in items(&object.data["spec"]["volumeClaimTemplates"]) {
        let volume = json!({"name": claim["metadata"]["name"], "emptyDir": {}});
        match spec["volumes"].as_array_mut() {
            Some(volumes) => volumes.push(volume),
            None => spec["volumes"] = json!([volume]),
        }
    }
    let metadata = &template["metadata"];
    let mut labels = metadata["labels"].as_object().cloned().unwrap_or_default();
    // The webhook may not know yet that the mode is Off.
    labels.insert(OPT_OUT_LABEL.to_owned(), "true".into());
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "plimsoll-revert-", "labels": labels,
                     "annotations": metadata["annotations"]},
        "spec": spec,
    });
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let new: DynamicObject = serde_json::from_value(pod.clone())?;
    let (spec, is_complete) = match pods.create(&params, &new).await {
        Ok(mut made) => (made.data["spec"].take(), true),
        Err(kube::Error::Api(status)) if status.code == 403 => (pod["spec"].take(), false),
        Err(error) => return Err(cluster.failed("a new pod of the template")(error)),
    };
    Ok(Written { spec, is_complete })
}

impl Workload<'_> {
    /// Pods that have not ended.
    async fn present(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let pods = list(&self.pods, &self.selected).await;
        let mut pods = pods.map_err(self.cluster.failed("pods"))?;
        pods.retain(|pod| {
            let phase = text(&pod.data["status"]["phase"]);
            !matches!(phase, "Succeeded" | "Failed") && pod.metadata.deletion_timestamp.is_none()
        });
        Ok(pods)
    }

    fn different(&self, pods: &[DynamicObject]) -> usize {
        pods.iter().filter(|pod| self.written.differs(pod)).count()
    }

    /// Whether a resize of the pod was accepted, and had its effect.
    async fn resized(&self, pod: &DynamicObject) -> anyhow::Result<bool> {
        let name = pod.name_any();
        if let Some(mut resize) = self.written.resize_of(&pod.data["spec"]) {
            resize["metadata"] = json!({"uid": pod.uid()});
            let (params, patch) = (PatchParams::default(), Patch::Strategic(resize));
            let patched = self
                .pods
                .patch_subresource("resize", &name, &params, &patch);
            match patched.await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if is_refused(&status) => return Ok(false),
                Err(error) => {
                    return Err(self.cluster.failed(&format!("or resize pod {name}"))(error));
                }
            }
        }
        let deadline = Instant::now() + RESIZE;
        while Instant::now() < deadline {
            let found = self.pods.get_opt(&name).await;
            let found = found.map_err(self.cluster.failed("pods"))?;
            let Some(now) = found.filter(|now| now.uid() == pod.uid()) else {
                return Ok(true);
            };
            if !self.written.differs(&now) {
                self.settled(&format!("resize of {name}"), |_| true).await?;
                return Ok(true);
            }
            let mut conditions = items(&now.data["status"]["conditions"]);
            if conditions.any(|it| it["type"] == "PodResizePending" && it["status"] == "True") {
                return Ok(false);
            }
            sleep(PAUSE).await;
        }
        Ok(false)
    }

    /// Evicts a pod, and waits until as many pods are ready as at the beginning.
    async fn replace(&self, pod: &DynamicObject) -> anyhow::Result<()> {
        let (name, timeout) = (pod.name_any(), self.timeout);
        let mut owners = pod.owner_references().iter();
        ensure!(
            owners.any(|owner| owner.controller == Some(true)),
            "the pod {name} would not come back after an eviction"
        );
        let deadline = Instant::now() + timeout;
        let api = self
            .cluster
            .within::<Pod>(&pod.namespace().unwrap_or_default());
        let params = EvictParams {
            delete_options: Some(DeleteParams::default().preconditions(Preconditions {
                uid: pod.uid(),
                resource_version: None,
            })),
            ..EvictParams::default()
        };
        loop {
            match api.evict(&name, &params).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if is_gone(&status) => break,
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    ensure!(
                        Instant::now() < deadline,
                        "the pod {name} cannot be evicted: {}",
                        status.message
                    );
                }
                Err(error) => {
                    return Err(self.cluster.failed(&format!("or evict pod {name}"))(error));
                }
            }
            sleep(PAUSE).await;
        }
        let has_ended = |pods: &[DynamicObject]| pods.iter().all(|it| it.uid() != pod.uid());
        self.settled(&format!("eviction of {name}"), has_ended)
            .await
    }

    /// Waits until the pods are as they should be, and as many are ready as at the beginning.
    async fn settled(
        &self,
        change: &str,
        is_done: impl Fn(&[DynamicObject]) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let pods = self.present().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            // An autoscaler may want fewer meanwhile.
            let namespace = self.namespace;
            let Target { object, .. } = self.cluster.target(namespace, self.reference).await?;
            let replicas = object.data["spec"]["replicas"].as_u64();
            let replicas = replicas.and_then(|it| usize::try_from(it).ok());
            let wanted = replicas.map_or(self.ready, |it| it.min(self.ready));
            if is_done(&pods) && ready >= wanted {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "after the {change}, {ready} of {wanted} pods are ready"
            );
            sleep(PAUSE).await;
        }
    }
}

/// Whether a pod does not exist any more, or another one has its name.
fn is_gone(status: &Status) -> bool {
    status.code == 404 || status.code == 409 && status.message.contains("UID")
}

/// Whether the API server refuses a resize: an old one, or to another class of service, or above the capacity.
fn is_refused(status: &Status) -> bool {
    let details = status.details.iter();
    let mut causes = details.flat_map(|details| &details.causes);
    let has_no_room = status.code == 403 && causes.any(|it| it.reason == "NodeCapacity");
    is_gone(status) || status.code == 422 || has_no_room
}

fn is_ready(pod: &DynamicObject) -> bool {
    let mut conditions = items(&pod.data["status"]["conditions"]);
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

impl Written {
    /// The containers and the native sidecars, by list.
    fn sized(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let containers = items(&self.spec["containers"]).map(|it| ("containers", it));
        let init = items(&self.spec["initContainers"]).map(|it| ("initContainers", it));
        let sidecars = init.filter(|(_, it)| it["restartPolicy"] == "Always");
        containers.chain(sidecars)
    }

    /// The patch that gives a pod the written resources; `None` if it has them.
    fn resize_of(&self, present: &Value) -> Option<Value> {
        let mut spec = json!({});
        for (list, container) in self.sized() {
            let mut containers = items(&present[list]);
            let present = containers.find(|it| it["name"] == container["name"]);
            let change = |it| change(container, it, self.is_complete);
            if let Some(resources) = present.and_then(change) {
                let change = json!({"name": container["name"], "resources": resources});
                match spec[list].as_array_mut() {
                    Some(changes) => changes.push(change),
                    None => spec[list] = json!([change]),
                }
            }
        }
        // Those of the pod as a whole.
        if let Some(resources) = change(&self.spec, present, self.is_complete) {
            spec["resources"] = resources;
        }
        (spec != json!({})).then(|| json!({"spec": spec}))
    }

    /// Whether a pod has other resources, or a container of it runs with others: a resize without effect.
    fn differs(&self, pod: &DynamicObject) -> bool {
        let status = &pod.data["status"];
        let runs_with_others = |(list, container): (&str, &Value)| {
            let list = match list {
                "containers" => "containerStatuses",
                _ => "initContainerStatuses",
            };
            let mut statuses = items(&status[list]);
            let status = statuses.find(|it| it["name"] == container["name"]);
            // Without resources it has not started, or the kubelet cannot resize.
            let status = status.filter(|it| it["resources"].is_object());
            status.is_some_and(|it| change(container, it, self.is_complete).is_some())
        };
        // The kubelet reports what it reads from the pod's cgroup, which is not what is written for the pod.
        let is_resizing = |it: &Value| {
            let kind = &it["type"];
            it["status"] == "True" && (kind == "PodResizePending" || kind == "PodResizeInProgress")
        };
        self.resize_of(&pod.data["spec"]).is_some()
            || self.sized().any(runs_with_others)
            || items(&status["conditions"]).any(is_resizing)
    }
}

/// Requests and limits of CPU and memory that differ, with `is_complete` also null for one that is not
/// written.
fn change(written: &Value, present: &Value, is_complete: bool) -> Option<Value> {
    let mut change = json!({});
    for list in ["requests", "limits"] {
        for resource in ["cpu", "memory"] {
            let amount = |it: &Value| {
                let amount = text(&it["resources"][list][resource]);
                amount.parse::<Quantity>().ok()
            };
            let wanted = amount(written);
            let counts = is_complete || wanted.is_some();
            if counts && wanted != amount(present) {
                change[list][resource] = written["resources"][list][resource].clone();
            }
        }
    }
    (change != json!({})).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_what_differs_and_takes_away_what_is_not_written() {
        let written = json!({
            "resources": {"limits": {"cpu": "2"}},
            "containers": [
                {"name": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                {"name": "same", "resources": {"requests": {"cpu": "0.1"}}},
            ],
            "initContainers": [
                {"name": "once", "resources": {"requests": {"cpu": "1"}}},
                {"name": "mesh", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}},
            ],
        });
        let present = json!({
            "resources": {"limits": {"cpu": "3"}},
            "containers": [
                {"name": "app", "resources": {"requests": {"cpu": "200m", "memory": "1024Mi"},
                                              "limits": {"memory": "2Gi"}}},
                {"name": "same", "resources": {"requests": {"cpu": "100m"}}},
                {"name": "injected", "resources": {"requests": {"cpu": "100m"}}},
            ],
            "initContainers": [
                {"name": "once", "resources": {"requests": {"cpu": "2"}}},
                {"name": "mesh", "resources": {"limits": {"cpu": "2"}}},
            ],
        });
        let expected = json!({"spec": {
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"},
                                                         "limits": {"memory": null}}}],
            "initContainers": [{"name": "mesh", "resources": {"limits": {"cpu": "1"}}}],
            "resources": {"limits": {"cpu": "2"}},
        }});
        let new = |is_complete| Written {
            spec: written.clone(),
            is_complete,
        };
        assert_eq!(new(true).resize_of(&written), None);
        assert_eq!(new(true).resize_of(&present).as_ref(), Some(&expected));
        // What is not written may be a default.
        let limits = json!({"resources": {"limits": {"cpu": "2"}}, "containers": [{"name": "app", "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}}]});
        assert_eq!(new(false).resize_of(&limits), None);
        assert!(new(true).resize_of(&limits).is_some());
    }

    #[test]
    fn a_resize_without_effect_leaves_a_difference() {
        let containers = json!([{"name": "app", "resources": {"requests": {"cpu": "1"}}}]);
        let written = Written {
            spec: json!({"containers": containers}),
            is_complete: true,
        };
        let check = |spec: &str, status: &Value, expected: bool| {
            let containers = json!([{"name": "app", "resources": {"requests": {"cpu": spec}}}]);
            let statuses = json!([{"name": "app", "resources": status}]);
            let pod = json!({"metadata": {}, "spec": {"containers": containers},
                             "status": {"containerStatuses": statuses}});
            let pod = serde_json::from_value(pod).expect("a pod");
            assert_eq!(written.differs(&pod), expected, "{spec} {status}");
        };
        let runs_with = |cpu: &str| json!({"requests": {"cpu": cpu}});
        check("1", &runs_with("1000m"), false);
        check("1", &runs_with("2"), true);
        check("2", &runs_with("1"), true);
        check("1", &Value::Null, false);
    }
}
