//! The choice of a request, with every number that led to it.

use jiff::Timestamp;

use super::history::History;
use super::needs::{Needs, Risk};
use super::settings::Settings;

/// Minimum factor of a larger request: just over the deadband of 10 % within which changes are not
/// applied. Otherwise a need within that band would never be met.
pub(super) const MINIMUM_INCREASE: f64 = 1.1 + 1e-9;
/// Factor between usage above all needs so far and the request for it.
pub(super) const RECORD_FACTOR: f64 = 1.3;
/// Age in blocks from which a smaller request has its full price.
const MATURE: f64 = 48.0;

/// A recommendation and the numbers behind it. Amounts in millicores or MiB, costs in these units
/// (per hour) or these units times hours (accumulated).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub present: f64,
    pub recommended: f64,
    pub reason: Reason,
    /// The request of least cost.
    pub cheapest: f64,
    pub cheapest_cost: f64,
    /// Chance that the need exceeds it.
    pub chance: f64,
    /// Mean need above it.
    pub shortage: f64,
    /// Cost per hour of the present request.
    pub present_cost: f64,
    /// Cost of the present request above the least, summed over the blocks since the last change.
    pub regret: f64,
    /// The sum from which a smaller request is recommended.
    pub change_price: f64,
    /// Decayed mean of recent peaks.
    pub scale: f64,
    pub price: f64,
    /// Highest need of the last seven days.
    pub highest: f64,
    /// Highest need that is expected at all, records included.
    pub largest_need: f64,
    /// State of the container: 3 x class of the recent peak + class of the seasonal peak. Classes
    /// are 0 (below the median), 1 and 2 (from the 90th percentile).
    pub state: u8,
    pub age: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no present request.
    First,
    /// Usage exceeds the present request, or is about to.
    Short,
    Larger,
    /// The request of least cost is smaller, and keeping the present one has cost enough.
    Smaller,
    /// The request of least cost is smaller, but a change would cost more than it has saved so far.
    NotYet,
    /// The present request has the least cost.
    Same,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "there was no request before: the one of least cost",
            Self::Short => "usage exceeds the present request, or is about to",
            Self::Larger => "the request of least cost is larger",
            Self::Smaller => "the request of least cost is smaller, and a change pays",
            Self::NotYet => "the request of least cost is smaller, but a change does not pay yet",
            Self::Same => "the present request has the least cost",
        }
    }
}

impl History {
    /// The choice at a time for a container without a request: the one of least cost.
    pub(super) fn choose_first(&self, settings: &Settings, now: Timestamp) -> Option<Choice> {
        let choice = self.clone().choose(settings, 0.0, now)?;
        Some(Choice {
            recommended: choice.cheapest,
            reason: Reason::First,
            ..choice
        })
    }

    /// The choice at a time for a container with this request; `None` before the first complete
    /// block.
    ///
    /// The cost of a kept request accumulates once per block. A changed request starts anew.
    pub fn choose(&mut self, settings: &Settings, request: f64, now: Timestamp) -> Option<Choice> {
        self.close_blocks(settings, now);
        if self.age == 0 {
            return None;
        }
        let needs = Needs::new(settings, self)?;
        let scale = self.scale();
        let price = settings.price_at(scale);
        let largest_need = needs.candidates().next().map_or(0.0, |(need, _)| need);
        let costs = |needs: &Needs| {
            let mut costs = Costs::default();
            for (candidate, risk) in needs.candidates() {
                costs.add(settings, price, request, candidate, risk);
            }
            costs
        };
        let Costs { present, cheapest } = costs(&needs);
        let (present, (cheapest_cost, cheapest, risk)) = (present?, cheapest?);
        self.account(request, present - cheapest_cost);
        let maturity = (f64::from(self.age) / MATURE).min(1.0);
        let change_price = settings.change_price_at(request) * maturity;
        let is_short = self.is_short(settings, request);
        let (recommended, reason) = if is_short {
            let usage = self.usage();
            let enough = needs
                .at_least(usage)
                .and_then(|needs| costs(&needs).cheapest)
                .map_or(usage * RECORD_FACTOR, |(_, cheapest, _)| cheapest);
            (enough.max(request * MINIMUM_INCREASE), Reason::Short)
        } else if cheapest > request {
            (cheapest.max(request * MINIMUM_INCREASE), Reason::Larger)
        } else if cheapest < request && self.regret >= change_price {
            (cheapest, Reason::Smaller)
        } else if cheapest < request {
            (request, Reason::NotYet)
        } else {
            (request, Reason::Same)
        };
        Some(Choice {
            present: request,
            recommended,
            reason,
            cheapest,
            cheapest_cost,
            chance: risk.chance,
            shortage: risk.shortage,
            present_cost: present,
            regret: self.regret,
            change_price,
            scale,
            price,
            highest: self.highest(),
            largest_need,
            state: self.state(),
            age: self.age,
        })
    }

    /// Whether a container with this request is to get a larger one at once: the last sample exceeds
    /// it, or would soon if it kept rising.
    pub fn is_short(&self, settings: &Settings, request: f64) -> bool {
        self.imminent(settings) > request && self.seconds_above() >= settings.patience
    }

    /// Adds the cost of a kept request, once per block.
    fn account(&mut self, request: f64, excess: f64) {
        if self
            .request
            .is_none_or(|before| before.to_bits() != request.to_bits())
        {
            self.request = Some(request);
            self.regret = 0.0;
            self.above_since = None;
        }
        if std::mem::take(&mut self.is_due) {
            self.regret += excess.max(0.0);
        }
    }
}

/// Costs per hour of the candidates seen so far, highest first.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    /// That of the present request, with the risk of the highest candidate not above it.
    present: Option<f64>,
    /// The least, with its candidate: the lowest of equal ones.
    cheapest: Option<(f64, f64, Risk)>,
}

impl Costs {
    fn add(&mut self, settings: &Settings, price: f64, request: f64, candidate: f64, risk: Risk) {
        let cost = |request| risk.cost(settings, price, settings.hours(), request);
        if candidate <= request && self.present.is_none() {
            self.present = Some(cost(request));
        }
        let cost = cost(candidate);
        if candidate > 0.0 && self.cheapest.is_none_or(|(least, ..)| cost <= least) {
            self.cheapest = Some((cost, candidate, risk));
        }
    }
}
