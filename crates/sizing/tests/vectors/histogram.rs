//! Decaying histograms, step by step: every weight and percentile to the last bit.

use std::collections::BTreeMap;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use serde::Deserialize;
use sizing::{Buckets, DecayingHistogram, HalfLife, HistogramCheckpoint, HistogramConfig};
use testing::vectors::{Double, each_case};

#[derive(Deserialize)]
struct Case {
    half_life_ns: i64,
    ops: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    #[serde(flatten)]
    op: Op,
    after: State,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Add {
        hist: Name,
        value: Double,
        weight: Double,
        time: Timestamp,
    },
    Subtract {
        hist: Name,
        value: Double,
        weight: Double,
        time: Timestamp,
    },
    Merge {
        hist: Name,
        other: Name,
        other_after: State,
    },
    SaveAndLoadFresh {
        from: Name,
        hist: Name,
    },
    Load {
        hist: Name,
        checkpoint: Stored,
        error: bool,
    },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    A,
    B,
}

#[derive(Debug, Deserialize)]
struct State {
    empty: bool,
    percentiles: [Double; 6],
    checkpoint: Stored,
}

/// A [`HistogramCheckpoint`] as upstream writes it. JSON has numeric keys as text.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(default)]
    reference_timestamp: Option<Timestamp>,
    #[serde(default)]
    bucket_weights: BTreeMap<String, u32>,
    #[serde(default)]
    total_weight: f64,
}

impl Stored {
    fn checkpoint(&self) -> HistogramCheckpoint {
        let weights = self.bucket_weights.iter();
        HistogramCheckpoint {
            reference_timestamp: self.reference_timestamp,
            bucket_weights: weights
                .map(|(bucket, weight)| (bucket.parse().expect("a bucket"), *weight))
                .collect(),
            total_weight: self.total_weight,
        }
    }
}

fn check_state(
    shape: &HistogramConfig,
    histogram: &DecayingHistogram,
    expected: &State,
    step: &str,
) {
    assert_eq!(histogram.is_empty(), expected.empty, "{step}: empty");
    let fractions = [0.0, 0.1, 0.5, 0.9, 0.95, 1.0];
    for (fraction, Double(expected)) in fractions.into_iter().zip(&expected.percentiles) {
        let ours = histogram.percentile(shape, fraction);
        let message = format!("{step}: percentile {fraction} is {ours}, not {expected}");
        assert_eq!(ours.to_bits(), expected.to_bits(), "{message}");
    }
    assert_eq!(
        histogram.save(),
        expected.checkpoint.checkpoint(),
        "{step}: checkpoint"
    );
}

fn to_whole_seconds(checkpoint: &mut HistogramCheckpoint) {
    let down = TimestampRound::new().smallest(Unit::Second);
    let down = down.mode(RoundMode::Floor);
    let reference = checkpoint.reference_timestamp;
    checkpoint.reference_timestamp = reference.map(|time| time.round(down).unwrap());
}

fn check(buckets: &'static Buckets, case: &Case, name: &str) {
    let shape = HistogramConfig {
        buckets,
        half_life: HalfLife::from_nanoseconds(case.half_life_ns).unwrap(),
    };
    let mut histograms = [DecayingHistogram::default(), DecayingHistogram::default()];
    for (index, Step { op, after }) in case.ops.iter().enumerate() {
        let step = format!("{name} step {index}");
        let changed = match op {
            Op::Add {
                hist,
                value,
                weight,
                time,
            } => {
                histograms[*hist as usize].add(&shape, value.0, weight.0, *time);
                hist
            }
            Op::Subtract {
                hist,
                value,
                weight,
                time,
            } => {
                histograms[*hist as usize].subtract(&shape, value.0, weight.0, *time);
                hist
            }
            Op::Merge {
                hist,
                other,
                other_after,
            } => {
                let reference = histograms[*hist as usize].reference();
                let absorbed = histograms[*other as usize].clone();
                histograms[*hist as usize].merge(&shape, &absorbed);
                // Upstream also rescales the merged histogram; here merging does not change it, and
                // later steps start from upstream's.
                let other = &mut histograms[*other as usize];
                if let Some(reference) = reference
                    && absorbed.reference() < Some(reference)
                {
                    other.shift_reference(shape.half_life, reference);
                }
                check_state(&shape, other, other_after, &format!("{step}, other"));
                hist
            }
            Op::SaveAndLoadFresh { from, hist } => {
                let mut saved = histograms[*from as usize].save();
                to_whole_seconds(&mut saved);
                let mut fresh = DecayingHistogram::default();
                fresh.load(&saved).unwrap();
                histograms[*hist as usize] = fresh;
                hist
            }
            Op::Load {
                hist,
                checkpoint,
                error,
            } => {
                let loaded = histograms[*hist as usize].load(&checkpoint.checkpoint());
                assert_eq!(loaded.is_err(), *error, "{step}: error");
                hist
            }
        };
        check_state(&shape, &histograms[*changed as usize], after, &step);
    }
}

fn check_all(buckets: &'static Buckets, kind: &str) {
    each_case(kind, |index, case: Case| {
        assert!(!case.ops.is_empty());
        check(buckets, &case, &format!("{kind} case {index}"));
    });
}

#[test]
fn vectors_histogram_cpu() {
    check_all(Buckets::cpu(), "vpa/histogram_cpu");
}

#[test]
fn vectors_histogram_memory() {
    check_all(Buckets::memory(), "vpa/histogram_memory");
}
