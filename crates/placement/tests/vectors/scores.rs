//! Scores of `TargetLoadPacking`, `LoadVariationRiskBalancing` and `LowRiskOverCommitment`.

use placement::{
    Amounts, Commitment, LoadVariationRiskBalancing, LowRiskOverCommitment, MetricType,
    NodeCommitment, PodForecast, PodSpec, Policy, PredictionConfig, TargetLoadPacking, predict,
    usage,
};
use serde::Deserialize;
use testing::vectors::each_case;

use crate::objects::{Measured, Node, Pod, cpu_average};

#[derive(Deserialize)]
struct Packing {
    #[serde(flatten)]
    measured: Measured,
    node: Node,
    pod: Pod,
    default_requests_millicores: i64,
    default_requests_multiplier: f64,
    target_utilization: i64,
    recently_bound: Option<Vec<Bound>>,
    window_end_unix: i64,
    expect: i64,
}

#[derive(Deserialize)]
struct Bound {
    bound_at_unix: i64,
    pod: Pod,
}

/// Upstream counts a pod whose binding is younger than this at the end of the window.
const SETTLE_SECONDS: i64 = 60;

#[test]
fn vectors_target_load_packing() {
    each_case("trimaran/target_load_packing", |number, case: Packing| {
        let plugin = TargetLoadPacking {
            target_percent: case.target_utilization,
            default_requests: Amounts {
                cpu_millicores: case.default_requests_millicores,
                ..Amounts::default()
            },
            requests_multiplier: case.default_requests_multiplier,
        };
        let config = PredictionConfig::of(&Policy::TargetLoadPacking(plugin));
        let predicted = |pod: &Pod| {
            let found = predict(&pod.spec(), None, PodForecast::default(), &config);
            found.load.cpu_millicores
        };
        let recent: i64 = case
            .recently_bound
            .iter()
            .flatten()
            .filter(|bound| bound.bound_at_unix > case.window_end_unix - SETTLE_SECONDS)
            .map(|bound| predicted(&bound.pod))
            .sum();
        let metrics = case.measured.metrics();
        let found = plugin.score(
            metrics.iter().flatten().rev().find_map(cpu_average),
            case.node.capacity().cpu_millicores,
            predicted(&case.pod),
            recent,
        );
        assert_eq!(found, case.expect, "case {number}");
    });
}

#[derive(Deserialize)]
struct Balancing {
    #[serde(flatten)]
    measured: Measured,
    node: Node,
    pod: Pod,
    safe_variance_margin: f64,
    safe_variance_sensitivity: f64,
    unrounded_cpu: Option<f64>,
    unrounded_memory: Option<f64>,
    expect: i64,
}

#[test]
fn vectors_load_variation_risk_balancing() {
    let kind = "trimaran/load_variation_risk_balancing";
    each_case(kind, |number, case: Balancing| {
        let plugin = LoadVariationRiskBalancing {
            safe_variance_margin: case.safe_variance_margin,
            safe_variance_sensitivity: case.safe_variance_sensitivity,
        };
        let metrics = case.measured.metrics();
        let of = |resource| usage(metrics.as_deref().unwrap_or_default(), resource);
        let (cpu, memory) = (of(MetricType::Cpu), of(MetricType::Memory));
        let (allocatable, pod) = (case.node.allocatable(), case.pod.spec().requests());
        let found = plugin.score(cpu, memory, allocatable, pod);
        assert_eq!(found, case.expect, "case {number}");
        if metrics.is_some() {
            let found = plugin.resource_scores(cpu, memory, allocatable, pod);
            for (found, expected) in [
                (found.0, case.unrounded_cpu),
                (found.1, case.unrounded_memory),
            ] {
                let distance = found.zip(expected).map(|(one, other)| (one - other).abs());
                assert_eq!(found.is_some(), expected.is_some(), "case {number}");
                assert!(distance.unwrap_or(0.0) < 1e-9, "case {number}: {found:?}");
            }
        }
    });
}

#[derive(Deserialize)]
struct OverCommitment {
    #[serde(flatten)]
    measured: Measured,
    node: Node,
    pod: Pod,
    pods_on_node: Option<Vec<Pod>>,
    smoothing_window_size: i64,
    risk_limit_weights: Weights,
    expect: i64,
}

#[derive(Deserialize)]
struct Weights {
    cpu: f64,
    memory: f64,
}

#[test]
fn vectors_low_risk_over_commitment() {
    let kind = "trimaran/low_risk_over_commitment";
    each_case(kind, |number, case: OverCommitment| {
        let plugin = LowRiskOverCommitment {
            smoothing_window_size: case.smoothing_window_size,
            cpu_limit_weight: case.risk_limit_weights.cpu,
            memory_limit_weight: case.risk_limit_weights.memory,
        };
        let commitment = |pod: &PodSpec| Commitment {
            requests: pod.requests(),
            limits: pod.limits(),
        };
        let pods = case
            .pods_on_node
            .iter()
            .flatten()
            .map(|pod| commitment(&pod.spec()))
            .fold(Commitment::default(), Commitment::plus);
        let found = case.measured.metrics().map_or(0, |metrics| {
            let node = NodeCommitment {
                cpu: usage(&metrics, MetricType::Cpu),
                memory: usage(&metrics, MetricType::Memory),
                allocatable: case.node.allocatable(),
                pods,
                reserved: placement::Amounts::default(),
            };
            plugin.score(plugin.load_risk(&node), &node, commitment(&case.pod.spec()))
        });
        assert_eq!(found, case.expect, "case {number}");
    });
}
