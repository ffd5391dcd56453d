//! Checkpoint of a container's history in the form of `VerticalPodAutoscalerCheckpoint.status`
//! (format v3).
//!
//! Times are written in whole seconds, null for never. Source: upstream
//! `pkg/apis/autoscaling.k8s.io/v1` and `aggregate_container_state.go` (`SaveToCheckpoint`,
//! `LoadFromCheckpoint`).

use std::collections::BTreeMap;

use jiff::{Timestamp, TimestampRound, Unit};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The only supported format.
pub const CHECKPOINT_VERSION: &str = "v3";

/// Checkpoint of one container of one VPA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    #[serde(default, serialize_with = "whole_seconds")]
    pub last_update_time: Option<Timestamp>,
    /// Format, [`CHECKPOINT_VERSION`].
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub cpu_histogram: HistogramCheckpoint,
    #[serde(default)]
    pub memory_histogram: HistogramCheckpoint,
    /// Time of the first CPU sample.
    #[serde(default, serialize_with = "whole_seconds")]
    pub first_sample_start: Option<Timestamp>,
    /// Time of the last CPU sample.
    #[serde(default, serialize_with = "whole_seconds")]
    pub last_sample_start: Option<Timestamp>,
    /// Number of CPU samples.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_samples_count: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistogramCheckpoint {
    #[serde(default, serialize_with = "whole_seconds")]
    pub reference_timestamp: Option<Timestamp>,
    /// Weights relative to the largest one, which is 10000.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "by_number"
    )]
    pub bucket_weights: BTreeMap<i64, u32>,
    /// Sum of the weights before scaling.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_weight: f64,
}

#[derive(Clone, Debug, PartialEq, Error)]
pub enum CheckpointError {
    #[error("unsupported checkpoint version {0:?}")]
    Version(String),
    #[error("totalWeight {0} is out of range")]
    TotalWeight(f64),
    #[error("bucketWeights has no bucket {0}")]
    Bucket(i64),
    #[error("totalSamplesCount {0} is negative")]
    SamplesCount(i64),
    #[error("{field} {time} is too far in the future")]
    Future {
        field: &'static str,
        time: Timestamp,
    },
    #[error("no VPA object of this name")]
    UnknownVpa,
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// JSON encodes numeric keys as strings, and only some parsers convert them back.
fn by_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<i64, u32>, D::Error> {
    let by_text = BTreeMap::<String, u32>::deserialize(deserializer)?;
    let number = |(key, weight): (String, u32)| key.parse().map(|bucket| (bucket, weight));
    by_text
        .into_iter()
        .map(number)
        .collect::<Result<_, _>>()
        .map_err(D::Error::custom)
}

#[expect(clippy::ref_option, reason = "serde hands over the field by reference")]
fn whole_seconds<S: Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let down = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(jiff::RoundMode::Floor);
    time.and_then(|time| time.round(down).ok())
        .serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_checkpoint_keeps_its_null_times_and_drops_zeros() {
        let version = "v3".to_owned();
        let checkpoint = Checkpoint {
            version,
            ..Checkpoint::default()
        };
        let json = serde_json::to_string(&checkpoint).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"lastUpdateTime":null,"version":"v3","cpuHistogram":{"referenceTimestamp":null},"#,
                r#""memoryHistogram":{"referenceTimestamp":null},"firstSampleStart":null,"lastSampleStart":null}"#
            )
        );
    }

    #[test]
    fn times_are_written_in_whole_seconds_and_buckets_as_text() {
        let stored = HistogramCheckpoint {
            reference_timestamp: Some("2026-01-02T03:04:05.999Z".parse().unwrap()),
            bucket_weights: [(8, 10_000)].into(),
            total_weight: 1.5,
        };
        let json = serde_json::to_string(&stored).unwrap();
        assert_eq!(
            json,
            r#"{"referenceTimestamp":"2026-01-02T03:04:05Z","bucketWeights":{"8":10000},"totalWeight":1.5}"#
        );
        let read: HistogramCheckpoint = serde_json::from_str(&json).unwrap();
        assert_eq!(read.bucket_weights, stored.bucket_weights);
    }
}
