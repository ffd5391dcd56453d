//! Watches of nodes: their load, room for pods that cannot be scheduled, and nodes that could come.

use api::cluster_autoscaler::{STATUS_NAME, STATUS_NAMESPACE};
use api::karpenter;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1;
use view::{
    AutoscaledGroups, BoundPod, Change, DaemonSetShare, Node, NodeClaim, NodePool, ObjectKey, Pod,
    Quota, Resource, Scope,
};

use super::Watches;
use crate::excluded_fields;
use crate::parse::{Unusable, by_name, within};
use crate::splitter::Item;
use crate::table_writer::Reading;

impl Watches {
    /// Watches unfinished pods on nodes. `report` is called for each change and must not block,
    /// since the watch waits for it.
    pub fn bound_pods(self, report: impl Fn(&Change<BoundPod>) + Send + Sync + 'static) -> Self {
        let writer = self
            .writer(Resource::BoundPods, |view| &mut view.bound_pods)
            .on_change(report);
        let source = self
            .pod_source(excluded_fields::BOUND_PODS)
            .with_fields("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed");
        self.within_scope(source, writer, BoundPod::from_k8s)
    }

    pub fn node_labels(self) -> Self {
        let writer = self.writer(Resource::Nodes, |view| &mut view.nodes);
        let source = self.cluster_source::<v1::Node>(excluded_fields::NODE_LABELS);
        self.followed(source, writer, by_name(Node::from_k8s))
    }

    /// Watches nodes with their addresses. `report` is called for each change and must not block.
    pub fn reported_nodes(self, report: impl Fn(&Change<Node>) + Send + Sync + 'static) -> Self {
        let writer = self
            .writer(Resource::Nodes, |view| &mut view.nodes)
            .on_change(report);
        let source = self.cluster_source::<v1::Node>(excluded_fields::ADDRESSED_NODES);
        self.followed(source, writer, by_name(Node::from_k8s))
    }

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

    /// Watches `NodePool` and `NodeClaim` objects of Karpenter. The view waits for them, unless they
    /// cannot be listed; then it has none until they can.
    pub fn karpenter(self) -> Self {
        let writer = self.writer(Resource::NodePools, |view| &mut view.node_pools);
        let source = self.cluster_source::<karpenter::NodePool>(excluded_fields::PLAIN);
        let watches = self.followed_once_readable(source, writer, by_name(NodePool::from_k8s));
        let writer = watches.writer(Resource::NodeClaims, |view| &mut view.node_claims);
        let source = watches.cluster_source::<karpenter::NodeClaim>(excluded_fields::NODE_CLAIMS);
        watches.followed_once_readable(source, writer, by_name(NodeClaim::from_k8s))
    }

    /// Watches the status `ConfigMap` of cluster-autoscaler, in or out of scope.
    pub fn cluster_autoscaler(self) -> Self {
        let writer = self.writer(Resource::AutoscaledGroups, |view| {
            &mut view.autoscaled_groups
        });
        let read = |item: &Item<'_>| {
            let object = item.parse::<v1::ConfigMap>();
            let groups = object
                .and_then(|object| AutoscaledGroups::from_k8s(object).map_err(Unusable::Broken));
            Reading::of(item.key(), groups)
        };
        let key = ObjectKey::new(STATUS_NAMESPACE, STATUS_NAME);
        let source = self.one_source::<v1::ConfigMap>(&key, excluded_fields::PLAIN);
        self.followed(source, writer, read)
    }
}
