//! Content of a checkpoint object, as a new object, as a patch and in the form of `sizing`. Objects have
//! times in whole seconds.

use std::collections::BTreeMap;

use api::checkpoint::{
    HistogramCheckpoint, SIZING_HISTORY, VerticalPodAutoscalerCheckpoint,
    VerticalPodAutoscalerCheckpointSpec, VerticalPodAutoscalerCheckpointStatus, status_patch,
};
use api::patch::put_status;
use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, TestOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sizing::Checkpoint;

#[derive(Clone, Debug, Default)]
pub struct CheckpointContent {
    /// The VPA object and the container.
    pub spec: VerticalPodAutoscalerCheckpointSpec,
    /// The histograms.
    pub status: VerticalPodAutoscalerCheckpointStatus,
    /// History of the sizing method, as text.
    pub history: Option<String>,
    /// Operations that bring that history into the existing object.
    pub operations: Vec<PatchOperation>,
}

impl CheckpointContent {
    pub fn object(&self, name: &str) -> VerticalPodAutoscalerCheckpoint {
        let mut object = VerticalPodAutoscalerCheckpoint::new(name, self.spec.clone());
        object.status = Some(self.status.clone());
        let annotation =
            |text: &String| BTreeMap::from([(SIZING_HISTORY.to_owned(), text.clone())]);
        object.metadata.annotations = self.history.as_ref().map(annotation);
        object
    }

    /// The patch of the existing object; `has_status`: whether it has a status. The patch fails if
    /// the object belongs to another container: `a-b` and `c` make the same name as `a` and `b-c`.
    pub fn patch(&self, has_status: bool) -> Result<Patch, serde_json::Error> {
        let status = if has_status {
            status_patch(&self.status)?
        } else {
            put_status(&self.status)?
        };
        let tests = [
            ("vpaObjectName", &self.spec.vpa_object_name),
            ("containerName", &self.spec.container_name),
        ]
        .map(|(field, value)| {
            PatchOperation::Test(TestOperation {
                path: PointerBuf::from_tokens(["spec", field]),
                value: value.as_str().into(),
            })
        });
        let operations = status.0.into_iter().chain(self.operations.iter().cloned());
        Ok(Patch(tests.into_iter().chain(operations).collect()))
    }
}

/// Converts the status of an object.
pub fn from_object(status: &VerticalPodAutoscalerCheckpointStatus) -> Checkpoint {
    Checkpoint {
        last_update_time: timestamp(status.last_update_time.as_ref()),
        version: status.version.clone(),
        cpu_histogram: read_histogram(&status.cpu_histogram),
        memory_histogram: read_histogram(&status.memory_histogram),
        first_sample_start: timestamp(status.first_sample_start.as_ref()),
        last_sample_start: timestamp(status.last_sample_start.as_ref()),
        total_samples_count: status.total_samples_count,
    }
}

/// Converts to the status of an object.
pub fn to_object(stored: Checkpoint) -> VerticalPodAutoscalerCheckpointStatus {
    VerticalPodAutoscalerCheckpointStatus {
        last_update_time: whole_seconds(stored.last_update_time),
        version: stored.version,
        cpu_histogram: write_histogram(stored.cpu_histogram),
        memory_histogram: write_histogram(stored.memory_histogram),
        first_sample_start: whole_seconds(stored.first_sample_start),
        last_sample_start: whole_seconds(stored.last_sample_start),
        total_samples_count: stored.total_samples_count,
    }
}

fn read_histogram(histogram: &HistogramCheckpoint) -> sizing::HistogramCheckpoint {
    sizing::HistogramCheckpoint {
        reference_timestamp: timestamp(histogram.reference_timestamp.as_ref()),
        bucket_weights: histogram
            .bucket_weights
            .iter()
            .map(|(bucket, weight)| (i64::from(*bucket), *weight))
            .collect(),
        total_weight: histogram.total_weight,
    }
}

/// Converts a histogram. Its buckets are never negative, so all fit.
fn write_histogram(histogram: sizing::HistogramCheckpoint) -> HistogramCheckpoint {
    let weights = histogram.bucket_weights.into_iter();
    HistogramCheckpoint {
        reference_timestamp: whole_seconds(histogram.reference_timestamp),
        bucket_weights: weights
            .filter_map(|(bucket, weight)| Some((u32::try_from(bucket).ok()?, weight)))
            .collect(),
        total_weight: histogram.total_weight,
    }
}

fn timestamp(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

fn whole_seconds(time: Option<Timestamp>) -> Option<Time> {
    // Towards the past, also before 1970.
    let second = |time: Timestamp| time.as_nanosecond().div_euclid(1_000_000_000);
    time.and_then(|time| Timestamp::from_second(i64::try_from(second(time)).ok()?).ok())
        .map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: &str, expected: &str) {
        let stored: Checkpoint = serde_json::from_str(stored).expect("a checkpoint");
        let status = serde_json::to_string(&to_object(stored));
        assert_eq!(status.expect("a status"), expected);
    }

    const WHOLE: &str = concat!(
        r#"{"lastUpdateTime":"2026-01-01T13:34:00Z","version":"v3","#,
        r#""cpuHistogram":{"referenceTimestamp":"2026-01-02T00:00:00Z","#,
        r#""bucketWeights":{"8":9957,"14":9962,"36":10000},"totalWeight":149.35517306804982},"#,
        r#""memoryHistogram":{"referenceTimestamp":"2026-01-03T00:00:00Z","bucketWeights":{"21":10000},"#,
        r#""totalWeight":0.7190974800994945},"#,
        r#""firstSampleStart":"2026-01-01T12:34:56Z","lastSampleStart":"2026-01-02T12:33:56Z","#,
        r#""totalSamplesCount":1440}"#
    );

    #[test]
    fn a_checkpoint_is_written_as_upstream_writes_it() {
        check(WHOLE, WHOLE);
        check(
            r#"{"version":"v3","firstSampleStart":"2026-01-01T00:00:00.999Z","lastSampleStart":"1969-12-31T23:59:58.5Z"}"#,
            concat!(
                r#"{"lastUpdateTime":null,"version":"v3","cpuHistogram":{"referenceTimestamp":null},"#,
                r#""memoryHistogram":{"referenceTimestamp":null},"firstSampleStart":"2026-01-01T00:00:00Z","#,
                r#""lastSampleStart":"1969-12-31T23:59:58Z"}"#
            ),
        );
    }

    #[test]
    fn what_was_written_reads_back_the_same() {
        let status: VerticalPodAutoscalerCheckpointStatus =
            serde_json::from_str(WHOLE).expect("a status");
        assert_eq!(to_object(from_object(&status)), status);
    }
}
