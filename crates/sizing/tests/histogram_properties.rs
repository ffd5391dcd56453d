//! Properties of all decaying histograms.

use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use sizing::{Buckets, DecayingHistogram, EPSILON, HalfLife, HistogramCheckpoint, HistogramConfig};

const DAY: i64 = 86_400;

fn shape() -> HistogramConfig {
    HistogramConfig {
        buckets: Buckets::cpu(),
        half_life: HalfLife::from_nanoseconds(DAY * 1_000_000_000).unwrap(),
    }
}

/// CPU samples (cores, seconds) of a few days, with the recommender's weight.
fn histogram() -> impl Strategy<Value = DecayingHistogram> {
    vec((0.0..1500.0_f64, 0..5 * DAY), 0..60).prop_map(|samples| {
        let start: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let mut histogram = DecayingHistogram::default();
        for (cores, second) in samples {
            let at = start + SignedDuration::from_secs(second);
            histogram.add(&shape(), cores, 0.1, at);
        }
        histogram
    })
}

fn merged(histograms: &[&DecayingHistogram]) -> DecayingHistogram {
    let mut merged = DecayingHistogram::default();
    for histogram in histograms {
        merged.merge(&shape(), histogram);
    }
    merged
}

fn weight(histogram: &DecayingHistogram, bucket: usize) -> f64 {
    let found = histogram.weights().find(|(other, _)| *other == bucket);
    found.map_or(0.0, |(_, weight)| weight)
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn check_equal(a: &DecayingHistogram, b: &DecayingHistogram) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.reference(), b.reference());
    let (a_total, b_total) = (a.total(), b.total());
    prop_assert!(is_close(a_total, b_total), "{} {}", a_total, b_total);
    for bucket in 0..Buckets::COUNT {
        let is_close = is_close(weight(a, bucket), weight(b, bucket));
        prop_assert!(is_close, "bucket {}", bucket);
    }
    Ok(())
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        Just(Timestamp::MIN),
        Just(Timestamp::MAX),
        Just(Timestamp::UNIX_EPOCH),
        (-62_135_596_800..253_402_207_200_i64)
            .prop_map(|second| Timestamp::from_second(second).unwrap()),
    ]
}

fn any_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(-0.0),
        -1.0..10.0_f64,
    ]
}

proptest! {
    #[test]
    fn merging_is_commutative(a in histogram(), b in histogram()) {
        check_equal(&merged(&[&a, &b]), &merged(&[&b, &a]))?;
    }

    #[test]
    fn merging_is_associative(a in histogram(), b in histogram(), c in histogram()) {
        let left = merged(&[&merged(&[&a, &b]), &c]);
        let right = merged(&[&a, &merged(&[&b, &c])]);
        check_equal(&left, &right)?;
    }

    #[test]
    fn merging_nothing_changes_nothing(a in histogram()) {
        check_equal(&merged(&[&a, &DecayingHistogram::default()]), &a)?;
        check_equal(&merged(&[&DecayingHistogram::default(), &a]), &a)?;
    }

    #[test]
    fn percentiles_do_not_fall(a in histogram(), mut fractions in vec(0.0..=1.0_f64, 2..20)) {
        fractions.sort_by(f64::total_cmp);
        let percentiles: Vec<f64> = fractions.iter().map(|fraction| a.percentile(&shape(), *fraction)).collect();
        prop_assert!(percentiles.is_sorted(), "{:?}", percentiles);
    }

    #[test]
    fn every_percentile_is_the_end_of_a_bucket_with_weight(a in histogram(), fraction in 0.0..=1.0_f64) {
        let percentile = a.percentile(&shape(), fraction);
        let ends: Vec<f64> = a.weights().map(|(bucket, _)| Buckets::cpu().end(bucket)).collect();
        let expected = if ends.is_empty() { percentile == 0.0 } else { ends.contains(&percentile) };
        prop_assert!(expected, "{} {:?}", percentile, ends);
    }

    #[test]
    fn taking_back_a_sample_leaves_the_rest(a in histogram(), cores in 0.0..1500.0_f64, second in 0..5 * DAY) {
        let at = "2026-03-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second);
        let mut changed = a.clone();
        changed.add(&shape(), cores, 0.1, at);
        changed.subtract(&shape(), cores, 0.1, at);
        for (bucket, expected) in a.weights() {
            prop_assert!(is_close(weight(&changed, bucket), expected), "bucket {}", bucket);
        }
    }

    #[test]
    fn storing_loses_no_more_than_the_rounding_to_ten_thousandths(a in histogram()) {
        let stored = a.save();
        let mut loaded = DecayingHistogram::default();
        loaded.load(&stored).unwrap();
        prop_assert_eq!(loaded.reference(), a.reference());
        prop_assert!(is_close(loaded.total(), a.total()));
        let count = a.weights().count() as f64;
        let heaviest = a.weights().map(|(_, weight)| weight).fold(0.0, f64::max);
        let loss = heaviest * 1e-4 * (count + 1.0) + EPSILON;
        for (bucket, expected) in a.weights() {
            prop_assert!((weight(&loaded, bucket) - expected).abs() <= loss, "bucket {}", bucket);
        }
        for (bucket, expected) in stored.bucket_weights {
            let again = loaded.save().bucket_weights.get(&bucket).copied().unwrap_or(0);
            prop_assert!(again.abs_diff(expected) <= 1, "bucket {}", bucket);
        }
    }

    #[test]
    fn no_input_panics_or_leaves_weights_that_are_not_numbers(
        steps in vec((any_double(), any_double(), any_time(), any::<bool>()), 0..40),
        half_life in prop_oneof![1..=10_i64, 1..=i64::MAX, Just(i64::MAX)],
        stored in vec((-3..200_i64, any::<u32>()), 0..5),
        stored_total in any_double(),
        reference in any_time(),
        other in histogram(),
    ) {
        let half_life = HalfLife::from_nanoseconds(half_life).unwrap();
        let shape = HistogramConfig { half_life, ..shape() };
        let mut histogram = DecayingHistogram::default();
        let stored = HistogramCheckpoint {
            reference_timestamp: Some(reference),
            bucket_weights: stored.into_iter().collect(),
            total_weight: stored_total,
        };
        let _ = histogram.load(&stored);
        for (value, weight, at, add) in steps {
            if add {
                histogram.add(&shape, value, weight, at);
            } else {
                histogram.subtract(&shape, value, weight, at);
            }
        }
        histogram.merge(&shape, &other);
        prop_assert!(histogram.total().is_finite() && histogram.total() >= 0.0);
        prop_assert!(histogram.weights().all(|(_, weight)| weight.is_finite() && weight >= 0.0));
        for fraction in [0.0, 0.5, 1.0, f64::NAN, f64::INFINITY] {
            prop_assert!(histogram.percentile(&shape, fraction).is_finite());
        }
    }
}

#[test]
fn a_half_life_is_above_zero() {
    assert_eq!(HalfLife::from_nanoseconds(0), None);
    assert_eq!(HalfLife::from_nanoseconds(-1), None);
}
