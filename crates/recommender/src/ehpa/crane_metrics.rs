//! Keeps the metrics of Crane's `craned` current for one term of leadership.

use std::time::Duration;

use horizontal::crane_metrics::{Scalings, samples};
use jiff::Timestamp;
use runtime::Leading;
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::View;

use crate::metrics::CraneMetrics;

/// How often everything is looked at. Native autoscalers are at work every 15 s.
const PERIOD: Duration = Duration::from_secs(10);
/// What keeps Crane's metrics current.
#[derive(Clone)]
pub(crate) struct Gauges {
    /// The objects. Empty as long as their kinds are not installed.
    pub(crate) horizontal: watch::Receiver<View>,
    /// The recommender whose objects these are.
    pub(crate) recommender: String,
    pub(crate) metrics: CraneMetrics,
}

/// What is shown ends with the term.
struct Shown(CraneMetrics);

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.show(Vec::new());
    }
}

impl Gauges {
    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(
        self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let shown = Shown(self.metrics.clone());
        let mut scalings = Scalings::default();
        let work = async {
            loop {
                let synced = self.horizontal.borrow().is_synced();
                if synced && leading.holds(std::time::Instant::now()) {
                    let look = || {
                        let seen = seen(&self.horizontal.borrow());
                        samples(&seen, &mut scalings, &self.recommender, Timestamp::now())
                    };
                    shown.0.show(block_in_place(look));
                }
                sleep(PERIOD).await;
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }
}

/// A copy of what is looked at: nobody who writes should wait for all crons to be understood.
fn seen(view: &View) -> View {
    let mut seen = View::default();
    seen.effective_autoscalers
        .clone_from(&view.effective_autoscalers);
    seen.horizontal_autoscalers
        .clone_from(&view.horizontal_autoscalers);
    seen.predictions.clone_from(&view.predictions);
    seen
}
