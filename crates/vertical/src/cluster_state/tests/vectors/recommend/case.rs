//! The recorded cases: flags, objects, operations and expected results.

use std::collections::BTreeMap;

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use jiff::Timestamp;
use model::{ResourceList, ResourceName};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sizing::{Config, MemoryRules, Percentiles, WithoutUsage};
use testing::vectors::Double;

#[derive(Deserialize)]
pub(super) struct Case {
    pub(super) config: Flags,
    pub(super) vpa: serde_json::Value,
    pub(super) selector: BTreeMap<String, String>,
    pub(super) exact: Option<bool>,
    pub(super) ops: Vec<Op>,
}

#[derive(Deserialize)]
pub(super) struct Flags {
    pub(super) recommendation_margin_fraction: f64,
    pub(super) pod_min_cpu_millicores: f64,
    pub(super) pod_min_memory_mb: f64,
    pub(super) target_cpu_percentile: f64,
    pub(super) lower_bound_cpu_percentile: f64,
    pub(super) upper_bound_cpu_percentile: f64,
    pub(super) target_memory_percentile: f64,
    pub(super) lower_bound_memory_percentile: f64,
    pub(super) upper_bound_memory_percentile: f64,
    pub(super) confidence_interval_cpu_ns: i64,
    pub(super) confidence_interval_memory_ns: i64,
    pub(super) humanize_memory: bool,
    pub(super) round_cpu_millicores: i64,
    pub(super) round_memory_bytes: i64,
    pub(super) memory_aggregation_interval_ns: i64,
    pub(super) memory_aggregation_interval_count: i64,
    pub(super) memory_half_life_ns: i64,
    pub(super) cpu_half_life_ns: i64,
    pub(super) oom_bump_up_ratio: f64,
    pub(super) oom_min_bump_up_bytes: f64,
    pub(super) cpu_integer_post_processor: bool,
    pub(super) gate_per_vpa_config: bool,
    pub(super) max_allowed_cpu: Option<model::Quantity>,
    pub(super) max_allowed_memory: Option<model::Quantity>,
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
    pub(super) recommendation: serde_json::Value,
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

impl From<Flags> for Config {
    fn from(flags: Flags) -> Self {
        let max_cpu = flags.max_allowed_cpu.map(|cpu| (ResourceName::Cpu, cpu));
        let max_memory = flags
            .max_allowed_memory
            .map(|memory| (ResourceName::Memory, memory));
        Self {
            margin_fraction: flags.recommendation_margin_fraction,
            pod_min_cpu_millicores: flags.pod_min_cpu_millicores,
            pod_min_memory_mib: flags.pod_min_memory_mb,
            cpu_percentiles: Percentiles {
                target: flags.target_cpu_percentile,
                lower_bound: flags.lower_bound_cpu_percentile,
                upper_bound: flags.upper_bound_cpu_percentile,
            },
            memory_percentiles: Percentiles {
                target: flags.target_memory_percentile,
                lower_bound: flags.lower_bound_memory_percentile,
                upper_bound: flags.upper_bound_memory_percentile,
            },
            cpu_confidence_interval_ns: flags.confidence_interval_cpu_ns,
            memory_confidence_interval_ns: flags.confidence_interval_memory_ns,
            cpu_half_life_ns: flags.cpu_half_life_ns,
            memory_half_life_ns: flags.memory_half_life_ns,
            memory: MemoryRules {
                interval_ns: flags.memory_aggregation_interval_ns,
                interval_count: flags.memory_aggregation_interval_count,
                oom_bump_up_ratio: flags.oom_bump_up_ratio,
                oom_min_bump_up_bytes: flags.oom_min_bump_up_bytes,
            },
            per_vpa_rules: flags.gate_per_vpa_config,
            humanize_memory: flags.humanize_memory,
            round_cpu_millicores: flags.round_cpu_millicores,
            round_memory_bytes: flags.round_memory_bytes,
            integer_cpu: flags.cpu_integer_post_processor,
            without_usage: WithoutUsage::Minimum,
            max_allowed: max_cpu
                .into_iter()
                .chain(max_memory)
                .collect::<ResourceList>(),
        }
    }
}

/// JSON encodes numeric keys as strings, which only its own parser converts back.
fn with_numeric_keys<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<T, D::Error> {
    serde_json::from_value(Value::deserialize(from)?).map_err(D::Error::custom)
}
