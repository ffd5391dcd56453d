//! The webhook and the updater agree: for the same recommendation, a pod as the webhook leaves it needs
//! no other size, and a resize in place leads to the pod that the webhook would make.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admission::{AdmissionConfig, Input, review};
use api::limit_mode::LIMIT_MODE;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::ReplicaSet;
use proptest::prelude::*;
use rollout::{ActionKind, ClockReading, Plan, RolloutState, Settings, Snapshot, decide};
use serde_json::{Map, Value, json};
use view::{Controller, LimitRange, ObjectKey, Pod, View, Vpa, WellKnown};

const NAMESPACE: &str = "shop";
const CONTAINERS: [&str; 3] = ["app", "side", "third"];

/// A workload, its constraints, and two recommendations after each other.
#[derive(Debug, Clone)]
struct Case {
    /// The specification of the pod in the template.
    template: Value,
    /// Items of a `LimitRange`.
    ranges: Vec<Value>,
    policies: Vec<Value>,
    limit_mode: Option<&'static str>,
    mode: &'static str,
    /// For the same containers and resources.
    recommendations: [Vec<Value>; 2],
}

/// A quantity in one of the notations that people and programs write.
fn quantity(resource: &'static str, amount: u64) -> Value {
    let text = match (resource, amount % 5) {
        ("cpu", 0) => format!("{}", amount.div_ceil(1000)),
        ("cpu", _) => format!("{amount}m"),
        (_, 0) => format!("{}Mi", amount.div_ceil(1000)),
        (_, 1) => format!("{}M", amount.div_ceil(1000)),
        (_, 2) => format!("{}m", amount * 1000 + 1),
        (_, _) => format!("{}", amount * 1024 + amount % 7),
    };
    Value::String(text)
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![1..20_u64, 1..4000_u64, 1..400_000_u64]
}

/// Lists of CPU and memory that grow from the first to the last, each perhaps absent.
fn growing<const N: usize>(probability: f64) -> impl Strategy<Value = [Map<String, Value>; N]> {
    let of = |resource| {
        let amounts = prop::collection::vec(prop::option::weighted(probability, amount()), N);
        amounts.prop_map(move |amounts| {
            let mut present: Vec<u64> = amounts.iter().flatten().copied().collect();
            present.sort_unstable();
            let mut present = present.into_iter();
            let grown = amounts
                .iter()
                .map(|amount| amount.and_then(|_| present.next()));
            grown
                .map(|amount| amount.map(|amount| quantity(resource, amount)))
                .collect::<Vec<_>>()
        })
    };
    (of("cpu"), of("memory")).prop_map(|(cpu, memory)| {
        std::array::from_fn(|index| {
            let amounts = [("cpu", &cpu[index]), ("memory", &memory[index])].into_iter();
            let present =
                amounts.filter_map(|(name, amount)| Some((name.to_owned(), amount.clone()?)));
            present.collect()
        })
    })
}

fn resources() -> impl Strategy<Value = Value> {
    growing::<2>(0.7).prop_map(|[requests, limits]| json!({"requests": requests, "limits": limits}))
}

fn template() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(resources(), 1..=CONTAINERS.len());
    let init = prop::option::of((resources(), any::<bool>()));
    let own = prop::option::weighted(0.3, resources());
    (containers, init, own).prop_map(|(containers, init, own)| {
        let containers = CONTAINERS.iter().zip(containers);
        let containers = containers
            .map(|(name, resources)| json!({"name": name, "image": "app", "resources": resources}));
        let mut spec = json!({"containers": containers.collect::<Vec<_>>()});
        if let Some((resources, is_sidecar)) = init {
            let mut container = json!({"name": "first", "image": "app", "resources": resources});
            if is_sidecar {
                container["restartPolicy"] = json!("Always");
            }
            spec["initContainers"] = json!([container]);
        }
        if let Some(own) = own {
            spec["resources"] = own;
        }
        spec
    })
}

fn range() -> impl Strategy<Value = Value> {
    let ratio = prop::option::of(1..8_u64);
    let lists = growing::<4>(0.4);
    (any::<bool>(), lists, ratio).prop_map(|(of_pod, [min, requests, limits, max], ratio)| {
        let mut item =
            json!({"type": if of_pod { "Pod" } else { "Container" }, "min": min, "max": max});
        if !of_pod {
            item["defaultRequest"] = json!(requests);
            item["default"] = json!(limits);
            // As the API server completes an item.
            for (list, from) in [
                ("default", "max"),
                ("defaultRequest", "default"),
                ("defaultRequest", "min"),
            ] {
                let from = item[from].clone();
                add_missing(&mut item[list], &from);
            }
        }
        if let Some(ratio) = ratio {
            item["maxLimitRequestRatio"] =
                json!({"cpu": ratio.to_string(), "memory": ratio.to_string()});
        }
        item
    })
}

