//! Work of the leader, for one term.

use feed::Publisher;
use futures::try_join;
use runtime::Leading;
use tokio_util::sync::CancellationToken;

use crate::act::{Writer, Writes};
use crate::checkpoints::CheckpointController;
use crate::ehpa::controller::EhpaController;
use crate::ehpa::crane_metrics::CraneMetricsTask;
use crate::ingest::SharedState;
use crate::metrics::PublishMetrics;
use crate::predictions::controller::PredictionController;
use crate::recommend_loop::RecommendLoop;
use crate::sizing_policies::controller::PolicyController;

/// All tasks that write or publish.
pub(super) struct Leader {
    pub(super) shared: SharedState,
    /// The feed, if it is enabled.
    pub(super) publisher: Option<Publisher>,
    pub(super) writer: Writer,
    /// Number of concurrent status writes.
    pub(super) workers: usize,
    pub(super) checkpoints: CheckpointController,
    pub(super) policies: PolicyController,
    pub(super) ehpas: EhpaController,
    pub(super) predictions: PredictionController,
    pub(super) crane_metrics: CraneMetricsTask,
    pub(super) metrics: PublishMetrics,
    pub(super) shutdown: CancellationToken,
}

impl Leader {
    /// The work of one term. At its end the feed's subscribers are disconnected and unfinished work
    /// is dropped.
    pub(super) fn work(
        &self,
        leading: Leading,
    ) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let Self {
            shared,
            publisher,
            writer,
            workers,
            ..
        } = self;
        let Self {
            checkpoints,
            policies,
            ehpas,
            predictions,
            crane_metrics,
            metrics,
            shutdown,
            ..
        } = self;
        let feed_term = publisher
            .as_ref()
            .map(|publisher| publisher.begin(leading.term()));
        let writes = Writes::new(writer.clone(), *workers, leading.clone());
        let recommend_loop = RecommendLoop::new(
            shared.clone(),
            feed_term,
            writes,
            metrics.clone(),
            leading.clone(),
        )
        .run(shutdown.clone());
        // Boxed, since it holds the writes of all workers.
        let checkpoints = Box::pin(checkpoints.clone().run(leading.clone(), shutdown.clone()));
        let policies = Box::pin(policies.clone().run(leading.clone(), shutdown.clone()));
        let ehpas = Box::pin(ehpas.clone().run(leading.clone(), shutdown.clone()));
        let predictions = Box::pin(predictions.clone().run(leading.clone(), shutdown.clone()));
        let crane_metrics = crane_metrics.clone().run(leading, shutdown.clone());
        async {
            try_join!(
                recommend_loop,
                checkpoints,
                policies,
                ehpas,
                predictions,
                crane_metrics
            )
            .map(|_| ())
        }
    }
}
