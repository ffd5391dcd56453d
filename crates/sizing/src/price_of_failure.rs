//! The sizing policy "price of failure": the request at which the request itself, the failures to
//! expect and their price cost least.
//!
//! One [`History`] per container and resource. CPU is in millicores, memory in MiB, costs are in
//! these units times hours. Time is divided into blocks of an hour. The steps, by file:
//!
//! 1. Samples of the open block are collected; a block's peak is its largest sample
//!    (`price_of_failure/history.rs`).
//! 2. When a block ends, what the container needed enters decaying histograms, kept apart by the
//!    state in which the container was before (`price_of_failure/history.rs`,
//!    `price_of_failure/state.rs`).
//! 3. After a quiet time longer than every one before, the history begins anew with it
//!    (`price_of_failure/quiet.rs`).
//! 4. The distribution of needs is that of the present state, mixed with that of all states. Needs
//!    above every recent one get a small weight, because records happen
//!    (`price_of_failure/needs.rs`).
//! 5. Every bucket bound is a candidate. Its cost per hour is the request, plus the price of the
//!    failures to expect, plus the price of the shortage (`price_of_failure/needs.rs`).
//! 6. A larger request is recommended at once, a smaller one when keeping the present request has
//!    cost more than a change would. Usage above the request, or rising towards it, is answered
//!    between blocks (`price_of_failure/choice.rs`).
//!
//! 7. Over the pods of a workload the largest sample counts, and every sample leads to a choice
//!    (`price_of_failure/workload.rs`). One factor of the prices is the user's ([`Caution`]).
//! 8. Workloads whose pods are runs, such as those of a `CronJob`, have a history of runs instead
//!    of hours (`price_of_failure/runs.rs`).
//!
//! The same samples give the same recommendations: no randomness, no clock.

mod choice;
mod histogram;
mod history;
mod needs;
mod quiet;
mod runs;
mod settings;
mod state;
mod workload;

pub use choice::{Choice, Reason};
pub use history::History;
pub(crate) use history::first_invalid;
pub use runs::RunsHistory;
pub use settings::Settings;
pub use workload::{HistoryUnit, PriceOfFailureConfig, WorkloadHistory};

/// Factor of the prices of failure, from 0.1 to 10. Twice the caution makes a failure twice as
/// expensive: fewer failures, larger requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caution(f64);

impl Default for Caution {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl Caution {
    /// Half the price: smaller requests.
    pub const LOW: Self = Self(0.5);
    /// The default.
    pub const NORMAL: Self = Self(1.0);
    /// Two and a half times the price: about half as many OOM kills as with the default.
    pub const HIGH: Self = Self(2.5);

    /// Parses `low`, `normal`, `high` or a number from 0.1 to 10.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "low" => Some(Self::LOW),
            "normal" => Some(Self::NORMAL),
            "high" => Some(Self::HIGH),
            _ => {
                let is_decimal = |byte: u8| byte.is_ascii_digit() || byte == b'.';
                let factor: f64 = text.bytes().all(is_decimal).then(|| text.parse().ok())??;
                (0.1..=10.0).contains(&factor).then_some(Self(factor))
            }
        }
    }

    pub fn factor(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caution_is_a_word_or_a_number_between_a_tenth_and_ten() {
        for (text, expected) in [
            ("low", Some(0.5)),
            ("normal", Some(1.0)),
            ("high", Some(2.5)),
            ("0.1", Some(0.1)),
            ("10", Some(10.0)),
            ("0.09", None),
            ("10.1", None),
            ("1e0", None),
            ("-1", None),
            ("+1", None),
            ("NaN", None),
            ("High", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(
                Caution::parse(text).map(Caution::factor),
                expected,
                "{text}"
            );
        }
    }
}
