//! Watches of what decides about whether pods may be moved or resized.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;

use super::feed::{Feed, Reading};
use super::follow::follow;
use super::{Watches, autoscaler, keep_within};
use crate::budget::DisruptionBudget;
use crate::freshness::Resource;
use crate::heartbeat::Heartbeat;
use crate::pod::Pod;
use crate::switch::Switch;
use crate::table::ObjectKey;

impl Watches {
    /// Watches pods that have not ended, Pending ones too, among the pods, and keeps what running says of them.
    #[must_use]
    pub fn live_pods(mut self) -> Self {
        let feed = Feed::new(Resource::Pods, &self.store, |view| &mut view.pods);
        let fields = "status.phase!=Succeeded,status.phase!=Failed";
        let (scope, keeps_placements) = (self.scope.clone(), self.keeps_placements);
        let read = move |pod: v1::Pod| keep_within(&scope, pod, |pod| Pod::trim_running(pod, keeps_placements));
        self.tasks.spawn(follow(self.namespaced(), Some(fields.to_owned()), read, feed));
        self
    }

    /// Watches `PodDisruptionBudget` objects.
    #[must_use]
    pub fn disruption_budgets(mut self) -> Self {
        let feed = Feed::new(Resource::DisruptionBudgets, &self.store, |view| &mut view.disruption_budgets);
        let scope = self.scope.clone();
        let read = move |object: PodDisruptionBudget| keep_within(&scope, object, DisruptionBudget::trim);
        self.tasks.spawn(follow(self.namespaced(), None, read, feed));
        self
    }

    /// Watches one Lease, in or out of scope. It changes all the time, so it is best watched into a view of its own.
    #[must_use]
    pub fn heartbeat(mut self, lease: &ObjectKey) -> Self {
        let feed = Feed::new(Resource::Heartbeats, &self.store, |view| &mut view.heartbeats);
        let api = Api::<Lease>::namespaced(self.client.clone(), &lease.namespace);
        let read = |object: Lease| Reading::Keep(Heartbeat::trim(object));
        self.tasks.spawn(follow(api, Some(format!("metadata.name={}", lease.name)), read, feed));
        self
    }

    /// Watches one `ConfigMap`, in or out of scope: a switch, which is on while it is there.
    #[must_use]
    pub fn switch(mut self, config_map: &ObjectKey) -> Self {
        let feed = Feed::new(Resource::Switches, &self.store, |view| &mut view.switches);
        let api = Api::<v1::ConfigMap>::namespaced(self.client.clone(), &config_map.namespace);
        let read = |object: v1::ConfigMap| Reading::Keep(Switch { key: autoscaler::key(&object.metadata) });
        self.tasks.spawn(follow(api, Some(format!("metadata.name={}", config_map.name)), read, feed));
        self
    }
}
