//! The demand of a container that its CPU limit throttles, which its usage does not show.

use model::Cpu;

use crate::amount;

/// Demand above the usage of a container that is throttled in all of its CPU periods. Nothing shows how much it
/// is. While a larger limit throttles too, the next sample adds to the larger usage.
const FULL_SHARE: f64 = 0.5;

/// `usage * (1 + 0.5 * share of CPU periods in which the container was throttled)`.
pub fn throttled_demand(usage: Cpu, share: f64) -> Cpu {
    let millicores = usage.millicores() as f64 * (1.0 + FULL_SHARE * share);
    Cpu::from_millicores(amount::from_f64(millicores.ceil()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_up_to_half_as_much_again() {
        let demand = |share: f64| throttled_demand(Cpu::from_millicores(101), share).millicores();
        assert_eq!([0.0, 0.5, 1.0].map(demand), [101, 127, 152]);
    }
}
