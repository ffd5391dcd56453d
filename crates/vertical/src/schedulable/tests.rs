//! A namespace `shop` with objects on Deployments, and what their targets are held to.

mod status;

use model::{Cap, ContainerRecommendation, Cpu, Labels, Memory, ResourceList, ResourceName};
use serde_json::{Value, json};
use view::{
    Daemon, LimitRange, LimitRangeItem, Node, Owner, Phase, Placement, Quota, Requirements,
    Resources,
};

use super::*;
use crate::fixture::{self, at};

const MIB: i64 = 1 << 20;

fn resources(millicores: i64, mebibytes: i64) -> Resources {
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

fn pod(name: &str, app: &str, millicores: i64, placement: Placement) -> Pod {
    let mut pod = Pod {
        placement: Some(Arc::new(placement)),
        ..fixture::pod(name, app)
    };
    pod.containers[0].requests = resources(millicores, 100);
    pod
}

fn node(name: &str, pool: &str, millicores: i64) -> Node {
    Node {
        name: name.to_owned(),
        labels: Labels::from_iter([("pool", pool)]),
        taints: Vec::new(),
        is_cordoned: false,
        allocatable: resources(millicores, 4096),
        extended: ResourceList::new(),
    }
}

fn in_pool(pool: &str) -> Placement {
    let constraints = NodeConstraints {
        selector: Labels::from_iter([("pool", pool)]),
        ..NodeConstraints::default()
    };
    Placement {
        constraints,
        ..Placement::default()
    }
}

fn object(annotation: Option<&str>, spec: &Value) -> Arc<Autoscaler> {
    let annotations = annotation.map(|text| json!({ANNOTATION: text}));
    let metadata = json!({"uid": "u1", "generation": 1, "annotations": annotations});
    Arc::new(fixture::autoscaler(
        "web",
        &json!({"metadata": metadata, "spec": spec}),
    ))
}

/// Everything is heeded, with no margin.
fn everything() -> SchedulableCaps {
    let cap_to = "nodes,quotas,limit-ranges".parse().expect("known words");
    SchedulableCaps::new(Settings {
        cap_to,
        margin: 0.0,
    })
}

fn load(schedulable: &mut SchedulableCaps, view: &View, object: &Arc<Autoscaler>) {
    schedulable.load(
        view,
        [(object, &Selector::match_labels([("app", "web")]))].into_iter(),
    );
}

fn recommend(millicores: i64) -> Recommendation {
    let target = ResourceList::of(Cpu::from_millicores(millicores), Memory::from_bytes(MIB));
    let (lower_bound, upper_bound) = (target.clone(), target.clone());
    let container_name = "main".to_owned();
    let uncapped_target = target.clone();
    Recommendation {
        containers: vec![ContainerRecommendation {
            container_name,
            target,
            lower_bound,
            upper_bound,
            uncapped_target,
        }],
    }
}

/// The caps of a target of 100 cores, with their sources.
fn held(schedulable: &SchedulableCaps, object: &Autoscaler) -> Option<(i64, Cap)> {
    let fit = schedulable.fit(object, false, &recommend(100_000))?;
    let most = fit
        .of("main", &ResourceName::Cpu)
        .filter(|most| most.cuts_target);
    most.map(|most| (most.amount, most.ceiling.by))
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
        let key = ObjectKey::new(namespace, name);
        let daemon = Daemon {
            key,
            constraints: NodeConstraints::default(),
            requirements: requests(millicores, 1),
        };
        self.0.daemons.apply(Arc::new(daemon));
        self
    }

    fn quota(mut self, name: &str, hard: &str) -> Self {
        let hard = [(
            ResourceName::from("requests.cpu"),
            hard.parse().expect("a quantity"),
        )]
        .into_iter()
        .collect();
        self.0.quotas.apply(Arc::new(Quota {
            key: ObjectKey::new("shop", name),
            hard,
            scopes: Vec::new(),
        }));
        self
    }

    fn replicas(mut self, replicas: i32) -> Self {
        self.0
            .controllers_mut(WellKnown::Deployment)
            .apply(fixture::deployment("web", replicas));
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
        let max = [(ResourceName::Cpu, cpu.parse().expect("a quantity"))]
            .into_iter()
            .collect();
        let item = LimitRangeItem {
            kind,
            min: None,
            max: Some(max),
            default,
            default_request: None,
            max_limit_request_ratio: None,
        };
        let key = ObjectKey::new("shop", format!("{kind:?}"));
        self.0.limit_ranges.apply(Arc::new(LimitRange {
            key,
            items: vec![item],
        }));
        self
    }

    fn check(&self, object: &Arc<Autoscaler>, expected: Option<(i64, Cap)>) {
        let mut schedulable = everything();
        load(&mut schedulable, &self.0, object);
        assert_eq!(held(&schedulable, object), expected, "{:?}", self.0);
    }
}

