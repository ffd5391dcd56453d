//! Comparison of a run with the recorded results.

use std::collections::BTreeMap;

use api::checkpoint::HistogramCheckpoint;
use jiff::Timestamp;
use sizing::{ContainerHistory, Estimate};

use crate::checkpoint::content::{time, to_object};

use super::Run;
use super::case::{Aggregate, Bounds, Expected};

impl Run {
    pub(super) fn check(&self, now: Timestamp, expected: &Expected) {
        let recommendation = self.cluster.recommend(&self.id).unwrap();
        assert_eq!(
            serde_json::to_value(&recommendation).unwrap(),
            expected.recommendation
        );
        assert_eq!(self.cluster.pod_count(&self.id), Some(expected.pod_count));
        self.check_amounts(&expected.amounts);
        self.check_histories(&expected.aggregates);
        let mut histories = self.cluster.histories(&self.id).unwrap();
        let saved = |histories: &BTreeMap<String, ContainerHistory>| {
            let saved = histories
                .iter()
                .map(|(name, history)| (name.clone(), to_object(history, now)));
            saved.collect::<BTreeMap<_, _>>()
        };
        let checkpoints = self.cluster.checkpoints(&self.id, now);
        assert_eq!(checkpoints, Some(saved(&histories)));
        let is_selected = |pod: &str| self.cluster.vpas_of("default", pod).next().is_some();
        let shapes = self.cluster.shapes();
        self.open_windows
            .subtract(&mut histories, shapes, is_selected, now);
        assert!(histories.keys().eq(expected.checkpoints.keys()));
        for ((name, history), theirs) in histories.iter().zip(expected.checkpoints.values()) {
            // Recorded times have fractions of a second, which objects have not.
            let times: [Option<Timestamp>; 2] =
                [history.first_sample, history.last_sample].map(Into::into);
            let stored = [&theirs.first_sample_start, &theirs.last_sample_start];
            assert_eq!(times, stored.map(|field| time(field.as_ref())), "{name}");
            let references = [history.cpu.reference(), history.memory.reference()];
            let histograms = [&theirs.cpu_histogram, &theirs.memory_histogram];
            let stored = histograms.map(|it| time(it.reference_timestamp.as_ref()));
            assert!(!self.exact || references == stored, "references of {name}");
            let mut ours = to_object(history, now);
            ours.last_update_time = None;
            ours.first_sample_start
                .clone_from(&theirs.first_sample_start);
            ours.last_sample_start.clone_from(&theirs.last_sample_start);
            if self.exact {
                let [cpu, memory] = histograms.map(|it| it.reference_timestamp.clone());
                ours.cpu_histogram.reference_timestamp = cpu;
                ours.memory_histogram.reference_timestamp = memory;
            }
            if self.exact {
                assert_eq!(ours, *theirs, "checkpoint of {name}");
            } else {
                check_nearly(
                    &ours.cpu_histogram,
                    &theirs.cpu_histogram,
                    self.cluster.config().cpu_half_life_ns,
                );
                check_nearly(
                    &ours.memory_histogram,
                    &theirs.memory_histogram,
                    self.cluster.config().memory_half_life_ns,
                );
                assert_eq!(
                    ours.total_samples_count, theirs.total_samples_count,
                    "samples of {name}"
                );
            }
        }
    }

    fn check_amounts(&self, expected: &BTreeMap<String, Bounds>) {
        let estimates = self.cluster.estimates(&self.id).unwrap();
        assert_eq!(
            estimates.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        for ((name, estimate), bounds) in estimates.iter().zip(expected.values()) {
            let Estimate {
                target,
                lower_bound,
                upper_bound,
            } = estimate;
            for (ours, theirs) in [
                (target, &bounds.target),
                (lower_bound, &bounds.lower_bound),
                (upper_bound, &bounds.upper_bound),
            ] {
                // Resources that are not controlled are absent in the recording.
                let ours = (
                    theirs.cpu.and(Some(ours.cpu.millicores())),
                    theirs.memory.and(Some(ours.memory.bytes())),
                );
                assert_eq!(ours, (theirs.cpu, theirs.memory), "amounts of {name}");
            }
        }
    }

    fn check_histories(&self, expected: &BTreeMap<String, Aggregate>) {
        let histories = self.cluster.histories(&self.id).unwrap();
        assert_eq!(
            histories.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        let shapes = self.cluster.shapes();
        for ((name, history), aggregate) in histories.iter().zip(expected.values()) {
            assert_eq!(history.samples(), aggregate.samples, "samples of {name}");
            if !self.exact {
                continue;
            }
            for (index, fraction) in [0.0, 0.1, 0.5, 0.9, 0.95, 1.0].into_iter().enumerate() {
                let ours = (
                    history.cpu.percentile(&shapes.cpu, fraction),
                    history.memory.percentile(&shapes.memory, fraction),
                );
                let theirs = (
                    aggregate.cpu_percentiles[index].0,
                    aggregate.memory_percentiles[index].0,
                );
                assert_eq!(
                    ours.0.to_bits(),
                    theirs.0.to_bits(),
                    "CPU percentile {fraction} of {name}: {ours:?} {theirs:?}"
                );
                assert_eq!(
                    ours.1.to_bits(),
                    theirs.1.to_bits(),
                    "memory percentile {fraction} of {name}: {ours:?} {theirs:?}"
                );
            }
        }
    }
}

/// Tolerance for results that depend on the order of a map upstream: bucket weights within 1, totals within 1e-6 at the
/// same reference.
fn check_nearly(ours: &HistogramCheckpoint, theirs: &HistogramCheckpoint, half_life_ns: i64) {
    for bucket in ours
        .bucket_weights
        .keys()
        .chain(theirs.bucket_weights.keys())
    {
        let weight = |checkpoint: &HistogramCheckpoint| {
            checkpoint.bucket_weights.get(bucket).copied().unwrap_or(0)
        };
        assert!(
            weight(ours).abs_diff(weight(theirs)) <= 1,
            "bucket {bucket}: {ours:?} {theirs:?}"
        );
    }
    let (Some(our_reference), Some(their_reference)) = (
        time(ours.reference_timestamp.as_ref()),
        time(theirs.reference_timestamp.as_ref()),
    ) else {
        assert_eq!(ours.reference_timestamp, theirs.reference_timestamp);
        return;
    };
    let half_lives =
        our_reference.duration_since(their_reference).as_secs_f64() * 1e9 / half_life_ns as f64;
    let total = ours.total_weight * half_lives.exp2();
    assert!(
        (total - theirs.total_weight).abs() <= 1e-6 * theirs.total_weight.abs(),
        "{ours:?} {theirs:?}"
    );
}
