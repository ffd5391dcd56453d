//! Holds of the controllers while other autoscalers write the same objects.

use api::vpa::DEFAULT_RECOMMENDER;
use runtime::own_pod::{hostname, own_namespace};
use runtime::{Hold, Holds, LeaderTasks, Manager};
use view::{AutoscalerRole, ObjectKey};
use watch::OtherAutoscalers;

use crate::args::Args;

pub(super) struct RecommenderHolds {
    /// Of statuses of VPA objects, checkpoints and the feed.
    pub(super) recommender: Hold,
    /// Of EHPAs and predictions.
    pub(super) ehpa_controller: Hold,
}

impl RecommenderHolds {
    /// Adds the task that looks for other autoscalers. A recommender with a name of its own shares
    /// no VPA objects with others.
    pub(super) fn start(
        args: &Args,
        manager: &Manager,
        leader: &mut LeaderTasks,
    ) -> anyhow::Result<Self> {
        let holds = Holds::register(manager)?;
        let looks = args
            .holds
            .looks(args.namespaces.vpa_object_namespace.is_empty());
        let is_default = args.recommender_name == DEFAULT_RECOMMENDER;
        let hold = |role: AutoscalerRole, looks| holds.hold(role.as_str(), looks);
        let found = Self {
            recommender: hold(AutoscalerRole::Recommender, looks && is_default),
            ehpa_controller: hold(AutoscalerRole::EhpaController, looks),
        };
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
        Ok(found)
    }
}
