//! Holds of the controllers while other autoscalers write the same objects.

use api::vpa::DEFAULT_RECOMMENDER;
use runtime::hold::OtherAutoscalers as Reaction;
use runtime::own_pod::{hostname, own_namespace};
use runtime::{Hold, Holds, LeaderTasks, Manager};
use view::{AutoscalerRole, ObjectKey};
use watch::OtherAutoscalers;

use crate::args::Args;

/// The holds of the recommender.
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
        let looks = args.holds.other_autoscalers == Reaction::Hold
            && args.namespaces.vpa_object_namespace.is_empty();
        let is_default = args.recommender_name == DEFAULT_RECOMMENDER;
        let mut roles = Vec::new();
        let mut hold = |role: AutoscalerRole, is_enabled: bool| {
            roles.extend(is_enabled.then_some(role));
            holds.hold(role.as_str(), is_enabled)
        };
        let found = Self {
            recommender: hold(AutoscalerRole::Recommender, looks && is_default),
            ehpa_controller: hold(AutoscalerRole::EhpaController, looks),
        };
        if looks {
            let own = own_leases(args);
            let pod = ObjectKey::new(own_namespace(), hostname()?);
            let others = OtherAutoscalers::new(manager.client.clone(), roles, own).beside(pod);
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
        }
        Ok(found)
    }
}

/// The Leases of this recommender and of its first shard.
fn own_leases(args: &Args) -> Vec<ObjectKey> {
    let election = &args.election;
    let name = &election.leader_elect_resource_name;
    let names = [name.clone(), format!("{name}-0")];
    let namespace = &election.leader_elect_resource_namespace;
    let own = names.map(|name| ObjectKey::new(namespace, name));
    if election.leader_elect {
        own.into()
    } else {
        Vec::new()
    }
}
