//! Watches of the objects that decide whether pods can be scheduled.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1;
use view::{Daemon, Node, Pod, Quota, Resource};

use super::Watches;
use crate::excluded_fields;
use crate::follow::follow;
use crate::read::within;
use crate::splitter::Item;
use crate::table_writer::{Reading, TableWriter};

impl Watches {
    /// Keeps the placements of pods that are watched by later calls.
    #[must_use]
    pub fn with_placements(mut self) -> Self {
        self.keeps_placements = true;
        self
    }

    /// Watches Pending pods, into a table of their own.
    #[must_use]
    pub fn pending_pods(mut self) -> Self {
        let writer = TableWriter::new(Resource::PendingPods, &self.store, |view| {
            &mut view.pending_pods
        });
        let (scope, keeps_placements) = (self.scope.clone(), self.keeps_placements);
        let read =
            move |item: &Item<'_>| within(&scope, item, |pod| Pod::from_k8s(pod, keeps_placements));
        let source = self
            .pod_source(excluded_fields::PODS)
            .with_fields("status.phase=Pending");
        self.tasks.spawn(follow(source, read, writer));
        self
    }

    /// Watches nodes.
    #[must_use]
    pub fn nodes(mut self) -> Self {
        let writer = TableWriter::new(Resource::Nodes, &self.store, |view| &mut view.nodes);
        let read =
            |item: &Item<'_>| Reading::of(item.name.to_owned(), item.parse().map(Node::from_k8s));
        self.tasks.spawn(follow(
            self.cluster_source::<v1::Node>(excluded_fields::NODES),
            read,
            writer,
        ));
        self
    }

    /// Watches the templates of `DaemonSets` in every namespace, in or out of scope, since their
    /// pods use shared nodes.
    #[must_use]
    pub fn daemons(mut self) -> Self {
        let writer = TableWriter::new(Resource::Daemons, &self.store, |view| &mut view.daemons);
        let read = |item: &Item<'_>| Reading::of(item.key(), item.parse().map(Daemon::from_k8s));
        self.tasks.spawn(follow(
            self.cluster_source::<DaemonSet>(excluded_fields::DAEMONS),
            read,
            writer,
        ));
        self
    }

    /// Watches `ResourceQuota` objects.
    #[must_use]
    pub fn quotas(mut self) -> Self {
        let writer = TableWriter::new(Resource::Quotas, &self.store, |view| &mut view.quotas);
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, Quota::from_k8s);
        self.tasks.spawn(follow(
            self.source::<v1::ResourceQuota>(excluded_fields::PLAIN),
            read,
            writer,
        ));
        self
    }
}
