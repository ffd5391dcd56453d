//! Start of the controllers, which write only in the leader.

use ::controllers::ehpa::{CraneMetricsTask, EhpaController, EhpaInputs};
use ::controllers::predictions::{PredictionController, PredictionInputs, Source};
use ::controllers::sizing_policies::{PolicyController, PolicyInputs};
use api::vpa::DEFAULT_RECOMMENDER;
use runtime::own_pod::{hostname, own_namespace};
use runtime::{Hold, Holds, LeaderTasks, Manager};
use view::{AutoscalerRole, ObjectKey};
use watch::OtherAutoscalers;

use super::AllWatches;
use crate::args::Args;
use crate::checkpoint_writer::CheckpointWriter;
use crate::checkpoints::CheckpointController;
use crate::config::Config;
use crate::feed_server::FeedServer;
use crate::ingest::SharedState;
use crate::metrics::Metrics;
use crate::recommend_loop::RecommendLoop;
use crate::status_writer::{StatusWriter, StatusWrites};

/// Concurrent status writes per concurrent checkpoint write: checkpoints are not urgent.
const CHECKPOINT_SHARE: usize = 4;

pub(super) struct Controllers<'a> {
    pub(super) args: &'a Args,
    pub(super) config: &'a Config,
    pub(super) manager: &'a Manager,
    pub(super) watches: &'a AllWatches,
    pub(super) metrics: &'a Metrics,
    pub(super) shared: &'a SharedState,
}

impl Controllers<'_> {
    /// Starts them all. Their work of one term is added to `leader`.
    pub(super) fn start(
        &self,
        feed: Option<&FeedServer>,
        predicted_from: Source,
        leader: &mut LeaderTasks,
    ) -> anyhow::Result<()> {
        let (recommender, ehpa_controller) = self.holds(leader)?;
        self.recommend(feed, &recommender, leader);
        let checkpoints = self.checkpoints();
        leader.add_with_hold(&recommender, move |leading, shutdown| {
            checkpoints.clone().run(leading, shutdown)
        });
        let policies = self.policies()?;
        leader.add(move |leading, shutdown| policies.clone().run(leading, shutdown));
        let (ehpas, crane_metrics) = self.ehpas()?;
        let predictions = PredictionInputs {
            horizontal: self.watches.horizontal.view(),
            recommender: self.args.recommender_name.clone(),
            settings: self.config.predictions.clone(),
            workers: self.workers(),
            rules: ehpas.rules(),
            source: predicted_from,
            publisher: feed.map(|feed| feed.forecasts.clone()),
        };
        leader.add_with_hold(&ehpa_controller, move |leading, shutdown| {
            ehpas.clone().run(leading, shutdown)
        });
        let predictions =
            PredictionController::start(&self.args.prediction, predictions, self.manager)?;
        leader.add_with_hold(&ehpa_controller, move |leading, shutdown| {
            predictions.clone().run(leading, shutdown)
        });
        leader.add(move |leading, shutdown| crane_metrics.clone().run(leading, shutdown));
        Ok(())
    }

    /// Adds the task that looks for other autoscalers. Returns the holds while one writes the same
    /// objects: of statuses of VPA objects, checkpoints and the feed; of EHPAs and predictions. A
    /// recommender with a name of its own shares no VPA objects with others.
    fn holds(&self, leader: &mut LeaderTasks) -> anyhow::Result<(Hold, Hold)> {
        let (args, manager) = (self.args, self.manager);
        let holds = Holds::register(manager)?;
        let is_everywhere = args.namespaces.vpa_object_namespace.is_empty();
        let looks = self.config.other_autoscalers.looks(is_everywhere);
        let is_default = args.recommender_name == DEFAULT_RECOMMENDER;
        let hold = |role: AutoscalerRole, looks| holds.hold(role.as_str(), looks);
        let recommender = hold(AutoscalerRole::Recommender, looks && is_default);
        let ehpa_controller = hold(AutoscalerRole::EhpaController, looks);
        let pod = ObjectKey::new(own_namespace(), hostname()?);
        let own = args.election.own_leases();
        let others = OtherAutoscalers::new(manager.client.clone(), own).beside(pod);
        let clock = manager.clock();
        leader.add(move |_, shutdown| {
            let (holds, others, clock) = (holds.clone(), others.clone(), clock.clone());
            async move {
                let looking =
                    holds.keep(|| async { others.read(|| clock.timestamp()).await.by_role() });
                shutdown.run_until_cancelled(looking).await;
                Ok(())
            }
        });
        Ok((recommender, ehpa_controller))
    }

    /// Maximum number of concurrent writes of one controller.
    fn workers(&self) -> usize {
        usize::from(self.args.update_worker_count)
    }

    fn recommend(&self, feed: Option<&FeedServer>, hold: &Hold, leader: &mut LeaderTasks) {
        let publisher = feed.map(|feed| feed.publisher.clone());
        let (shared, workers) = (self.shared.clone(), self.workers());
        let metrics = self.metrics.publish.clone();
        let writer = StatusWriter::new(self.manager.object_writer(), metrics.clone());
        let refresh_interval = self.config.refresh_interval.0;
        leader.add_with_hold(hold, move |leading, shutdown| {
            let feed_term = publisher
                .as_ref()
                .map(|publisher| publisher.begin(leading.term()));
            let queue = StatusWrites::new(writer.during(&leading), workers, refresh_interval);
            let (shared, metrics) = (shared.clone(), metrics.clone());
            RecommendLoop::new(shared, feed_term, queue, metrics, leading).run(shutdown)
        });
    }

    fn checkpoints(&self) -> CheckpointController {
        let (args, manager) = (self.args, self.manager);
        CheckpointController {
            shared: self.shared.clone(),
            view: self.watches.objects.view(),
            stored: self.watches.checkpoints.view(),
            writer: CheckpointWriter::new(
                manager.object_writer(),
                args.common.kube_api_qps,
                args.common.kube_api_burst,
            ),
            workers: self.workers().div_ceil(CHECKPOINT_SHARE),
            timeout: args.checkpoints_timeout.0,
            refresh_interval: self.config.refresh_interval.0,
            gc_interval: args.checkpoints_gc_interval.0,
            metrics: self.metrics.checkpoints.clone(),
        }
    }

    fn policies(&self) -> Result<PolicyController, prometheus::Error> {
        let inputs = PolicyInputs {
            view: self.watches.objects.view(),
            policies: self.watches.policies.view(),
            questions: self.watches.objects.scale_requests(),
            recommender: self.args.recommender_name.clone(),
            shard: self.args.shard,
            workers: self.workers(),
        };
        PolicyController::new(inputs, self.manager)
    }

    fn ehpas(&self) -> anyhow::Result<(EhpaController, CraneMetricsTask)> {
        let inputs = EhpaInputs {
            view: self.watches.objects.view(),
            horizontal: self.watches.horizontal.view(),
            recommender: self.args.recommender_name.clone(),
            workers: self.workers(),
        };
        EhpaController::start(&self.args.ehpa, inputs, self.manager)
    }
}
