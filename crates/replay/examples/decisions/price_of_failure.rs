//! Our own policy, "price of failure".

use jiff::Timestamp;
use replay::Policy;
use sizing::price_of_failure::{History, Settings};

#[derive(Clone, Debug)]
pub(crate) struct PriceOfFailure {
    settings: Settings,
    history: History,
}

impl PriceOfFailure {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            history: History::default(),
        }
    }
}

impl Policy for PriceOfFailure {
    fn observe(&mut self, _pod: usize, at: Timestamp, usage: f64) {
        self.history.add(&self.settings, usage, at);
    }

    fn oom(&mut self, at: Timestamp, request: f64) {
        self.history.add_oom(&self.settings, request, at);
    }

    fn recommend(&mut self, now: Timestamp, request: f64) -> Option<f64> {
        let choice = self.history.choose(&self.settings, request, now)?;
        Some(choice.recommended)
    }

    fn raise(&mut self, now: Timestamp, _usage: f64, request: f64) -> Option<f64> {
        let is_short = self.history.is_short(&self.settings, request);
        is_short.then(|| self.recommend(now, request)).flatten()
    }
}
