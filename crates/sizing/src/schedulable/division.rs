//! Division of a limited amount among containers: in proportion to their targets, as upstream's
//! webhook divides a pod's `LimitRange`, but with each container's minimum as long as the minima
//! fit.

#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) amount: i64,
    /// Minimum amount by its policy.
    pub(super) floor: i64,
    /// Units of the common amount per unit, as a fraction: numerator and denominator, both above
    /// zero.
    pub(super) weight: (i64, i64),
}

impl Claim {
    /// Cost of an amount in the common amount, rounded up.
    pub(super) fn cost(&self, amount: i64) -> i128 {
        let (numerator, denominator) = (i128::from(self.weight.0), i128::from(self.weight.1));
        (i128::from(amount) * numerator + denominator - 1) / denominator
    }

    /// The largest amount at this cost.
    pub(super) fn affords(&self, room: i128) -> i64 {
        let (numerator, denominator) = (i128::from(self.weight.0), i128::from(self.weight.1));
        i64::try_from(room * denominator / numerator).unwrap_or(i64::MAX)
    }

    fn floor(&self) -> i64 {
        self.floor.clamp(0, self.amount)
    }
}

/// The shares; `None` if a container would get nothing.
pub(super) fn share(stakes: &[Claim], room: i128) -> Option<Vec<i64>> {
    let serves_all = |shares: &Vec<i64>| {
        stakes
            .iter()
            .zip(shares)
            .all(|(stake, share)| *share > 0 || stake.amount == 0)
    };
    let without_floors =
        || Some(scaled(stakes, &vec![false; stakes.len()], room)).filter(serves_all);
    above_floors(stakes, room)
        .filter(serves_all)
        .or_else(without_floors)
}

/// The shares with all minima kept; `None` if the minima do not fit.
fn above_floors(stakes: &[Claim], room: i128) -> Option<Vec<i64>> {
    let mut at_floor = vec![false; stakes.len()];
    // Each round but the last adds at least one container at its minimum.
    loop {
        let shares = scaled(stakes, &at_floor, room);
        let mut is_done = true;
        for ((stake, share), at_floor) in stakes.iter().zip(&shares).zip(&mut at_floor) {
            if *share < stake.floor() {
                *at_floor = true;
                is_done = false;
            }
        }
        if is_done {
            return (taken_by_floors(stakes, &at_floor) <= room).then_some(shares);
        }
    }
}

/// Minima for containers at the minimum, and the rest in proportion.
fn scaled(stakes: &[Claim], at_floor: &[bool], room: i128) -> Vec<i64> {
    let both = || stakes.iter().zip(at_floor);
    let asked: i128 = both()
        .filter(|(_, at_floor)| !**at_floor)
        .map(|(stake, _)| stake.cost(stake.amount))
        .sum();
    let rest = (room - taken_by_floors(stakes, at_floor)).max(0);
    both()
        .map(|(stake, at_floor)| match at_floor {
            true => stake.floor(),
            false if asked <= rest => stake.amount,
            false => i64::try_from(i128::from(stake.amount) * rest / asked).unwrap_or(stake.amount),
        })
        .collect()
}

fn taken_by_floors(stakes: &[Claim], at_floor: &[bool]) -> i128 {
    let held = stakes
        .iter()
        .zip(at_floor)
        .filter(|(_, at_floor)| **at_floor);
    held.map(|(stake, _)| stake.cost(stake.floor())).sum()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn check(stakes: &[(i64, i64)], room: i128, expected: Option<&[i64]>) {
        let claim = |(amount, floor): &(i64, i64)| Claim {
            amount: *amount,
            floor: *floor,
            weight: (1, 1),
        };
        let stakes: Vec<_> = stakes.iter().map(claim).collect();
        let shares = share(&stakes, room);
        assert_eq!(shares.as_deref(), expected, "{stakes:?} in {room}");
    }

    #[test]
    fn all_containers_shrink_in_proportion() {
        check(&[(300, 0), (100, 0)], 400, Some(&[300, 100]));
        check(&[(300, 0), (100, 0)], 200, Some(&[150, 50]));
        check(&[(4, 0), (21, 0), (90, 0)], 80, Some(&[2, 14, 62]));
    }

    #[test]
    fn floors_hold_as_long_as_they_fit() {
        check(&[(300, 0), (100, 100)], 200, Some(&[100, 100]));
        check(&[(300, 250), (100, 100)], 360, Some(&[260, 100]));
        check(&[(300, 300), (100, 100)], 200, Some(&[150, 50]));
        check(&[(300, 999), (100, 0)], 350, Some(&[300, 50]));
        check(&[(300, 300), (100, 0)], 300, Some(&[225, 75]));
        check(&[(300, 300), (100, 0)], 200, Some(&[150, 50]));
    }

    #[test]
    fn no_container_gets_nothing() {
        check(&[(300, 0)], 0, None);
        check(&[(1000, 0), (1, 0)], 500, None);
        check(&[(10, 0), (0, 0)], 5, Some(&[5, 0]));
    }

    proptest! {
        #[test]
        fn shares_fit_are_never_more_than_asked_for_and_waste_little(
            stakes in vec((1_i64..1_000_000, 0_i64..1_000_000, 1_i64..5, 1_i64..5), 1..6),
            room in 1_i128..3_000_000,
        ) {
            let stakes: Vec<_> = stakes
                .into_iter()
                .map(|(amount, floor, numerator, denominator)| Claim { amount, floor, weight: (numerator, denominator) })
                .collect();
            if let Some(shares) = share(&stakes, room) {
                let pairs = || stakes.iter().zip(&shares);
                prop_assert!(pairs().all(|(stake, share)| *share <= stake.amount));
                // Exact: denominators divide 12.
                let exact = |stake: &Claim, amount: i64| i128::from(amount) * i128::from(stake.weight.0) * 12 / i128::from(stake.weight.1);
                let taken: i128 = pairs().map(|(stake, share)| exact(stake, *share)).sum();
                prop_assert!(taken <= room * 12, "{stakes:?} {shares:?}");
                let asked: i128 = stakes.iter().map(|stake| exact(stake, stake.amount)).sum();
                prop_assert!(taken >= (room * 12).min(asked) - 6 * 12 * 6, "{stakes:?} {shares:?}");
            }
        }
    }
}
