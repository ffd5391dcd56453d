//! Share of a quantile's error that may be chance. Errors within a day are correlated, and a scored
//! part has four or five days.

/// Largest accepted difference between the observed and the requested coverage.
pub(crate) const NEAR: f64 = 0.02;
pub(crate) const SHARES: [f64; 3] = [0.90, 0.95, 0.99];
const DRAWS: usize = 1000;
/// Days before the first one that counts for an exact quantile.
const EARLY_DAYS: usize = 5;

/// One slot: its forecast with p90, p95 and p99, and the actual value.
pub(crate) struct Outcome {
    pub(crate) slot: usize,
    pub(crate) actual: f64,
    pub(crate) said: [f64; 4],
}

/// Per quantile.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chance {
    /// Whether the requested share lies in the 95 % interval of coverage when the days of the
    /// scored part are resampled.
    pub(crate) explains: [bool; 3],
    /// Whether coverage is near in the scored part when the quantile's distance from the forecast
    /// is multiplied by the factor that makes it exact over the whole series. Needs the future, so
    /// it is a bound and not a method.
    pub(crate) exact_holds: [bool; 3],
}

impl Chance {
    pub(crate) fn of(outcomes: &[Outcome], scored_from: usize, per_day: usize) -> Self {
        let scored = &outcomes[outcomes.partition_point(|outcome| outcome.slot < scored_from)..];
        let late =
            &outcomes[outcomes.partition_point(|outcome| outcome.slot < EARLY_DAYS * per_day)..];
        Self {
            explains: std::array::from_fn(|which| {
                let (low, high) = interval(&days(scored, which, per_day));
                low <= SHARES[which] && SHARES[which] <= high
            }),
            exact_holds: std::array::from_fn(|which| {
                let exact = exact_factor(late, which);
                let covered = scored
                    .iter()
                    .filter(|outcome| factor(outcome, which) <= exact)
                    .count();
                (covered as f64 / scored.len() as f64 - SHARES[which]).abs() <= NEAR + 1e-9
            }),
        }
    }
}

fn days(scored: &[Outcome], which: usize, per_day: usize) -> Vec<(f64, f64)> {
    let first = scored.first().map_or(0, |outcome| outcome.slot);
    scored
        .chunk_by(|a, b| (a.slot - first) / per_day == (b.slot - first) / per_day)
        .map(|day| {
            let covered = day
                .iter()
                .filter(|outcome| outcome.actual <= outcome.said[which + 1])
                .count();
            (covered as f64, day.len() as f64)
        })
        .collect()
}

/// The 95 % interval of coverage over resampled days.
fn interval(days: &[(f64, f64)]) -> (f64, f64) {
    let mut seed = 7_u64;
    let mut shares: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = days.iter().map(|_| {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                days[(seed >> 33) as usize % days.len()]
            });
            let (covered, all) = drawn.fold((0.0, 0.0), |sum, day| (sum.0 + day.0, sum.1 + day.1));
            covered / all
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    (shares[DRAWS / 40], shares[DRAWS - 1 - DRAWS / 40])
}

/// Distance of the value from the forecast, as a multiple of the quantile's distance.
fn factor(outcome: &Outcome, which: usize) -> f64 {
    let [forecast, said] = [outcome.said[0], outcome.said[which + 1]];
    (outcome.actual - forecast)
        / (said - forecast)
            .max(1e-9 * forecast.abs())
            .max(f64::MIN_POSITIVE)
}

fn exact_factor(outcomes: &[Outcome], which: usize) -> f64 {
    let mut factors: Vec<f64> = outcomes
        .iter()
        .map(|outcome| factor(outcome, which))
        .collect();
    let rank = ((SHARES[which] * factors.len() as f64).ceil() as usize).saturating_sub(1);
    *factors.select_nth_unstable_by(rank, f64::total_cmp).1
}
