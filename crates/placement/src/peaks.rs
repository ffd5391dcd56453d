//! `Peaks`: the smallest rise of power.

/// Power of a node in watts at `x` percent CPU: `k0 + k1 * e^(k2 * x)`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerModel {
    /// Constant part, in watts.
    pub k0: f64,
    /// Factor, in watts; negative for a curve that flattens.
    pub k1: f64,
    /// Exponent per percent; negative for a curve that flattens.
    pub k2: f64,
}

impl PowerModel {
    /// Rise of power by a pod, in 1e-15 watts, saturated. `None` when it is not known or the pod
    /// does not fit: without utilization or capacity, above 100 %, or with parameters that are not
    /// finite.
    ///
    /// `pod` is the CPU request of the pod, `reserved` the load of pods that the utilization does
    /// not include yet; both in millicores.
    pub fn rise(
        &self,
        utilization_percent: Option<f64>,
        capacity_millicores: i64,
        pod: i64,
        reserved: i64,
    ) -> Option<i64> {
        let measured = utilization_percent.filter(|percent| percent.is_finite())?;
        if capacity_millicores <= 0 {
            return None;
        }
        let capacity = capacity_millicores as f64;
        let before = if reserved == 0 {
            measured
        } else {
            measured + 100.0 * reserved as f64 / capacity
        };
        let after = 100.0 * (before / 100.0 * capacity + pod as f64) / capacity;
        if after > 100.0 {
            return None;
        }
        let rise = self.k1 * ((self.k2 * after).exp() - (self.k2 * before).exp());
        rise.is_finite().then_some((rise * 1e15) as i64)
    }
}

/// Scores of nodes by their rises of power: 100 for the smallest, 0 for the largest and for an
/// unknown one. All 100 when all known ones are equal and not 0; all 0 when they are 0.
pub fn normalize(rises: &[Option<i64>]) -> Vec<i64> {
    let known = || rises.iter().copied().flatten();
    let (Some(smallest), Some(largest)) = (known().min(), known().max()) else {
        return vec![0; rises.len()];
    };
    if smallest == 0 && largest == 0 {
        return vec![0; rises.len()];
    }
    let distance = |from: i64, to: i64| (i128::from(to) - i128::from(from)) as f64;
    let score = |rise| {
        if smallest == largest {
            return 100;
        }
        let part = 100.0 * distance(smallest, rise) / distance(smallest, largest);
        (100 - part as i64).clamp(0, 100)
    };
    rises.iter().map(|rise| rise.map_or(0, score)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const K2: f64 = -0.071_860_490_525_162_28;

    fn model(k1: f64) -> PowerModel {
        PowerModel {
            k0: 471.741_250_431_431_3,
            k1,
            k2: K2,
        }
    }

    #[test]
    fn upstreams_examples_have_their_scores() {
        let curve = model(-91.504_930_195_883_65);
        let rise = curve.rise(Some(0.0), 1000, 1000, 0).expect("a rise");
        assert!((rise as f64 / 9.143_565_415_754_968e16 - 1.0).abs() < 1e-12);
        assert_eq!(curve.rise(None, 1000, 100, 0), None);
        assert_eq!(curve.rise(Some(100.0), 1000, 1, 0), None);
        let rises = [
            -91.504_930_195_883_65,
            -1_091.504_930_195_883_6,
            -2_091.504_930_195_884,
        ]
        .map(|k1| model(k1).rise(Some(0.0), 2000, 300, 0));
        assert_eq!(normalize(&rises), [100, 51, 0]);
        assert_eq!(normalize(&[]), [0; 0]);
        for (rises, expected) in [
            ([Some(0), Some(100)], [100, 0]),
            ([Some(0), Some(0)], [0, 0]),
            ([Some(100), Some(100)], [100, 100]),
            ([None, Some(100)], [0, 100]),
            ([None, None], [0, 0]),
            ([Some(i64::MIN), Some(i64::MAX)], [100, 0]),
        ] {
            assert_eq!(normalize(&rises), expected, "{rises:?}");
        }
    }
}
