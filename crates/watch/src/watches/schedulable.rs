//! Watches of the objects that decide whether pods can be scheduled: Pending pods, nodes,
//! `DaemonSet` templates and quotas.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1;
use view::{DaemonSetShare, Node, Pod, Quota, Resource, Scope};

use super::Watches;
use crate::excluded_fields;
use crate::parse::{by_name, within};

impl Watches {
    /// Keeps the placements of pods that are watched by later calls.
    pub fn with_placements(mut self) -> Self {
        self.keeps_placements = true;
        self
    }

    /// Watches Pending pods, into a table of their own.
    pub fn pending_pods(self) -> Self {
        let writer = self.writer(Resource::PendingPods, |view| &mut view.pending_pods);
        let source = self
            .pod_source(excluded_fields::PODS)
            .with_fields("status.phase=Pending");
        let keeps_placements = self.keeps_placements;
        self.within_scope(source, writer, move |pod| {
            Pod::from_k8s(pod, keeps_placements)
        })
    }

    pub fn nodes(self) -> Self {
        let writer = self.writer(Resource::Nodes, |view| &mut view.nodes);
        let source = self.cluster_source::<v1::Node>(excluded_fields::NODES);
        self.followed(source, writer, by_name(Node::from_k8s))
    }

    /// Watches the templates of `DaemonSets` in every namespace, in or out of scope, since their
    /// pods use shared nodes. In a scope of one namespace, where a Role is enough, only its own
    /// count.
    pub fn daemons(self) -> Self {
        let writer = self.writer(Resource::Daemons, |view| &mut view.daemons);
        let read = within(Scope::default(), DaemonSetShare::from_k8s);
        let source = self.source::<DaemonSet>(excluded_fields::DAEMONS);
        self.followed(source, writer, read)
    }

    /// Watches `ResourceQuota` objects. The view waits for them, unless there is no right to list them;
    /// then it has none until there is.
    pub fn quotas(self) -> Self {
        let writer = self.writer(Resource::Quotas, |view| &mut view.quotas);
        let source = self.source::<v1::ResourceQuota>(excluded_fields::PLAIN);
        let read = within(self.scope.clone(), Quota::from_k8s);
        self.followed_once_readable(source, writer, read)
    }
}
