//! Power and its normalisation.

use placement::peaks::{PowerModel, normalize};
use placement::{Amounts, Metric, PodSpec};
use serde::Deserialize;
use testing::vectors::each_case;

use crate::objects::{Measured, Node, Pod, cpu_average};

#[derive(Deserialize)]
#[serde(untagged)]
enum Case {
    Normalization {
        normalize: Vec<i64>,
        expect: Vec<i64>,
    },
    Power(Box<Power>),
}

#[derive(Deserialize)]
struct Power {
    #[serde(flatten)]
    measured: Measured,
    node: Node,
    pod: Pod,
    #[serde(rename = "power_models")]
    models: Models,
    expect: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct Models {
    k0: f64,
    k1: f64,
    k2: f64,
    #[serde(rename = "n1_known")]
    is_known: bool,
}

/// Differs on purpose: upstream's subtraction wraps around when a list holds the smallest integer,
/// and scores leave 0 to 100. Ours does not wrap.
fn wraps_around(rises: &[i64]) -> bool {
    rises.contains(&i64::MIN)
}

/// Differs on purpose: upstream takes the utilization with the pod for 0 on a node without CPU, so
/// placing a pod there lowers the power. Ours does not know it.
fn has_no_capacity(node: &Node) -> bool {
    node.capacity().cpu_millicores == 0
}

/// CPU request of a pod in millicores. Overhead counts only with another request, as upstream.
fn request_millicores(pod: &PodSpec) -> i64 {
    let request = pod.requests().cpu_millicores;
    let overhead = Amounts::of(&pod.overhead).cpu_millicores;
    if request > overhead { request } else { 0 }
}

fn first_average(metrics: &[Metric]) -> Option<f64> {
    metrics.iter().find_map(cpu_average)
}

#[test]
fn vectors_peaks() {
    each_case("trimaran/peaks", |number, case: Case| match case {
        Case::Normalization {
            normalize: rises,
            expect,
        } => {
            let found = normalize(&rises.iter().copied().map(Some).collect::<Vec<_>>());
            assert!(found.iter().all(|score| (0..=100).contains(score)));
            if !wraps_around(&rises) {
                assert_eq!(found, expect, "case {number}");
            }
        }
        Case::Power(case) => {
            let Models {
                k0,
                k1,
                k2,
                is_known,
            } = case.models;
            let metrics = case.measured.metrics();
            let rise = |model: PowerModel| {
                model.rise(
                    metrics.as_deref().and_then(first_average),
                    case.node.capacity().cpu_millicores,
                    request_millicores(&case.pod.spec()),
                    0,
                )
            };
            let model = is_known.then_some(PowerModel { k0, k1, k2 });
            // An unknown rise is 0 upstream, which normalisation takes for the best node.
            let found = model.and_then(rise).unwrap_or(0);
            if has_no_capacity(&case.node) {
                assert_eq!(found, 0, "case {number}");
                return;
            }
            let used = metrics.as_deref().and_then(first_average).unwrap_or(0.0);
            let last_digits = (k1 * (k2 * used).exp()).abs() * 1e15 * (4.0 * f64::EPSILON);
            // 1 for the truncation.
            let tolerance = (case.expect.abs() as f64 * 1e-12).max(last_digits) + 1.0;
            assert!(
                (found - case.expect).abs() as f64 <= tolerance,
                "case {number}: {found} instead of {}",
                case.expect
            );
        }
    });
}
