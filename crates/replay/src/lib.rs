//! Replays of recorded usage through the sizing policies of production and of peers.
//!
//! Pure: no input or output, no clock. The result depends on the series and the policy alone.
//!
//! | formula | file |
//! |---|---|
//! | series, values of missing slots | `series.rs` |
//! | applied recommendations, OOM kills, early raises | `executor.rs` |
//! | intervals, differences at equal risk | `bootstrap.rs` |
//! | slack, shortage, OOM kills, changes | `score.rs` |
//! | our own policy | `own.rs` |
//! | VPA, Crane, Autopilot, KRR, oracle | `peers.rs` |
//! | demand through the HPA and predicted metrics | `horizontal.rs` |
//! | passes of the native HPA | `hpa.rs` |
//! | VPA and HPA on the same metric | `vpa_with_hpa.rs` |
//! | pods on nodes | `packing.rs` |
//! | plots as SVG | `plot.rs` |

pub mod bootstrap;
mod executor;
pub mod horizontal;
mod hpa;
mod own;
pub mod packing;
pub mod peers;
pub mod plot;
mod policy;
mod score;
mod series;
pub mod vpa_with_hpa;

pub use executor::{Executor, Grid};
pub use own::PriceOfFailure;
pub use policy::{NewPolicy, Policy, Resource};
pub use score::{EntityScore, Score};
pub use series::Series;

use rayon::prelude::*;

/// The scores of every series under a policy, in the order of the series.
pub fn run_all(
    executor: &Executor,
    series: &[Series],
    new_policy: &NewPolicy<'_>,
) -> Vec<EntityScore> {
    series
        .par_iter()
        .map(|series| executor.run(series, new_policy(series).as_mut()))
        .collect()
}
