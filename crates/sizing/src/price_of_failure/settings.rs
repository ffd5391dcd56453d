//! Settings of one resource.

/// The amount that a request must cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The peak of the coming blocks: a failure is over with the sample that shows it, because the
    /// request is raised at once.
    Peak,
    /// Every sample of the coming blocks: a failure lasts as long as usage is above the request.
    Sample,
}

/// Settings of the policy for one resource. Amounts are in millicores or MiB; prices are amounts
/// times hours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The price of one failure, at the usual scale: an OOM kill, a moment of CPU shortage or an
    /// hour of it ([`Settings::CPU_HOURLY`]). It grows with the square root of a container's scale.
    pub price: f64,
    /// Price of a shortage of one unit.
    pub shortage_price: f64,
    /// Price of a smaller request, at a present request of the usual scale, in hours of it. It
    /// grows with the square root of the request.
    pub change_price: f64,
    /// The usual scale: the peak usage at which prices are as given.
    pub(super) usual_scale: f64,
    pub(super) need: Need,
    /// Blocks that a request must last.
    pub(super) ahead: usize,
    /// Factor by which the weights of a block decay in the next one.
    pub(super) decay: f64,
    /// Blocks of the recent peak.
    pub(super) recent: usize,
    /// Weight of the needs in all states, in blocks, next to those in the present one.
    pub(super) pooled: f64,
    /// Weight of needs above every recent one, in blocks.
    pub(super) novelty: f64,
    /// Seconds for which usage must exceed a request before it is raised for that alone.
    pub(super) patience: i64,
    /// Seconds for which usage is assumed to rise on, when requests are raised.
    pub(super) lead: f64,
    /// Whether a history begins anew after an unusually long quiet time.
    pub(super) restarts: bool,
}

/// `2^(-1/96)`: a weight halves in four days.
const FOUR_DAYS: f64 = 0.992_805_720_491_269;

impl Settings {
    /// CPU in millicores, for requests that can be changed at any time.
    pub const CPU: Self = Self {
        price: 1440.0,
        shortage_price: 6.0,
        change_price: 30.0,
        usual_scale: 200.0,
        need: Need::Peak,
        ahead: 6,
        decay: FOUR_DAYS,
        recent: 3,
        pooled: 12.0,
        novelty: 2.0,
        patience: 0,
        lead: 0.0,
        restarts: true,
    };

    /// CPU in millicores, for requests that are changed every hour.
    pub const CPU_HOURLY: Self = Self {
        price: 3700.0,
        shortage_price: 30.0,
        change_price: 12.0,
        need: Need::Sample,
        ahead: 3,
        novelty: 1.0 / 6.0,
        patience: 1800,
        ..Self::CPU
    };

    /// Memory in MiB.
    pub const MEMORY: Self = Self {
        price: 184_320.0,
        shortage_price: 0.0,
        change_price: 4.0,
        usual_scale: 1024.0,
        need: Need::Peak,
        ahead: 4,
        decay: FOUR_DAYS,
        recent: 1,
        pooled: 48.0,
        novelty: 2.0,
        patience: 0,
        lead: 120.0,
        restarts: false,
    };

    /// CPU in millicores, of runs: requests are not changed while a run lasts. Of n runs one is the
    /// highest, so the next one exceeds it with a chance of 1 in n + 1.
    pub const CPU_OF_RUNS: Self = Self {
        novelty: 1.0,
        ..Self::CPU_HOURLY
    };

    /// Memory in MiB, of runs. A failure is one of a whole run, of at most `ahead` blocks.
    pub const MEMORY_OF_RUNS: Self = Self {
        novelty: 1.0,
        ..Self::MEMORY
    };

    /// The same settings with the prices of failure multiplied: above 1 for fewer failures, below 1
    /// for smaller requests.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            price: self.price * factor,
            shortage_price: self.shortage_price * factor,
            ..self
        }
    }

    /// The price of one failure for a container of this scale.
    pub(super) fn price_at(&self, scale: f64) -> f64 {
        self.price * (scale / self.usual_scale).sqrt()
    }

    /// The price of a change of this request to a smaller one.
    pub(super) fn change_price_at(&self, request: f64) -> f64 {
        self.change_price * (request * self.usual_scale).sqrt()
    }

    /// The hours in which a need that does not fit is one failure. A peak is the peak of all the
    /// blocks ahead.
    pub(super) fn hours(&self) -> f64 {
        match self.need {
            Need::Peak => self.ahead as f64,
            Need::Sample => 1.0,
        }
    }

    /// Upper bound of the first bucket, in millicores or MiB.
    pub(super) const FIRST_BOUND: f64 = 10.0;
}
