//! Workloads, policies, limit ranges, startup boosts and recommendations.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

const CONTAINERS: [&str; 3] = ["app", "side", "third"];
/// Largest duration of a startup boost after its pod is ready.
const BOOST_SECONDS: u32 = 3600;

/// A workload, its constraints, and two recommendations after each other.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) template: Value,
    pub(crate) ranges: Vec<Value>,
    pub(crate) policies: Vec<Value>,
    /// The feature gate of startup boosts, in both programs.
    pub(crate) gate: bool,
    /// The startup boost of the VPA object. Policies have their own.
    pub(crate) boost: Option<Value>,
    pub(crate) limit_mode: Option<&'static str>,
    pub(crate) mode: &'static str,
    /// For the same containers and resources.
    pub(crate) recommendations: [Vec<Value>; 2],
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

fn boost() -> impl Strategy<Value = Value> {
    let cpu = prop_oneof![
        (1..5_u64).prop_map(|factor| json!({"type": "Factor", "factor": factor})),
        amount().prop_map(|more| json!({"type": "Quantity", "quantity": quantity("cpu", more)})),
    ];
    (cpu, prop::option::of(0..BOOST_SECONDS)).prop_map(|(mut cpu, seconds)| {
        if let Some(seconds) = seconds {
            cpu["durationSeconds"] = json!(seconds);
        }
        json!({"cpu": cpu})
    })
}

fn policies() -> impl Strategy<Value = Vec<Value>> {
    let policy = |name: &'static str| {
        let values = prop::sample::select(vec!["RequestsAndLimits", "RequestsOnly"]);
        let resources = prop::sample::select(vec![&["cpu", "memory"][..], &["memory"], &["cpu"]]);
        let mode = prop::sample::select(vec!["Auto", "Auto", "Auto", "Off"]);
        let boost = prop::option::weighted(0.3, boost());
        (growing::<2>(0.3), values, resources, mode, boost).prop_map(
            move |([min, max], values, resources, mode, boost)| {
                let mut policy = json!({
                    "containerName": name, "mode": mode, "minAllowed": min, "maxAllowed": max,
                    "controlledValues": values, "controlledResources": resources,
                });
                if let Some(boost) = boost {
                    policy["startupBoost"] = boost;
                }
                policy
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

pub(crate) fn case() -> impl Strategy<Value = Case> {
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
        any::<bool>(),
        prop::option::of(boost()),
        prop::sample::select(modes),
        prop::sample::select(vec!["Recreate", "InPlaceOrRecreate"]),
        recommendations(),
    )
        .prop_map(
            |(template, ranges, policies, gate, boost, limit_mode, mode, recommendations)| Case {
                template,
                ranges,
                policies,
                gate,
                boost,
                limit_mode,
                mode,
                recommendations,
            },
        )
}

pub(crate) fn add_missing(list: &mut Value, defaults: &Value) {
    for (name, amount) in defaults.as_object().into_iter().flatten() {
        if list[name].is_null() {
            list[name] = amount.clone();
        }
    }
}
