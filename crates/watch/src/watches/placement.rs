//! Watches of the objects that decide how loaded a node is: nodes, and the pods on them.

use k8s_openapi::api::core::v1;
use view::{BoundPod, Change, Node, Resource};

use super::Watches;
use crate::excluded_fields;
use crate::parse::by_name;

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

    /// Watches the labels of nodes. Other fields are absent.
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
}
