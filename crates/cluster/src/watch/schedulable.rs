//! Watches of what decides about whether pods can be scheduled. None of them is needed for anything else.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1;
use kube::Api;

use super::feed::{Feed, Reading};
use super::follow::follow;
use super::{Watches, keep_within};
use crate::daemon::Daemon;
use crate::freshness::Resource;
use crate::node::Node;
use crate::pod::Pod;
use crate::quota::Quota;

impl Watches {
    /// Pods that are watched from here on keep where they may run and what they ask for beside their containers.
    #[must_use]
    pub fn with_placements(mut self) -> Self {
        self.keeps_placements = true;
        self
    }

    /// Watches Pending pods, apart from the others.
    #[must_use]
    pub fn pending_pods(mut self) -> Self {
        let feed = Feed::new(Resource::PendingPods, &self.store, |view| &mut view.pending_pods);
        let (scope, keeps_placements) = (self.scope.clone(), self.keeps_placements);
        let read = move |pod: v1::Pod| keep_within(&scope, pod, |pod| Pod::trim(pod, keeps_placements));
        self.tasks.spawn(follow(self.namespaced(), Some("status.phase=Pending".to_owned()), read, feed));
        self
    }

    /// Watches nodes.
    #[must_use]
    pub fn nodes(mut self) -> Self {
        let feed = Feed::new(Resource::Nodes, &self.store, |view| &mut view.nodes);
        let read = |object: v1::Node| Reading::Keep(Node::trim(object));
        self.tasks.spawn(follow(Api::<v1::Node>::all(self.client.clone()), None, read, feed));
        self
    }

    /// Watches the templates of `DaemonSets` in every namespace, in or out of scope: their pods are on nodes that all share.
    #[must_use]
    pub fn daemons(mut self) -> Self {
        let feed = Feed::new(Resource::Daemons, &self.store, |view| &mut view.daemons);
        let read = |object: DaemonSet| Reading::Keep(Daemon::trim(object));
        self.tasks.spawn(follow(Api::<DaemonSet>::all(self.client.clone()), None, read, feed));
        self
    }

    /// Watches `ResourceQuota` objects.
    #[must_use]
    pub fn quotas(mut self) -> Self {
        let feed = Feed::new(Resource::Quotas, &self.store, |view| &mut view.quotas);
        let scope = self.scope.clone();
        let read = move |object: v1::ResourceQuota| keep_within(&scope, object, Quota::trim);
        self.tasks.spawn(follow(self.namespaced(), None, read, feed));
        self
    }
}
