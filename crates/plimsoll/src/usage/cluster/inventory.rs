//! Workloads of the cluster with their containers, from the API server.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::NamespaceResourceScope as Namespaced;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, ResourceExt as _};
use model::ResourceName;
use view::{BoundPod, ContainerKind, HpaTargets, ObjectKey, Owner, Requirements};

use crate::cluster::{Cluster, Kind, each, each_metadata};
use crate::heap;
use crate::usage::{ContainerId, ContainerUsage, ScaledBy};

type Key = (String, String);

#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Workloads by namespace and name, such as `deployment/web`.
    workloads: BTreeMap<Key, Workload>,
    /// Workloads of present pods, and whether the pod is unfinished.
    pods: HashMap<Key, (String, bool)>,
    /// Owners of `ReplicaSet` and Job objects.
    owners: HashMap<Key, String>,
    hpas: Hpas,
}

/// Containers of a workload, from its newest unfinished pod.
#[derive(Debug, Default)]
struct Workload {
    /// Whether the pod is unfinished, and the time of its creation.
    newest: Option<(bool, Option<Time>)>,
    containers: BTreeMap<String, Requirements>,
    /// Bounds of heaps in words, by container.
    heaps: BTreeMap<String, String>,
}

impl Inventory {
    /// Reads pods, their owners and the HPAs of the workloads. Empty `namespaces` mean all.
    pub(crate) async fn read(
        cluster: &Cluster,
        namespaces: &[String],
        selector: Option<&str>,
    ) -> anyhow::Result<Self> {
        let mut inventory = Self::default();
        let all = namespaces.is_empty().then_some(None);
        let named = namespaces.iter().map(|name| Some(name.as_str()));
        for place in all.into_iter().chain(named) {
            let owners = &mut inventory.owners;
            add_owners::<ReplicaSet>(cluster, place, owners).await?;
            add_owners::<Job>(cluster, place, owners).await?;
            let add = |hpa| inventory.hpas.add(hpa);
            let read = each(&api(cluster, place), &ListParams::default(), add).await;
            read.map_err(cluster.failed("horizontalpodautoscalers"))?;
            let selected = ListParams {
                label_selector: selector.map(str::to_owned),
                ..ListParams::default()
            };
            let read = each(&api(cluster, place), &selected, |pod| inventory.add(pod)).await;
            read.map_err(cluster.failed("pods"))?;
        }
        Ok(inventory)
    }

    fn add(&mut self, pod: Pod) {
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        let is_unfinished = !matches!(phase, Some("Succeeded" | "Failed"));
        let made = (is_unfinished, pod.metadata.creation_timestamp.clone());
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let heaps = containers.filter_map(|it| Some((it.name.clone(), heap::bound(it)?)));
        let heaps = heaps.collect();
        let pod = BoundPod::from_k8s(pod);
        let ObjectKey { namespace, name } = pod.key;
        let workload = match pod.owner {
            // Static pods are not workloads.
            Some(owner) if owner.kind == "Node" => return,
            Some(Owner { kind, name, .. }) => {
                let direct = format!("{}/{name}", kind.to_lowercase());
                let above = self.owners.get(&(namespace.clone(), name));
                let is_between = kind == "ReplicaSet" || kind == "Job";
                above.filter(|_| is_between).cloned().unwrap_or(direct)
            }
            None => format!("pod/{name}"),
        };
        let entry = (workload.clone(), is_unfinished);
        self.pods.insert((namespace.clone(), name), entry);
        let known = self.workloads.entry((namespace, workload)).or_default();
        if known.newest.as_ref().is_some_and(|newest| *newest >= made) {
            return;
        }
        known.newest = Some(made);
        known.heaps = heaps;
        let containers = pod.containers.into_iter();
        let containers = containers.filter(|it| it.kind != ContainerKind::Init);
        known.containers = containers.map(|it| (it.name, it.resources)).collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.workloads.is_empty()
    }

    pub(super) fn namespaces(&self) -> BTreeSet<&str> {
        let names = self.workloads.keys();
        names.map(|(namespace, _)| namespace.as_str()).collect()
    }

    pub(crate) fn containers(&self, namespace: &str) -> impl Iterator<Item = ContainerUsage> {
        let first = (namespace.to_owned(), String::new());
        let workloads = self.workloads.range(first..);
        let workloads = workloads.take_while(move |((place, _), _)| place == namespace);
        workloads.flat_map(move |((namespace, workload), found)| {
            let containers = found.containers.iter();
            containers.map(move |(container, resources)| ContainerUsage {
                id: ContainerId::new(namespace, workload, container),
                requests: resources.requests,
                limits: resources.limits,
                scaled_by: self.hpas.scaling(namespace, workload, container),
                heap: found.heaps.get(container).cloned(),
                pods: Vec::new(),
            })
        })
    }

