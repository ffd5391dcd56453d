//! A namespace `shop` with VPA objects of Deployments, and the caps of their targets.

mod status;

use std::slice::from_ref;

use model::{
    Cap, ContainerRecommendation, Cpu, Labels, LimitRangeItem, Memory, ResourceList, ResourceName,
};
use serde_json::{Value, json};
use view::{
    DaemonSetShare, LimitRange, Node, Owner, Phase, PodPlacement, Quota, Requirements, Resources,
};

use super::node_group_shape::nodes as nodes_of;
use super::*;
use crate::fixture::{self, at};

pub(super) const MIB: i64 = 1 << 20;

pub(super) fn resources(millicores: i64, mebibytes: i64) -> Resources {
    Resources {
        cpu: Some(Cpu::from_millicores(millicores)),
        memory: Some(Memory::from_bytes(mebibytes * MIB)),
    }
}

fn requests(millicores: i64, mebibytes: i64) -> Requirements {
    Requirements {
        requests: resources(millicores, mebibytes),
        limits: Resources::default(),
    }
}

fn pod(name: &str, app: &str, millicores: i64, placement: PodPlacement) -> Pod {
    let mut pod = Pod {
        placement: Some(Arc::new(placement)),
        ..fixture::pod(name, app)
    };
    pod.containers[0].requests = resources(millicores, 100);
    pod
}

fn owner(kind: &str, name: &str) -> Owner {
    Owner {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    }
}

pub(super) fn node(name: &str, pool: &str, millicores: i64) -> Node {
    Node {
        name: name.to_owned(),
        labels: Labels::from_iter([("pool", pool)]),
        taints: Vec::new(),
        is_cordoned: false,
        capacity: view::Resources::default(),
        allocatable: resources(millicores, 4096),
        extended: ResourceList::new(),
        addresses: Vec::new(),
    }
}

fn in_pool(pool: &str) -> PodPlacement {
    let mut placement = PodPlacement::default();
    placement.constraints.selector = Labels::from_iter([("pool", pool)]);
    placement
}

fn object(annotation: Option<&str>, spec: &Value) -> Arc<Vpa> {
    let annotations = annotation.map(|text| json!({CAP_TO_SCHEDULABLE: text}));
    let metadata = json!({"uid": "u1", "generation": 1, "annotations": annotations});
    let more = json!({"metadata": metadata, "spec": spec});
    Arc::new(fixture::vpa("web", &more))
}

/// Everything is heeded, with no margin.
fn everything() -> SchedulableCaps {
    let cap_to = "nodes,quotas,limit-ranges".parse().expect("known words");
    SchedulableCaps::new(Settings {
        cap_to,
        ..Settings::default()
    })
}

fn load(schedulable: &mut SchedulableCaps, view: &View, object: &Arc<Vpa>) {
    let selector = Selector::match_labels([("app", "web")]);
    schedulable.load(view, [(object, &selector)].into_iter());
}

fn recommend(millicores: i64) -> Recommendation {
    let target = ResourceList::of(Cpu::from_millicores(millicores), Memory::from_bytes(MIB));
    let container = ContainerRecommendation {
        container_name: "main".to_owned(),
        target: target.clone(),
        lower_bound: target.clone(),
        upper_bound: target.clone(),
        uncapped_target: target,
    };
    Recommendation {
        containers: vec![container],
    }
}

/// The caps of a target of 100 cores, with their sources.
fn held(schedulable: &SchedulableCaps, object: &Vpa) -> Option<(i64, Cap)> {
    let fit = schedulable.fit(object, false, &recommend(100_000))?;
    let most = fit.of("main", &ResourceName::Cpu)?;
    most.cuts_target.then_some((most.amount, most.ceiling.by))
}

#[derive(Default)]
struct Cluster(View);

impl Cluster {
    fn pods(mut self, pods: impl IntoIterator<Item = Pod>) -> Self {
        for pod in pods {
            let table = if pod.phase == Phase::Pending {
                &mut self.0.pending_pods
            } else {
                &mut self.0.pods
            };
            table.apply(Arc::new(pod));
        }
        self
    }

    fn nodes(mut self, nodes: impl IntoIterator<Item = Node>) -> Self {
        for node in nodes {
            self.0.nodes.apply(Arc::new(node));
        }
        self
    }

    fn daemon(mut self, namespace: &str, name: &str, millicores: i64) -> Self {
        let daemon = DaemonSetShare {
            key: ObjectKey::new(namespace, name),
            constraints: NodeConstraints::default(),
            requirements: requests(millicores, 1),
        };
        self.0.daemons.apply(Arc::new(daemon));
        self
    }

