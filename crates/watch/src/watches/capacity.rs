//! Watches of the objects that say which nodes could come: those of Karpenter, where it is
//! installed, and the status of cluster-autoscaler.

use api::cluster_autoscaler::{STATUS_NAME, STATUS_NAMESPACE};
use api::karpenter;
use k8s_openapi::api::core::v1;
use view::{AutoscaledGroups, NodeClaim, NodePool, ObjectKey, Resource};

use super::Watches;
use crate::excluded_fields;
use crate::parse::{Unusable, by_name};
use crate::splitter::Item;
use crate::table_writer::Reading;

impl Watches {
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