    pub(super) fn is_running(&self, namespace: &str, pod: &str) -> bool {
        let found = self.pods.get(&(namespace.to_owned(), pod.to_owned()));
        found.is_some_and(|(_, is_unfinished)| *is_unfinished)
    }

    pub(crate) fn pods_of(&self, namespace: &str, workload: &str) -> usize {
        let is_of = |((place, _), (of, is_unfinished)): &(&Key, &(String, bool))| {
            place == namespace && of == workload && *is_unfinished
        };
        self.pods.iter().filter(is_of).count()
    }

    /// Workload of a pod, also of one that is gone.
    pub(crate) fn workload_of(&self, namespace: &str, pod: &str) -> Option<String> {
        let key = |name: &str| (namespace.to_owned(), name.to_owned());
        if let Some((workload, _)) = self.pods.get(&key(pod)) {
            return Some(workload.clone());
        }
        let owner = |name: &str| self.owners.get(&key(name)).cloned();
        let mut candidates = candidates(pod, owner).into_iter();
        candidates.find(|workload| self.workloads.contains_key(&key(workload)))
    }
}

fn api<K: Kind<Scope = Namespaced>>(cluster: &Cluster, namespace: Option<&str>) -> Api<K> {
    namespace.map_or_else(|| cluster.all(), |namespace| cluster.within(namespace))
}

async fn add_owners<K: Kind<Scope = Namespaced>>(
    cluster: &Cluster,
    namespace: Option<&str>,
    owners: &mut HashMap<Key, String>,
) -> anyhow::Result<()> {
    let add = |object: PartialObjectMeta<K>| {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        if let Some(Owner { kind, name, .. }) = Owner::controller(object.metadata.owner_references)
        {
            owners.insert(key, format!("{}/{name}", kind.to_lowercase()));
        }
    };
    let read = each_metadata(&api::<K>(cluster, namespace), add).await;
    read.map_err(cluster.failed(&K::plural(&())))
}

/// The letters and digits of generated suffixes (`k8s.io/apimachinery/pkg/util/rand`).
const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
/// Length of the suffix of a pod.
const SUFFIX: usize = 5;

fn is_generated(text: &str) -> bool {
    text.chars().all(|letter| ALPHABET.contains(letter))
}

/// Workloads that may have had a pod of this name, such as `deployment/web`, the most likely one
/// first. `replica_set` returns the owner of a `ReplicaSet` or Job.
fn candidates(pod: &str, owner: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let Some((base, suffix)) = pod.rsplit_once('-') else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit()) {
        found.push(format!("statefulset/{base}"));
    }
    if suffix.len() != SUFFIX || !is_generated(suffix) {
        return found;
    }
    found.extend(owner(base));
    if let Some((name, hash)) = base.rsplit_once('-') {
        if (6..=10).contains(&hash.len()) && is_generated(hash) {
            found.push(format!("deployment/{name}"));
        }
        if hash.bytes().all(|byte| byte.is_ascii_digit()) {
            found.push(format!("cronjob/{name}"));
        }
    }
    found.extend(["daemonset", "job", "replicaset"].map(|kind| format!("{kind}/{base}")));
    found
}

/// HPAs by namespace and workload, such as `deployment/web`. They scale by utilization, so a smaller
/// request would mean more pods.
#[derive(Debug, Default)]
struct Hpas(HashMap<Key, Vec<HpaTargets>>);

impl Hpas {
    fn add(&mut self, hpa: HorizontalPodAutoscaler) {
        let hpa = HpaTargets::from_k8s(hpa);
        let target = &hpa.workload;
        let workload = format!("{}/{}", target.kind.to_lowercase(), target.name);
        let key = (target.namespace.clone(), workload);
        self.0.entry(key).or_default().push(hpa);
    }