    fn quota(mut self, name: &str, hard: &str) -> Self {
        let hard = hard.parse().expect("a quantity");
        self.0.quotas.apply(Arc::new(Quota {
            key: ObjectKey::new("shop", name),
            hard: ResourceList::from_iter([(ResourceName::from("requests.cpu"), hard)]),
            scopes: Vec::new(),
        }));
        self
    }

    fn replicas(mut self, replicas: i32) -> Self {
        let deployments = self.0.controllers_mut(WellKnown::Deployment);
        deployments.apply(fixture::deployment("web", replicas));
        self
    }

    fn limit(self, kind: LimitType, cpu: &str) -> Self {
        self.limit_with_default(kind, cpu, None)
    }

    fn limit_with_default(
        mut self,
        kind: LimitType,
        cpu: &str,
        default: Option<ResourceList>,
    ) -> Self {
        let max = cpu.parse().expect("a quantity");
        let item = LimitRangeItem {
            kind,
            min: None,
            max: Some(ResourceList::from_iter([(ResourceName::Cpu, max)])),
            default,
            default_request: None,
            max_limit_request_ratio: None,
        };
        self.0.limit_ranges.apply(Arc::new(LimitRange {
            key: ObjectKey::new("shop", format!("{kind:?}")),
            items: vec![item],
        }));
        self
    }

    fn check(&self, object: &Arc<Vpa>, expected: Option<(i64, Cap)>) {
        let mut schedulable = everything();
        load(&mut schedulable, &self.0, object);
        assert_eq!(held(&schedulable, object), expected, "{:?}", self.0);
    }
}

#[test]
fn the_largest_node_that_pods_may_run_on_counts_also_for_pods_that_wait_for_one() {
    let web = object(None, &json!({}));
    let nodes = || Cluster::default().nodes([node("a", "small", 4000), node("b", "big", 16_000)]);
    let check = |pods: &[Pod], expected: Option<i64>| {
        let expected = expected.map(|most| (most, Cap::Node));
        nodes().pods(pods.iter().cloned()).check(&web, expected);
    };
    check(&[], None);
    let anywhere = pod("web-1", "web", 100, PodPlacement::default());
    check(from_ref(&anywhere), Some(16_000));
    let mut waiting = pod("web-1", "web", 100, in_pool("small"));
    waiting.phase = Phase::Pending;
    check(from_ref(&waiting), Some(4000));
    check(&[pod("web-1", "web", 100, in_pool("none"))], None);
    let mut newer = in_pool("big");
    newer.created_at = Some(at(1));
    check(&[waiting, pod("web-0", "web", 100, newer)], Some(16_000));
    let mut closed = node("b", "big", 16_000);
    closed.is_cordoned = true;
    let cluster = nodes().nodes([closed]).pods([anywhere]);
    cluster.check(&web, Some((4000, Cap::Node)));
}

#[test]
fn a_shape_of_a_node_group_raises_the_cap_of_the_pods_that_it_admits() {
    let web = object(None, &json!({}));
    let settings = |cores: i64, further: &Value| {
        let mut shape = json!({"allocatable": {"cpu": cores, "memory": "64Gi"}});
        json_patch::merge(&mut shape, further);
        Settings {
            cap_to: "nodes".parse().expect("a known word"),
            node_groups: nodes_of(json!({"big": shape})).expect("a shape"),
            ..Settings::default()
        }
    };
    let small = || Cluster::default().nodes([node("a", "small", 4000)]);
    let taint = json!({"key": "gpu", "effect": "NoSchedule"});
    for (cores, further, placement, expected) in [
        (16, json!({}), PodPlacement::default(), 16_000),
        (2, json!({}), PodPlacement::default(), 4000),
        (16, json!({}), in_pool("small"), 4000),
        (
            16,
            json!({"labels": {"pool": "small"}}),
            in_pool("small"),
            16_000,
        ),
        (
            16,
            json!({"taints": [taint]}),
            PodPlacement::default(),
            4000,
        ),
    ] {
        let cluster = small().pods([pod("web-1", "web", 100, placement)]);
        let mut caps = SchedulableCaps::new(settings(cores, &further));
        load(&mut caps, &cluster.0, &web);
        assert_eq!(held(&caps, &web), Some((expected, Cap::Node)), "{further}");
    }
}

