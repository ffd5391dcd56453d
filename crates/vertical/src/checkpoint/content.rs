//! Content of a checkpoint object, as a new object, as a patch and as a history. Objects have times in
//! whole seconds. Source: upstream `aggregate_container_state.go` (`SaveToCheckpoint`,
//! `LoadFromCheckpoint`).

use std::collections::BTreeMap;

use api::checkpoint::{
    HistogramCheckpoint, SIZING_HISTORY, VERSION, VerticalPodAutoscalerCheckpoint,
    VerticalPodAutoscalerCheckpointSpec, VerticalPodAutoscalerCheckpointStatus, status_patch,
};
use api::patch::put_status;
use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, TestOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sizing::{CheckpointError, ContainerHistory, DecayingHistogram};

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

pub fn to_object(
    history: &ContainerHistory,
    now: Timestamp,
) -> VerticalPodAutoscalerCheckpointStatus {
    VerticalPodAutoscalerCheckpointStatus {
        last_update_time: whole_seconds(Some(now)),
        version: VERSION.to_owned(),
        cpu_histogram: write_histogram(&history.cpu),
        memory_histogram: write_histogram(&history.memory),
        first_sample_start: whole_seconds(history.first_sample.into()),
        last_sample_start: whole_seconds(history.last_sample.into()),
        total_samples_count: history.samples(),
    }
}

pub fn from_object(
    status: &VerticalPodAutoscalerCheckpointStatus,
) -> Result<ContainerHistory, CheckpointError> {
    if status.version != VERSION {
        return Err(CheckpointError::Version(status.version.clone()));
    }
    let samples = status.total_samples_count;
    if samples < 0 {
        return Err(CheckpointError::SamplesCount(samples));
    }
    let [first, last] = [&status.first_sample_start, &status.last_sample_start]
        .map(|field| time(field.as_ref()).into());
    let mut history = ContainerHistory::new(first, last, samples);
    history
        .memory
        .load(&read_histogram(&status.memory_histogram))?;
    history.cpu.load(&read_histogram(&status.cpu_histogram))?;
    Ok(history)
}

/// Its buckets are never negative, so all fit.
fn write_histogram(histogram: &DecayingHistogram) -> HistogramCheckpoint {
    let saved = histogram.save();
    let weights = saved.bucket_weights.into_iter();
    HistogramCheckpoint {
        reference_timestamp: whole_seconds(saved.reference_timestamp),
        bucket_weights: weights
            .filter_map(|(bucket, weight)| Some((u32::try_from(bucket).ok()?, weight)))
            .collect(),
        total_weight: saved.total_weight,
    }
}

fn read_histogram(histogram: &HistogramCheckpoint) -> sizing::HistogramCheckpoint {
    let weights = histogram.bucket_weights.iter();
    sizing::HistogramCheckpoint {
        reference_timestamp: time(histogram.reference_timestamp.as_ref()),
        bucket_weights: weights
            .map(|(bucket, weight)| (i64::from(*bucket), *weight))
            .collect(),
        total_weight: histogram.total_weight,
    }
}

pub(crate) fn time(field: Option<&Time>) -> Option<Timestamp> {
    field.map(|time| time.0)
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
        let now: Timestamp = "2026-01-01T13:34:00.5Z".parse().expect("a time");
        let stored = serde_json::from_str(WHOLE).expect("a status");
        let history = from_object(&stored).expect("a history");
        let written = |history| serde_json::to_string(&to_object(history, now)).expect("JSON");
        assert_eq!(written(&history), WHOLE);
        let [first, last] = ["2026-01-01T00:00:00.999Z", "1969-12-31T23:59:58.5Z"]
            .map(|time| time.parse::<Timestamp>().expect("a time").into());
        assert_eq!(
            written(&ContainerHistory::new(first, last, 0)),
            concat!(
                r#"{"lastUpdateTime":"2026-01-01T13:34:00Z","version":"v3","cpuHistogram":{"referenceTimestamp":null},"#,
                r#""memoryHistogram":{"referenceTimestamp":null},"firstSampleStart":"2026-01-01T00:00:00Z","#,
                r#""lastSampleStart":"1969-12-31T23:59:58Z"}"#
            ),
        );
    }
}
