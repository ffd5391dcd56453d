//! The look for another updater.

use runtime::hold::OtherAutoscalers as Reaction;
use runtime::own_pod::{hostname, own_namespace};
use runtime::{ApiServerClock, Hold, HoldArgs, Holds, LeaderElectionArgs, Manager};
use view::{AutoscalerRole, ObjectKey};
use watch::OtherAutoscalers;

const ROLE: AutoscalerRole = AutoscalerRole::Updater;

/// The look for another updater, and its result.
pub(crate) struct AnotherUpdater {
    holds: Holds,
    hold: Hold,
    /// `None` without a look.
    others: Option<OtherAutoscalers>,
    clock: ApiServerClock,
}

impl AnotherUpdater {
    /// With `is_clusterwide` false nothing is looked for: other namespaces cannot be read.
    pub(crate) fn new(
        args: HoldArgs,
        is_clusterwide: bool,
        election: &LeaderElectionArgs,
        manager: &Manager,
    ) -> anyhow::Result<Self> {
        let looks = args.other_autoscalers == Reaction::Hold && is_clusterwide;
        let namespace = &election.leader_elect_resource_namespace;
        let own = ObjectKey::new(namespace, &election.leader_elect_resource_name);
        let own: Vec<ObjectKey> = election.leader_elect.then_some(own).into_iter().collect();
        let client = manager.client.clone();
        let holds = Holds::register(manager)?;
        let pod = ObjectKey::new(own_namespace(), hostname()?);
        let others = OtherAutoscalers::new(client, [ROLE], own).beside(pod);
        Ok(Self {
            hold: holds.hold(ROLE.as_str(), looks),
            holds,
            others: looks.then_some(others),
            clock: manager.clock(),
        })
    }

    /// The hold while another updater runs.
    pub(crate) fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// Looks for another updater for ever.
    pub(crate) fn look(&self) -> impl Future<Output = ()> + use<> {
        let (holds, others, clock) = (self.holds.clone(), self.others.clone(), self.clock.clone());
        async move {
            match others {
                Some(others) => {
                    holds
                        .keep(|| async { others.read(|| clock.timestamp()).await.by_role() })
                        .await;
                }
                None => std::future::pending().await,
            }
        }
    }
}
