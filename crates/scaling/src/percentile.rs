//! Percentile of a list of values: the value at rank `share * count`, or the mean of the two
//! neighbours.
//!
//! Source: montanaflynn/stats 0.6.6 `percentile.go` (`Percentile`), which Crane uses. A share
//! before the first rank of a list of several values has no percentile there, and none here.

const EMPTY: &str = "there are no values";
/// Too few values for the share, or a share outside 0 (exclusive) to 1.
const OUT_OF_BOUNDS: &str = "the list is too short for this percentile";

/// The percentile at a share above 0 and at most 1.
pub fn percentile(values: &[f64], share: f64) -> Result<f64, &'static str> {
    match values {
        [] => return Err(EMPTY),
        [only] => return Ok(*only),
        _ => {}
    }
    if !(share > 0.0 && share <= 1.0) {
        return Err(OUT_OF_BOUNDS);
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Through percent and back, as in the source: the last bit decides whether a rank is whole.
    let rank = share * 100.0 / 100.0 * sorted.len() as f64;
    let below = rank as usize;
    if below == 0 {
        return Err(OUT_OF_BOUNDS);
    }
    let is_whole = rank.fract() == 0.0;
    match (sorted.get(below - 1), sorted.get(below)) {
        (Some(value), Some(next)) if !is_whole => Ok(f64::midpoint(*value, *next)),
        (Some(value), _) => Ok(*value),
        (None, _) => Err(OUT_OF_BOUNDS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], share: f64, expected: Result<f64, &'static str>) {
        assert_eq!(percentile(values, share), expected, "{values:?} at {share}");
    }

    #[test]
    fn a_whole_rank_is_one_value_and_any_other_the_mean_of_two() {
        check(&[3.0, 1.0, 2.0, 4.0], 0.5, Ok(2.0));
        check(&[3.0, 1.0, 2.0, 4.0], 0.6, Ok(2.5));
        check(&[3.0, 1.0, 2.0, 4.0], 1.0, Ok(4.0));
        check(&[7.0], 0.1, Ok(7.0));
    }

    #[test]
    fn a_share_before_the_first_rank_has_no_percentile() {
        check(&[], 0.5, Err(EMPTY));
        check(&[1.0, 2.0], 0.1, Err(OUT_OF_BOUNDS));
        check(&[1.0, 2.0], 0.0, Err(OUT_OF_BOUNDS));
        check(&[1.0, 2.0], 1.1, Err(OUT_OF_BOUNDS));
        check(&[1.0, 2.0], f64::NAN, Err(OUT_OF_BOUNDS));
    }
}
