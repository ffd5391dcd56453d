//! The recorded cases: flags, objects, operations and expected results.

use std::collections::BTreeMap;

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use jiff::Timestamp;
use model::{Quantity, ResourceName};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sizing::{Config, MemoryRules, Percentiles, WithoutUsage};
use testing::vectors::{Double, or_default};

#[derive(Deserialize)]
pub(super) struct Case {
    /// The flags of upstream's recommender.
    pub(super) config: Value,
    pub(super) vpa: Value,
    pub(super) selector: BTreeMap<String, String>,
    pub(super) exact: Option<bool>,
    pub(super) ops: Vec<Op>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Op {
    Pod {
        pod: String,
        labels: BTreeMap<String, String>,
        phase: String,
        #[serde(default)]
        containers: Vec<Container>,
    },
    DeletePod {
        pod: String,
    },
    Checkpoint {
        container: String,
        #[serde(deserialize_with = "with_numeric_keys")]
        status: VerticalPodAutoscalerCheckpointStatus,
        expect: Outcome,
    },
    Samples {
        pod: String,
        container: String,
        start: Timestamp,
        step_ns: i64,
        #[serde(default)]
        cpu_millicores: Vec<i64>,
        #[serde(default)]
        memory_bytes: Vec<i64>,
        expect: Counts,
    },
    Oom {
        pod: String,
        container: String,
        start: Timestamp,
        request_bytes: i64,
        expect: Outcome,
    },
    Recommend {
        start: Timestamp,
        expect: Box<Expected>,
    },
}

#[derive(Deserialize)]
pub(super) struct Container {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Outcome {
    pub(super) accepted: bool,
}

#[derive(Deserialize)]
pub(super) struct Counts {
    #[serde(default)]
    pub(super) cpu_accepted: usize,
    #[serde(default)]
    pub(super) memory_accepted: usize,
}

#[derive(Deserialize)]
pub(super) struct Expected {
    pub(super) recommendation: Value,
    pub(super) amounts: BTreeMap<String, Bounds>,
    pub(super) aggregates: BTreeMap<String, Aggregate>,
    #[serde(deserialize_with = "with_numeric_keys")]
    pub(super) checkpoints: BTreeMap<String, VerticalPodAutoscalerCheckpointStatus>,
    pub(super) pod_count: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bounds {
    pub(super) target: Amounts,
    pub(super) lower_bound: Amounts,
    pub(super) upper_bound: Amounts,
}

#[derive(Deserialize)]
pub(super) struct Amounts {
    pub(super) cpu: Option<i64>,
    pub(super) memory: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct Aggregate {
    pub(super) cpu_percentiles: Vec<Double>,
    pub(super) memory_percentiles: Vec<Double>,
    pub(super) samples: i64,
}

/// The configuration by recorded flags.
pub(super) fn config(flags: &Value) -> Config {
    let float = |name: &str| flags[name].as_f64().expect("a number");
    let whole = |name: &str| flags[name].as_i64().expect("a whole number");
    let is = |name: &str| flags[name].as_bool().expect("a boolean");
    let percentiles = |resource: &str| Percentiles {
        target: float(&format!("target_{resource}_percentile")),
        lower_bound: float(&format!("lower_bound_{resource}_percentile")),
        upper_bound: float(&format!("upper_bound_{resource}_percentile")),
    };
    let max = |resource: ResourceName| {
        let max: Option<Quantity> = or_default(&flags[format!("max_allowed_{resource}")]);
        max.map(|max| (resource, max))
    };
    let max_allowed = [ResourceName::Cpu, ResourceName::Memory].map(max);
    Config {
        margin_fraction: float("recommendation_margin_fraction"),
        pod_min_cpu_millicores: float("pod_min_cpu_millicores"),
        pod_min_memory_mib: float("pod_min_memory_mb"),
        cpu_percentiles: percentiles("cpu"),
        memory_percentiles: percentiles("memory"),
        cpu_confidence_interval_ns: whole("confidence_interval_cpu_ns"),
        memory_confidence_interval_ns: whole("confidence_interval_memory_ns"),
        cpu_half_life_ns: whole("cpu_half_life_ns"),
        memory_half_life_ns: whole("memory_half_life_ns"),
        memory: MemoryRules {
            interval_ns: whole("memory_aggregation_interval_ns"),
            interval_count: whole("memory_aggregation_interval_count"),
            oom_bump_up_ratio: float("oom_bump_up_ratio"),
            oom_min_bump_up_bytes: float("oom_min_bump_up_bytes"),
        },
        per_vpa_rules: is("gate_per_vpa_config"),
        humanize_memory: is("humanize_memory"),
        round_cpu_millicores: whole("round_cpu_millicores"),
        round_memory_bytes: whole("round_memory_bytes"),
        integer_cpu: is("cpu_integer_post_processor"),
        without_usage: WithoutUsage::Minimum,
        max_allowed: max_allowed.into_iter().flatten().collect(),
    }
}

/// JSON encodes numeric keys as strings, which only its own parser converts back.
fn with_numeric_keys<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<T, D::Error> {
    serde_json::from_value(Value::deserialize(from)?).map_err(D::Error::custom)
}