    fn scaling(&self, namespace: &str, workload: &str, container: &str) -> ScaledBy {
        let hpas = self.0.get(&(namespace.to_owned(), workload.to_owned()));
        let hpa = |resource: ResourceName| {
            let scales = |hpa: &&HpaTargets| {
                hpa.utilization.iter().any(|target| {
                    let of = target.container.as_deref();
                    target.resource == resource && of.is_none_or(|of| of == container)
                })
            };
            Some(hpas?.iter().find(scales)?.key.name.clone())
        };
        ScaledBy {
            cpu: hpa(ResourceName::Cpu),
            memory: hpa(ResourceName::Memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Cpu;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, owner: Option<[&str; 2]>, cpu: &str) -> Pod {
        let owners: Vec<Value> = owner
            .iter()
            .map(|[kind, name]| {
                json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true})
            })
            .collect();
        let container = json!({
            "name": "app", "command": ["java"],
            "resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi"}},
        });
        let sidecar = json!({"name": "proxy", "restartPolicy": "Always"});
        let setup = json!({"name": "setup"});
        let object = json!({
            "metadata": {"namespace": "shop", "name": name, "ownerReferences": owners},
            "spec": {"containers": [container], "initContainers": [setup, sidecar]},
            "status": {"phase": "Running"},
        });
        serde_json::from_value(object).expect("a pod")
    }

    #[test]
    fn pods_belong_to_the_workload_above_their_owner() {
        let mut inventory = Inventory::default();
        let key = ("shop".to_owned(), "web-7d9f5c6b8".to_owned());
        inventory.owners.insert(key, "deployment/web".to_owned());
        inventory.add(pod(
            "web-7d9f5c6b8-x2vq4",
            Some(["ReplicaSet", "web-7d9f5c6b8"]),
            "1",
        ));
        inventory.add(pod("agent-x2vq4", Some(["DaemonSet", "agent"]), "100m"));
        inventory.add(pod("etcd-node-1", Some(["Node", "node-1"]), "100m"));
        inventory.add(pod("shell", None, "100m"));
        let found: Vec<_> = inventory
            .containers("shop")
            .map(|it| (it.id.workload, it.id.container, it.requests.cpu))
            .collect();
        let millicores = |amount| Some(Cpu::from_millicores(amount));
        let expected = [
            ("daemonset/agent", "app", millicores(100)),
            ("daemonset/agent", "proxy", None),
            ("deployment/web", "app", millicores(1000)),
            ("deployment/web", "proxy", None),
            ("pod/shell", "app", millicores(100)),
            ("pod/shell", "proxy", None),
        ];
        let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c));
        assert_eq!(found, expected);
        let heaps = inventory.containers("shop").map(|it| it.heap.is_some());
        assert_eq!(heaps.collect::<Vec<_>>(), [true, false].repeat(3));
        for (pod, workload) in [
            ("web-7d9f5c6b8-x2vq4", Some("deployment/web")),
            ("web-6c8b7f5d4-bcdfg", Some("deployment/web")),
            ("agent-bcdfg", Some("daemonset/agent")),
            ("etcd-node-1", None),
            ("other-6c8b7f5d4-bcdfg", None),
        ] {
            let is_present = !pod.ends_with("bcdfg") && workload.is_some();
            assert_eq!(inventory.is_running("shop", pod), is_present, "{pod}");
            assert_eq!(
                inventory.workload_of("shop", pod).as_deref(),
                workload,
                "{pod}"
            );
        }
    }

    #[test]
    fn names_point_to_workloads() {
        let owner = |name: &str| (name == "api-1").then(|| "rollout/api".to_owned());
        for (pod, expected) in [
            ("web-7d9f5c6b8-x2vq4", "deployment/web"),
            ("queue-12", "statefulset/queue"),
            ("agent-x2vq4", "daemonset/agent"),
            ("backup-29384756-x2vq4", "cronjob/backup"),
            ("api-1-x2vq4", "rollout/api"),
        ] {
            let found = candidates(pod, owner);
            assert!(found.iter().any(|it| it == expected), "{pod}: {found:?}");
        }
        for pod in ["web", "web-", "web-aeiou", ""] {
            assert_eq!(candidates(pod, owner), Vec::<String>::new(), "{pod}");
        }
    }

    fn hpas(metrics: &Value) -> Hpas {
        let hpa = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "maxReplicas": 5,
                "scaleTargetRef": {"kind": "Deployment", "name": "web"},
                "metrics": metrics,
            },
        });
        let mut hpas = Hpas::default();
        hpas.add(serde_json::from_value(hpa).expect("an HPA"));
        hpas
    }

    fn check(metrics: &Value, container: &str, cpu: bool, memory: bool) {
        let found = hpas(metrics).scaling("shop", "deployment/web", container);
        let found = (found.cpu.is_some(), found.memory.is_some());
        assert_eq!(found, (cpu, memory), "{container}: {metrics}");
    }

    #[test]
    fn utilization_counts_for_its_resource_and_containers() {
        let resource = |name: &str, target: Value| json!([{"type": "Resource", "resource": {"name": name, "target": target}}]);
        let utilization = utilization_of(60);
        check(&resource("cpu", utilization.clone()), "app", true, false);
        check(&resource("memory", utilization.clone()), "app", false, true);
        let value = json!({"type": "AverageValue", "averageValue": "300m"});
        check(&resource("cpu", value), "app", false, false);
        let of_container = json!([{"type": "ContainerResource", "containerResource":
            {"name": "cpu", "container": "app", "target": utilization}}]);
        check(&of_container, "app", true, false);
        check(&of_container, "proxy", false, false);
        check(&json!([]), "app", false, false);
        // Another workload with the name.
        let other = hpas(&resource("cpu", utilization_of(60)));
        let found = other.scaling("shop", "statefulset/web", "app");
        assert_eq!(found, ScaledBy::default());
    }

    fn utilization_of(percent: i32) -> Value {
        json!({"type": "Utilization", "averageUtilization": percent})
    }
}