fn policies() -> impl Strategy<Value = Vec<Value>> {
    let policy = |name: &'static str| {
        let values = prop::sample::select(vec!["RequestsAndLimits", "RequestsOnly"]);
        let resources = prop::sample::select(vec![&["cpu", "memory"][..], &["memory"], &["cpu"]]);
        let mode = prop::sample::select(vec!["Auto", "Auto", "Auto", "Off"]);
        (growing::<2>(0.3), values, resources, mode).prop_map(
            move |([min, max], values, resources, mode)| {
                json!({
                    "containerName": name, "mode": mode, "minAllowed": min, "maxAllowed": max,
                    "controlledValues": values, "controlledResources": resources,
                })
            },
        )
    };
    let of = |name| prop::option::of(policy(name));
    (of("app"), of("*")).prop_map(|(app, others)| app.into_iter().chain(others).collect())
}

/// Lower bound, target and upper bound of one resource.
type Bounds = [u64; 3];

fn recommendations() -> impl Strategy<Value = [Vec<Value>; 2]> {
    let bounds = || {
        [amount(), amount(), amount()].prop_map(|mut bounds: Bounds| {
            bounds.sort_unstable();
            bounds
        })
    };
    let resource = || prop::option::weighted(0.8, [bounds(), bounds()]);
    let container = prop::option::weighted(0.8, (resource(), resource()));
    prop::collection::vec(container, CONTAINERS.len()).prop_map(|containers| {
        [0, 1].map(|which| {
            let containers = CONTAINERS.iter().zip(&containers);
            let recommended = containers.filter_map(|(name, container)| {
                let (cpu, memory) = container.as_ref()?;
                let list = |bound: usize| {
                    let all = [("cpu", cpu), ("memory", memory)].into_iter();
                    let present = all.filter_map(|(name, bounds)| {
                        Some((name.to_owned(), quantity(name, bounds.as_ref()?[which][bound])))
                    });
                    present.collect::<Map<_, _>>()
                };
                Some(json!({
                    "containerName": name, "lowerBound": list(0), "target": list(1), "upperBound": list(2),
                }))
            });
            recommended.collect()
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    let modes = vec![
        None,
        None,
        Some("equal"),
        Some("request-plus:7%"),
        Some("memory=request-plus:3Mi"),
    ];
    (
        template(),
        prop::collection::vec(range(), 0..3),
        policies(),
        prop::sample::select(modes),
        prop::sample::select(vec!["Recreate", "InPlaceOrRecreate"]),
        recommendations(),
    )
        .prop_map(
            |(template, ranges, policies, limit_mode, mode, recommendations)| Case {
                template,
                ranges,
                policies,
                limit_mode,
                mode,
                recommendations,
            },
        )
}

impl Case {
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
        let object = json!({
            "metadata": {"namespace": NAMESPACE, "name": "web", "uid": "vpa", "annotations": annotations},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
                "updatePolicy": {"updateMode": self.mode},
                "resourcePolicy": {"containerPolicies": self.policies},
            },
            "status": {"recommendation": {"containerRecommendations": recommendation}},
        });
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
            "phase": "Running", "startTime": "2025-12-31T00:00:00Z", "qosClass": "Burstable",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}],
        });
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
            node_load: None,
        };
        let now = ClockReading {
            wall: "2026-01-01T12:00:00Z".parse().expect("a time"),
            monotonic: Duration::from_hours(48),
        };
        let settings = Settings {
            native_sidecars: true,
            ..Settings::default()
        };
        decide(&snapshot, &mut RolloutState::default(), &settings, now)
    }
}

fn add_missing(list: &mut Value, defaults: &Value) {
    for (name, amount) in defaults.as_object().into_iter().flatten() {
        if list[name].is_null() {
            list[name] = amount.clone();
        }
    }
}

/// Applies a patch in Base64, if any.
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

proptest! {
    #[test]
    fn a_pod_as_the_webhook_leaves_it_needs_no_other_size(case in case()) {
        let recommendation = &case.recommendations[0];
        let pods = case.admitted(recommendation);
        let plan = case.decide(recommendation, &pods);
        prop_assert!(plan.actions.is_empty(), "{:#?}\n{:#}", plan.actions, pods[0]["spec"]);
    }

    #[test]
    fn a_resize_leads_to_the_pod_that_the_webhook_makes(case in case()) {
        let [before, after] = &case.recommendations;
        let pods = case.admitted(before);
        let plan = case.decide(after, &pods);
        for action in &plan.actions {
            if let ActionKind::Resize { patch, .. } = &action.kind {
                let mut resized = pods[0].clone();
                json_patch::patch(&mut resized, patch).expect("it applies");
                // A running pod loses no request and no limit.
                let mut expected = sizes(&pods[0], after);
                expected.extend(sizes(&case.admitted(after)[0], after));
                prop_assert_eq!(sizes(&resized, after), expected);
            }
        }
    }
}
