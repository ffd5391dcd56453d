//! Watches of the objects that decide whether pods may be evicted or resized.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use view::{DisruptionBudget, ObjectKey, Pod, Resource, Scope, StopSwitch, WebhookLease};

use super::Watches;
use crate::excluded_fields;
use crate::parse::within;
use crate::splitter::Item;
use crate::table_writer::Reading;

impl Watches {
    /// Watches unfinished pods, Pending ones too, with their runtime details.
    pub fn live_pods(self) -> Self {
        let writer = self.writer(Resource::Pods, |view| &mut view.pods);
        let source = self
            .pod_source(excluded_fields::PODS)
            .with_fields("status.phase!=Succeeded,status.phase!=Failed");
        let keeps_placements = self.keeps_placements;
        self.within_scope(source, writer, move |pod| {
            Pod::from_k8s_running(pod, keeps_placements)
        })
    }

    /// Watches `PodDisruptionBudget` objects. The view waits for them, unless there is no right to list
    /// them; then it has none until there is: the API server enforces them in evictions anyway.
    pub fn disruption_budgets(self) -> Self {
        let writer = self.writer(Resource::DisruptionBudgets, |view| {
            &mut view.disruption_budgets
        });
        let source = self.source::<PodDisruptionBudget>(excluded_fields::PLAIN);
        let read = within(self.scope.clone(), DisruptionBudget::from_k8s);
        self.followed_once_readable(source, writer, read)
    }

    /// Watches the webhook's Lease, in or out of scope. It changes often, so use a view of its own.
    pub fn webhook_lease(self, lease: &ObjectKey) -> Self {
        let writer = self.writer(Resource::WebhookLeases, |view| &mut view.webhook_leases);
        let read = within(Scope::default(), WebhookLease::from_k8s);
        let source = self.one_source::<Lease>(lease, excluded_fields::PLAIN);
        self.followed(source, writer, read)
    }

    /// Watches the stop switch, one `ConfigMap` in or out of scope. It is on while it exists. The view
    /// waits for it, unless there is no right to list it; then it is off until there is.
    pub fn stop_switch(self, config_map: &ObjectKey) -> Self {
        let writer = self.writer(Resource::StopSwitches, |view| &mut view.stop_switches);
        // Kept at any size: only its existence counts.
        let read = |item: &Item<'_>| Reading::Keep(StopSwitch { key: item.key() });
        let source = self.one_source::<v1::ConfigMap>(config_map, excluded_fields::CONFIG_MAPS);
        self.followed_once_readable(source, writer, read)
    }
}
