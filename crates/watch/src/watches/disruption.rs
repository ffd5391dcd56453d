//! Watches of the objects that decide whether pods may be evicted or resized.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use view::{DisruptionBudget, ObjectKey, Pod, Resource, StopSwitch, WebhookLease};

use super::Watches;
use crate::excluded_fields;
use crate::follow::follow;
use crate::read::within;
use crate::splitter::Item;
use crate::table_writer::{Reading, TableWriter};

impl Watches {
    /// Watches unfinished pods, Pending ones too, with their runtime details.
    #[must_use]
    pub fn live_pods(mut self) -> Self {
        let writer = TableWriter::new(Resource::Pods, &self.store, |view| &mut view.pods);
        let fields = "status.phase!=Succeeded,status.phase!=Failed";
        let (scope, keeps_placements) = (self.scope.clone(), self.keeps_placements);
        let read = move |item: &Item<'_>| {
            within(&scope, item, |pod| {
                Pod::from_k8s_running(pod, keeps_placements)
            })
        };
        self.tasks.spawn(follow(
            self.pod_source(excluded_fields::PODS).with_fields(fields),
            read,
            writer,
        ));
        self
    }

    /// Watches `PodDisruptionBudget` objects.
    #[must_use]
    pub fn disruption_budgets(mut self) -> Self {
        let writer = TableWriter::new(Resource::DisruptionBudgets, &self.store, |view| {
            &mut view.disruption_budgets
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, DisruptionBudget::from_k8s);
        self.tasks.spawn(follow(
            self.source::<PodDisruptionBudget>(excluded_fields::PLAIN),
            read,
            writer,
        ));
        self
    }

    /// Watches the webhook's Lease, in or out of scope. It changes every few seconds, so use a view
    /// of its own.
    #[must_use]
    pub fn webhook_lease(mut self, lease: &ObjectKey) -> Self {
        let writer = TableWriter::new(Resource::WebhookLeases, &self.store, |view| {
            &mut view.webhook_leases
        });
        let read =
            |item: &Item<'_>| Reading::of(item.key(), item.parse().map(WebhookLease::from_k8s));
        self.tasks.spawn(follow(
            self.one_source::<Lease>(lease, excluded_fields::PLAIN),
            read,
            writer,
        ));
        self
    }

    /// Watches the stop switch, one `ConfigMap` in or out of scope. It is on while it exists.
    #[must_use]
    pub fn stop_switch(mut self, config_map: &ObjectKey) -> Self {
        let writer = TableWriter::new(Resource::StopSwitches, &self.store, |view| {
            &mut view.stop_switches
        });
        // Kept at any size: only its existence counts.
        let read = |item: &Item<'_>| Reading::Keep(StopSwitch { key: item.key() });
        self.tasks.spawn(follow(
            self.one_source::<v1::ConfigMap>(config_map, excluded_fields::CONFIG_MAPS),
            read,
            writer,
        ));
        self
    }
}
