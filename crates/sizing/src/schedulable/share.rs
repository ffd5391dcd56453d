//! How containers share what is not enough for all: in proportion to what each is to get, as
//! upstream's webhook shares a pod's `LimitRange`; but each keeps what its owner said is the least,
//! as long as that fits.

/// What one container asks of a common amount.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stake {
    /// What it is to get.
    pub(super) amount: i64,
    /// The least that its owner allows.
    pub(super) floor: i64,
    /// What each unit takes from the common amount, as a fraction: numerator and denominator, both
    /// above zero.
    pub(super) weight: (i64, i64),
}

impl Stake {
    /// What an amount takes, rounded up.
    pub(super) fn cost(&self, amount: i64) -> i128 {
        let (numerator, denominator) = (i128::from(self.weight.0), i128::from(self.weight.1));
        (i128::from(amount) * numerator + denominator - 1) / denominator
    }

    /// The most that takes no more than this.
    pub(super) fn affords(&self, room: i128) -> i64 {
        let (numerator, denominator) = (i128::from(self.weight.0), i128::from(self.weight.1));
        i64::try_from(room * denominator / numerator).unwrap_or(i64::MAX)
    }

    fn floor(&self) -> i64 {
        self.floor.clamp(0, self.amount)
    }
}

/// The shares; none if somebody would be left with nothing.
pub(super) fn share(stakes: &[Stake], room: i128) -> Option<Vec<i64>> {
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

/// The shares where nobody gets less than the floor; none if the floors do not fit.
fn above_floors(stakes: &[Stake], room: i128) -> Option<Vec<i64>> {
    let mut at_floor = vec![false; stakes.len()];
    // Each round but the last holds at least one more at the floor.
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

/// Those at the floor get that, the others the rest in proportion.
fn scaled(stakes: &[Stake], at_floor: &[bool], room: i128) -> Vec<i64> {
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

fn taken_by_floors(stakes: &[Stake], at_floor: &[bool]) -> i128 {
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
        let stakes: Vec<_> = stakes
            .iter()
            .map(|(amount, floor)| Stake {
                amount: *amount,
                floor: *floor,
                weight: (1, 1),
            })
            .collect();
        assert_eq!(
            share(&stakes, room).as_deref(),
            expected,
            "{stakes:?} in {room}"
        );
    }

    #[test]
    fn everybody_gives_in_proportion() {
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
    fn nobody_is_left_with_nothing() {
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
                .map(|(amount, floor, numerator, denominator)| Stake { amount, floor, weight: (numerator, denominator) })
                .collect();
            if let Some(shares) = share(&stakes, room) {
                let pairs = || stakes.iter().zip(&shares);
                prop_assert!(pairs().all(|(stake, share)| *share <= stake.amount));
                // Exactly, not rounded: denominators divide 12.
                let exact = |stake: &Stake, amount: i64| i128::from(amount) * i128::from(stake.weight.0) * 12 / i128::from(stake.weight.1);
                let taken: i128 = pairs().map(|(stake, share)| exact(stake, *share)).sum();
                prop_assert!(taken <= room * 12, "{stakes:?} {shares:?}");
                let asked: i128 = stakes.iter().map(|stake| exact(stake, stake.amount)).sum();
                prop_assert!(taken >= (room * 12).min(asked) - 6 * 12 * 6, "{stakes:?} {shares:?}");
            }
        }
    }
}
