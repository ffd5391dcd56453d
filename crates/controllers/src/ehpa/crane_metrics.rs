//! Task of the leader that updates Crane's metrics every 10 s.

mod collector;

use std::time::Duration;

use horizontal::crane_metrics::{ScaleCounts, samples};
use jiff::Timestamp;
use prometheus::Registry;
use runtime::Leading;
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::View;

use crate::ehpa::EhpaInputs;
use collector::CraneMetrics;

/// Interval of updates. The HPA controller works every 15 s.
const PERIOD: Duration = Duration::from_secs(10);

/// Maximum number of series, so that users cannot make a scrape arbitrarily large.
const LIMIT: usize = 20_000;

/// Task that updates Crane's metrics.
#[derive(Clone)]
pub struct CraneMetricsTask {
    /// View with the objects. Empty until their kinds are installed.
    horizontal: watch::Receiver<View>,
    recommender: String,
    metrics: CraneMetrics,
}

/// Removes all series at the end of the term.
struct ClearOnDrop(CraneMetrics);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.show(Vec::new());
    }
}

impl CraneMetricsTask {
    pub(crate) fn register(
        inputs: &EhpaInputs,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let metrics = CraneMetrics::new(LIMIT)?;
        registry.register(Box::new(metrics.clone()))?;
        Ok(Self {
            horizontal: inputs.horizontal.clone(),
            recommender: inputs.recommender.clone(),
            metrics,
        })
    }

    /// Runs until shutdown, or until it is dropped with the Lease.
    pub async fn run(self, leading: Leading, shutdown: CancellationToken) -> anyhow::Result<()> {
        let shown = ClearOnDrop(self.metrics.clone());
        let mut counts = ScaleCounts::default();
        let work = async {
            loop {
                let synced = self.horizontal.borrow().is_synced();
                if synced && leading.holds(std::time::Instant::now()) {
                    let update = || {
                        let copy_of = copy_of(&self.horizontal.borrow());
                        samples(&copy_of, &mut counts, &self.recommender, Timestamp::now())
                    };
                    shown.0.show(block_in_place(update));
                }
                sleep(PERIOD).await;
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }
}

/// A copy of the relevant tables: the computation should not block writers of the view.
fn copy_of(view: &View) -> View {
    let mut copy_of = View::default();
    copy_of.ehpas.clone_from(&view.ehpas);
    copy_of.hpas.clone_from(&view.hpas);
    copy_of.predictions.clone_from(&view.predictions);
    copy_of
}