#[test]
fn daemons_and_static_pods_take_their_part_of_each_node() {
    let web = object(None, &json!({}));
    let owned = |name: &str, kind: &str, owner: &str, millicores| Pod {
        owner: Some(self::owner(kind, owner)),
        ..pod(name, "other", millicores, PodPlacement::default())
    };
    let cluster = || {
        let own = pod("web-1", "web", 100, PodPlacement::default());
        Cluster::default()
            .nodes([node("a", "x", 4000)])
            .pods([own])
            .daemon("kube-system", "proxy", 200)
    };
    cluster().check(&web, Some((3800, Cap::Node)));
    // A pod of it in a namespace that is watched asks for more than the template.
    let cluster = || {
        cluster()
            .daemon("shop", "logs", 100)
            .pods([owned("logs-1", "DaemonSet", "logs", 500)])
    };
    cluster().check(&web, Some((3300, Cap::Node)));
    cluster()
        .pods([owned("static-a", "Node", "a", 300)])
        .check(&web, Some((3000, Cap::Node)));
    // For the pods of a DaemonSet, its own are not in the way.
    let mut own = owned("logs-1", "DaemonSet", "logs", 500);
    own.labels = Labels::from_iter([("app", "web")]);
    let cluster = Cluster::default()
        .nodes([node("a", "x", 4000), node("b", "x", 2000)])
        .pods([own]);
    cluster
        .daemon("shop", "logs", 100)
        .daemon("kube-system", "proxy", 200)
        .check(&web, Some((1800, Cap::Node)));
}

#[test]
fn a_group_of_nodes_is_limited_by_its_nodes_and_shares_a_quota_among_its_pods() {
    let web = |group: Option<&str>| {
        let annotations = group.map(|group| json!({"plimsoll.dev/node-group": group}));
        let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "DaemonSet"}});
        let more = json!({"metadata": {"annotations": annotations}, "spec": spec});
        Arc::new(fixture::vpa("web", &more))
    };
    let own = |name: &str| Pod {
        owner: Some(owner("DaemonSet", "web")),
        ..pod(name, "web", 100, PodPlacement::default())
    };
    let pods = || {
        let mut cluster = Cluster::default().pods([own("web-1"), own("web-2")]);
        let daemon_sets = cluster.0.controllers_mut(WellKnown::DaemonSet);
        daemon_sets.apply(fixture::deployment("web", 4));
        cluster
    };
    let cluster = pods()
        .nodes([node("a", "big", 8000), node("b", "small", 2000)])
        .daemon("shop", "web", 100);
    for (group, nodes, quota) in [
        (None, 2000, 1000),
        (Some("pool=small"), 2000, 2000),
        (Some("pool=big"), 8000, 2000),
    ] {
        cluster.check(&web(group), Some((nodes, Cap::Node)));
        let limited = pods().quota("compute", "4");
        limited.check(&web(group), Some((quota, Cap::Quota)));
    }
}

#[test]
fn a_quota_leaves_its_share_to_each_replica() {
    let web = object(None, &json!({}));
    let of = |name: &str, app: &str, phase| {
        let mut pod = pod(name, app, 1000, PodPlacement::default());
        pod.phase = phase;
        pod
    };
    let cluster = || {
        let pods = ["web", "other"].map(|app| of(&format!("{app}-1"), app, Phase::Running));
        Cluster::default().quota("compute", "10").pods(pods)
    };
    let check = |cluster: Cluster, expected| cluster.check(&web, Some((expected, Cap::Quota)));
    check(cluster(), 9000);
    check(cluster().replicas(3), 3000);
    check(cluster().replicas(1).quota("tight", "5"), 4000);
    check(
        cluster().pods([of("other-1", "other", Phase::Succeeded)]),
        10_000,
    );
    check(cluster().pods([of("web-2", "web", Phase::Pending)]), 4500);
    // What pods have, they keep.
    check(cluster().replicas(30), 1000);
}

#[test]
fn limit_ranges_hold_containers_and_pods() {
    let web = object(None, &json!({}));
    let cluster = || Cluster::default().pods([pod("web-1", "web", 100, PodPlacement::default())]);
    let check = |cluster: Cluster, object: &Arc<Vpa>, expected| {
        cluster.check(object, Some((expected, Cap::LimitRange)));
    };
    let container = || cluster().limit(LimitType::Container, "3");
    check(container(), &web, 3000);
    check(container().limit(LimitType::Pod, "2"), &web, 2000);
    // Pods that are older than the range get its default limit when they are made anew.
    let default = ResourceList::of(Cpu::from_millicores(300), Memory::from_bytes(MIB));
    let later = cluster().limit_with_default(LimitType::Container, "3", Some(default));
    check(later, &web, 1000);
    let limited = |spec: &Value, expected| {
        let mut pod = pod("web-1", "web", 100, PodPlacement::default());
        pod.containers[0].limits = resources(400, 100);
        let cluster = Cluster::default().pods([pod]);
        let cluster = cluster.limit(LimitType::Container, "2");
        check(cluster, &object(None, spec), expected);
    };
    limited(&json!({}), 500);
    let policy = json!({"containerName": "*", "controlledValues": "RequestsOnly"});
    let policies = json!({"resourcePolicy": {"containerPolicies": [policy]}});
    limited(&policies, 2000);
}

