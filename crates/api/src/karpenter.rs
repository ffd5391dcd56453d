//! `NodePool` and `NodeClaim` of `karpenter.sh/v1`, read only, with the fields that say which nodes
//! could come.
//!
//! Source: kubernetes-sigs/karpenter `pkg/apis/v1`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use kube::CustomResource;
use model::ResourceList;
use serde::{Deserialize, Serialize};

/// Nodes that Karpenter may add.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    status = "NodePoolStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(default, rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// Template of the claims.
    pub template: NodeClaimTemplate,
    /// Maximum of the resources of all nodes together; `nodes` is their number.
    pub limits: ResourceList,
    /// Fixed number of nodes; absent if demand decides.
    pub replicas: Option<i64>,
}

/// Template of the claims of a pool.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct NodeClaimTemplate {
    /// Metadata of the nodes.
    pub metadata: NodeClaimTemplateMetadata,
    /// Specification of the claims.
    pub spec: NodeClaimSpec,
}

/// Metadata in the template of a pool.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct NodeClaimTemplateMetadata {
    /// Labels of the nodes.
    pub labels: BTreeMap<String, String>,
}

/// One node that Karpenter adds.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    status = "NodeClaimStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(default)]
pub struct NodeClaimSpec {
    /// Taints of the node.
    pub taints: Vec<Taint>,
    /// Requirements on labels of the node.
    pub requirements: Vec<LabelRequirement>,
}

/// Requirement on a label of a node.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct LabelRequirement {
    /// Name of the label.
    pub key: String,
    /// Operator, such as `In`.
    pub operator: String,
    /// Values.
    pub values: Vec<String>,
}

/// State of a pool.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct NodePoolStatus {
    /// Resources of all its nodes; `nodes` is their number.
    pub resources: ResourceList,
    /// Conditions.
    pub conditions: Vec<NodePoolCondition>,
}

/// Condition of a pool.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct NodePoolCondition {
    /// Type, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// State of a claim.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of its node, empty before there is one.
    pub node_name: String,
    /// Capacity of the node.
    pub capacity: ResourceList,
    /// Allocatable resources of the node.
    pub allocatable: ResourceList,
}