#[test]
fn the_largest_node_that_pods_may_run_on_counts_also_for_pods_that_wait_for_one() {
    let web = object(None, &json!({}));
    let nodes = || Cluster::default().nodes([node("a", "small", 4000), node("b", "big", 16_000)]);
    nodes().check(&web, None);
    nodes()
        .pods([pod("web-1", "web", 100, Placement::default())])
        .check(&web, Some((16_000, Cap::Node)));
    let waiting = Pod {
        phase: Phase::Pending,
        ..pod("web-1", "web", 100, in_pool("small"))
    };
    nodes()
        .pods([waiting.clone()])
        .check(&web, Some((4000, Cap::Node)));
    nodes()
        .pods([pod("web-1", "web", 100, in_pool("none"))])
        .check(&web, None);
    let newer = Placement {
        created_at: Some(at(1)),
        ..in_pool("big")
    };
    nodes()
        .pods([waiting, pod("web-0", "web", 100, newer)])
        .check(&web, Some((16_000, Cap::Node)));
    let closed = Node {
        is_cordoned: true,
        ..node("b", "big", 16_000)
    };
    let pods = [pod("web-1", "web", 100, Placement::default())];
    nodes()
        .nodes([closed])
        .pods(pods)
        .check(&web, Some((4000, Cap::Node)));
}

#[test]
fn daemons_and_static_pods_take_their_part_of_each_node() {
    let web = object(None, &json!({}));
    let owned = |name: &str, kind: &str, owner: &str, millicores| {
        let owner = Owner {
            api_version: String::new(),
            kind: kind.to_owned(),
            name: owner.to_owned(),
            uid: String::new(),
        };
        Pod {
            owner: Some(owner),
            ..pod(name, "other", millicores, Placement::default())
        }
    };
    let cluster = || {
        let own = pod("web-1", "web", 100, Placement::default());
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
    let own = Pod {
        labels: Labels::from_iter([("app", "web")]),
        ..owned("logs-1", "DaemonSet", "logs", 500)
    };
    let cluster = Cluster::default()
        .nodes([node("a", "x", 4000), node("b", "x", 2000)])
        .pods([own]);
    cluster
        .daemon("shop", "logs", 100)
        .daemon("kube-system", "proxy", 200)
        .check(&web, Some((1800, Cap::Node)));
}

#[test]
fn a_quota_leaves_its_share_to_each_replica() {
    let web = object(None, &json!({}));
    let of = |name: &str, app: &str| pod(name, app, 1000, Placement::default());
    let cluster = || {
        Cluster::default()
            .quota("compute", "10")
            .pods([of("web-1", "web"), of("other-1", "other")])
    };
    cluster().check(&web, Some((9000, Cap::Quota)));
    cluster().replicas(3).check(&web, Some((3000, Cap::Quota)));
    cluster()
        .replicas(1)
        .quota("tight", "5")
        .check(&web, Some((4000, Cap::Quota)));
    let ended = Pod {
        phase: Phase::Succeeded,
        ..of("other-1", "other")
    };
    cluster()
        .pods([ended])
        .check(&web, Some((10_000, Cap::Quota)));
    let waiting = Pod {
        phase: Phase::Pending,
        ..of("web-2", "web")
    };
    cluster()
        .pods([waiting])
        .check(&web, Some((4500, Cap::Quota)));
    // What pods have, they keep.
    cluster().replicas(30).check(&web, Some((1000, Cap::Quota)));
}

#[test]
fn limit_ranges_hold_containers_and_pods() {
    let web = object(None, &json!({}));
    let cluster = || Cluster::default().pods([pod("web-1", "web", 100, Placement::default())]);
    cluster()
        .limit(LimitType::Container, "3")
        .check(&web, Some((3000, Cap::LimitRange)));
    cluster()
        .limit(LimitType::Container, "3")
        .limit(LimitType::Pod, "2")
        .check(&web, Some((2000, Cap::LimitRange)));
    // Pods that are older than the range get its default limit when they are made anew.
    let default = ResourceList::of(Cpu::from_millicores(300), Memory::from_bytes(MIB));
    let later = cluster().limit_with_default(LimitType::Container, "3", Some(default));
    later.check(&web, Some((1000, Cap::LimitRange)));
    let limited = |spec: &Value, expected| {
        let mut pod = pod("web-1", "web", 100, Placement::default());
        pod.containers[0].limits = resources(400, 100);
        Cluster::default()
            .pods([pod])
            .limit(LimitType::Container, "2")
            .check(&object(None, spec), Some((expected, Cap::LimitRange)));
    };
    limited(&json!({}), 500);
    let policy = json!({"containerName": "*", "controlledValues": "RequestsOnly"});
    limited(
        &json!({"resourcePolicy": {"containerPolicies": [policy]}}),
        2000,
    );
}

#[test]
fn an_annotation_takes_out_what_it_does_not_name() {
    let cluster = Cluster::default()
        .pods([pod("web-1", "web", 100, Placement::default())])
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
    let mut cluster = Cluster::default().nodes([node("a", "x", 4000)]).pods([pod(
        "web-1",
        "web",
        100,
        in_pool("x"),
    )]);
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
    let view = Cluster::default()
        .pods([pod("web-1", "web", 1, Placement::default())])
        .0;
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
        let mut found = PodsByObject::find(&view, &[(&web, &selector)]);
        assert_eq!(found.take(&web.key).len(), expected, "{selector}");
    }
}
