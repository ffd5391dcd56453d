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
//!    (`price_of_failure/workload.rs`). One factor of the prices is the user's
//!    (`price_of_failure/caution.rs`).
//! 8. Workloads whose pods are runs, such as those of a `CronJob`, have a history of runs instead
//!    of hours (`price_of_failure/runs.rs`).
//!
//! The same samples give the same recommendations: no randomness, no clock.

mod caution;
mod choice;
mod histogram;
mod history;
mod needs;
mod quiet;
mod runs;
mod settings;
mod state;
mod workload;

pub use caution::Caution;
pub use choice::{Choice, Reason};
pub use history::History;
pub(crate) use history::first_invalid;
pub use runs::RunsHistory;
pub use settings::Settings;
pub use workload::{HistoryUnit, PriceOfFailureConfig, WorkloadHistory};