#[test]
fn an_annotation_takes_out_what_it_does_not_name() {
    let cluster = Cluster::default()
        .pods([pod("web-1", "web", 100, PodPlacement::default())])
        .nodes([node("a", "x", 4000)])
        .quota("compute", "3")
        .limit(LimitType::Container, "2");
    for (annotation, expected) in [
        (None, Some((2000, Cap::LimitRange))),
        (Some("nodes"), Some((4000, Cap::Node))),
        (Some("nodes, quotas"), Some((3000, Cap::Quota))),
        (Some("none"), None),
        (Some("nonsense"), Some((2000, Cap::LimitRange))),
    ] {
        cluster.check(&object(annotation, &json!({})), expected);
    }
}

#[test]
fn what_was_known_of_pods_stays_when_they_are_gone_and_nodes_are_followed() {
    let web = object(None, &json!({}));
    let mut cluster = Cluster::default().nodes([node("a", "x", 4000)]);
    cluster = cluster.pods([pod("web-1", "web", 100, in_pool("x"))]);
    let mut schedulable = everything();
    load(&mut schedulable, &cluster.0, &web);
    cluster.0.pods.delete(&ObjectKey::new("shop", "web-1"));
    load(&mut schedulable, &cluster.0, &web);
    assert_eq!(held(&schedulable, &web), Some((4000, Cap::Node)));
    let cluster = cluster.nodes([node("b", "x", 9000)]);
    load(&mut schedulable, &cluster.0, &web);
    assert_eq!(held(&schedulable, &web), Some((9000, Cap::Node)));
    schedulable.load(&cluster.0, std::iter::empty());
    assert_eq!(held(&schedulable, &web), None);
}

#[test]
fn pods_are_found_whatever_their_selector_asks_for() {
    let pods = [pod("web-1", "web", 1, PodPlacement::default())];
    let view = Cluster::default().pods(pods).0;
    let web = object(None, &json!({}));
    for (selector, expected) in [
        ("app=web", 1),
        ("app in (api,web)", 1),
        ("app=web,tier=a", 0),
        ("app", 1),
        ("app!=web", 0),
        ("", 1),
    ] {
        let selector = selector.parse().expect(selector);
        let found = pods_by_selector(&view, &[(&web, &selector)]);
        assert_eq!(found[&("shop", &selector)].len(), expected, "{selector}");
    }
}

#[test]
fn objects_of_one_workload_share_its_pods() {
    const OBJECTS: usize = 2000;
    let pods =
        (0..100).map(|number| pod(&format!("web-{number}"), "web", 1, PodPlacement::default()));
    let view = Cluster::default().pods(pods).0;
    let object = |number| Arc::new(fixture::vpa(&format!("web-{number}"), &json!({})));
    let objects: Vec<_> = (0..OBJECTS).map(object).collect();
    let selectors = vec![Selector::match_labels([("app", "web")]); OBJECTS];
    let objects: Vec<_> = objects.iter().zip(&selectors).collect();
    let found = pods_by_selector(&view, &objects);
    assert_eq!(found.values().map(Vec::len).sum::<usize>(), 100);
}

#[test]
fn objects_of_policies_have_further_sources() {
    let all: CapSources = "nodes,quotas,limit-ranges".parse().expect("known words");
    let nothing = CapSources::default();
    let nodes: CapSources = "nodes".parse().expect("a known word");
    let policy = json!([{
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "SizingPolicy", "name": "web", "uid": "p1", "controller": true,
    }]);
    for (cap_to, cap_policies_to, annotation, of_user, of_policy) in [
        (nothing, all, None, nothing, all),
        (nodes, nothing, None, nodes, nodes),
        (nodes, all, None, nodes, all),
        (nothing, all, Some("none"), nothing, nothing),
        (nothing, all, Some("nodes"), nothing, nodes),
        (nothing, all, Some("node"), nothing, all),
    ] {
        let settings = Settings {
            cap_to,
            cap_policies_to,
            ..Settings::default()
        };
        let mut vpa = object(annotation, &json!({})).object.clone();
        assert_eq!(settings.sources_of(&vpa), of_user, "{annotation:?}");
        let owners = serde_json::from_value(policy.clone()).expect("owners");
        vpa.metadata.owner_references = Some(owners);
        assert_eq!(settings.sources_of(&vpa), of_policy, "{annotation:?}");
    }
}
