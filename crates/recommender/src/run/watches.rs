//! The watches of this program, each with a view of its own.

use ::watch::{MissingRights, Watches};
use runtime::Manager;
use tokio::sync::watch;
use vertical::schedulable::{CapSources, Settings};
use view::{OomKill, Scope, View};

pub(super) struct AllWatches {
    /// Pods, workloads and VPA objects.
    pub(super) objects: Watches,
    pub(super) checkpoints: Watches,
    pub(super) policies: Watches,
    /// EHPAs, predictions, and the objects that EHPAs own.
    pub(super) horizontal: Watches,
}

impl AllWatches {
    /// Starts the watches of checkpoints, and of nodes, quotas and limit ranges for caps.
    pub(super) fn new(
        scope: &Scope,
        schedulable: Option<&Settings>,
        manager: &Manager,
    ) -> anyhow::Result<Self> {
        let missing_rights = MissingRights::register(&manager.registry)?;
        let watches =
            || Watches::new(manager.client.clone(), scope.clone()).counting(&missing_rights);
        Ok(Self {
            objects: match schedulable {
                Some(settings) => watch_schedulable(settings, watches()),
                None => watches(),
            },
            checkpoints: watches().checkpoints(),
            policies: watches(),
            horizontal: watches(),
        })
    }

    pub(super) fn views(&self) -> Vec<watch::Receiver<View>> {
        let watches = [
            &self.objects,
            &self.checkpoints,
            &self.policies,
            &self.horizontal,
        ];
        watches.map(Watches::view).to_vec()
    }

    /// Runs all watches until shutdown. Those of policies and EHPAs begin once their kinds are
    /// installed. `report` gets new OOM kills.
    pub(super) fn spawn(
        self,
        report: impl Fn(OomKill) + Send + Sync + Clone + 'static,
        sees_namespaces: bool,
        manager: &Manager,
    ) {
        let Self {
            objects,
            mut checkpoints,
            policies,
            horizontal,
        } = self;
        let objects = objects
            .pods(report.clone())
            .evictions(report)
            .with_controller_labels();
        let mut objects = objects.controllers().vpas().hpa_targets().scales();
        let tasks = &manager.tasks;
        tasks.spawn_until_shutdown("watches", async move { objects.ended().await });
        tasks.spawn_until_shutdown("checkpoint watch", async move { checkpoints.ended().await });
        tasks.spawn_until_shutdown("policy watch", policies.run_policies());
        tasks.spawn_until_shutdown("EHPA watch", horizontal.run_horizontal(sees_namespaces));
    }
}

/// Adds the watches that capping needs. To be called before pods are watched.
fn watch_schedulable(settings: &Settings, watches: Watches) -> Watches {
    let CapSources {
        nodes,
        quotas,
        limit_ranges,
    } = settings.sources();
    let mut watches = watches.with_placements().pending_pods();
    if nodes {
        watches = watches.nodes().daemons();
    }
    if settings.capacity_from.karpenter {
        watches = watches.karpenter();
    }
    if settings.capacity_from.cluster_autoscaler {
        watches = watches.cluster_autoscaler();
    }
    if quotas {
        watches = watches.quotas();
    }
    if limit_ranges {
        watches = watches.limit_ranges();
    }
    watches
}
