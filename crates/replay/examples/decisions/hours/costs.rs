//! The request of least cost per hour, together with the hours for which it is kept.

use super::histogram::Needs;

/// Minimum factor of a larger request: just over the deadband.
const MINIMUM_INCREASE: f64 = 1.1 + 1e-9;

/// Prices of one decision, in millicores or MiB times hours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    /// Price of a failure, and of a shortage of one unit.
    pub(super) failure: f64,
    pub(super) shortage: f64,
    /// Price of a smaller request. A larger one has none.
    pub(super) change: f64,
    /// Whether a failure lasts as long as usage is above the request. Else it happens once in a
    /// window.
    pub(super) lasts: bool,
}

/// The request of least cost per hour in place of `request`, over all windows, each with its hours
/// and needs. It is at least `floor`, or as it was. `None` without needs.
pub(super) fn cheapest(
    prices: Prices,
    windows: &[(usize, Needs)],
    request: f64,
    floor: f64,
) -> Option<f64> {
    let mut best: Option<(f64, f64)> = None;
    for (hours, needs) in windows {
        for (amount, cost) in costs(prices, *hours as f64, needs, request) {
            let wanted = amount.max(floor.min(request));
            let cost = cost + wanted - amount;
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, wanted));
            }
        }
    }
    let (_, wanted) = best?;
    Some(if wanted > request {
        wanted.max(request * MINIMUM_INCREASE)
    } else {
        wanted
    })
}

/// The present request and every need, with their costs per hour.
fn costs(prices: Prices, hours: f64, needs: &Needs, request: f64) -> Vec<(f64, f64)> {
    let total: f64 = needs.iter().map(|(_, weight)| weight).sum();
    let failures_in = if prices.lasts { 1.0 } else { hours };
    let cost = |amount: f64, above: f64, load: f64| {
        let shortage = (load - amount * above).max(0.0);
        let failures = prices.failure * above + prices.shortage * shortage;
        let change = if amount < request { prices.change } else { 0.0 };
        (
            amount,
            amount + failures / total / failures_in + change / hours,
        )
    };
    let (mut above, mut load) = (0.0, 0.0);
    let mut kept = None;
    let mut costs = Vec::with_capacity(needs.len() + 1);
    for (need, weight) in needs.iter().rev() {
        if *need <= request && kept.is_none() {
            kept = Some(cost(request, above, load));
        }
        costs.push(cost(*need, above, load));
        above += weight;
        load += weight * need;
    }
    costs.push(kept.unwrap_or_else(|| cost(request, above, load)));
    costs
}
