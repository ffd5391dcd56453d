//! Status of cluster-autoscaler, as its releases since 1.30 write it into the key `status` of the
//! `ConfigMap` `kube-system/cluster-autoscaler-status`, in YAML.
//!
//! Source: kubernetes/autoscaler `cluster-autoscaler/clusterstate/api/types.go`.

use serde::Deserialize;

use crate::parse::ParseError;

/// Namespace of the `ConfigMap`.
pub const STATUS_NAMESPACE: &str = "kube-system";
/// Name of the `ConfigMap`.
pub const STATUS_NAME: &str = "cluster-autoscaler-status";
/// Key of the status in the `ConfigMap`.
pub const STATUS_KEY: &str = "status";

/// Maximum length of a reason in an error, in characters.
const MAX_REASON: usize = 300;

/// Status of cluster-autoscaler.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAutoscalerStatus {
    /// `Initializing` or `Running`. Required: the text of earlier releases has none.
    pub autoscaler_status: String,
    /// The node groups.
    #[serde(default)]
    pub node_groups: Vec<NodeGroupStatus>,
}

/// State of a node group.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct NodeGroupStatus {
    /// Name at the cloud provider: an Auto Scaling group, a URL of an instance group, a scale set.
    pub name: String,
    /// Health and size.
    pub health: NodeGroupHealth,
}

/// Health and size of a node group.
#[derive(Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeGroupHealth {
    /// `Healthy` or `Unhealthy`.
    pub status: String,
    /// Number of nodes that the cloud provider aims at.
    pub cloud_provider_target: i64,
    /// Minimum number of nodes.
    pub min_size: i64,
    /// Maximum number of nodes.
    pub max_size: i64,
}

impl ClusterAutoscalerStatus {
    /// Parses the text of the key. The text of releases before 1.30 is an error.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        serde_yaml_ng::from_str(text).map_err(|error| ParseError {
            kind: "ConfigMap".to_owned(),
            namespace: STATUS_NAMESPACE.to_owned(),
            name: STATUS_NAME.to_owned(),
            field: format!("data.{STATUS_KEY}"),
            reason: error.to_string().chars().take(MAX_REASON).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_health_and_size_of_each_group_are_read() {
        let text = "
time: 2026-11-23 08:19:44.090873082 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
    nodeCounts: {registered: {total: 5, ready: 4}}
nodeGroups:
- name: eks-workers-a2c1d3e4
  health:
    status: Healthy
    nodeCounts: {registered: {total: 3, ready: 3}}
    cloudProviderTarget: 3
    minSize: 1
    maxSize: 10
    lastProbeTime: \"2026-11-23T08:19:44.088071148Z\"
  scaleUp: {status: NoActivity}
- name: eks-gpu-b2c1d3e4
  health: {status: Unhealthy, maxSize: 2}
";
        let status = ClusterAutoscalerStatus::parse(text).expect("a status");
        let groups = status.node_groups.iter().map(|group| {
            let NodeGroupHealth {
                status,
                cloud_provider_target,
                min_size,
                max_size,
            } = &group.health;
            let name = group.name.as_str();
            (
                name,
                status.as_str(),
                *cloud_provider_target,
                *min_size,
                *max_size,
            )
        });
        let expected = [
            ("eks-workers-a2c1d3e4", "Healthy", 3, 1, 10),
            ("eks-gpu-b2c1d3e4", "Unhealthy", 0, 0, 2),
        ];
        assert_eq!(groups.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn another_format_is_an_error_that_names_the_key() {
        let long = "x".repeat(100_000);
        for text in [
            "Cluster-autoscaler status at 2023:\nCluster-wide:\n  Health: Healthy (ready=1)",
            "nodeGroups: 3",
            &long,
        ] {
            let error = ClusterAutoscalerStatus::parse(text).expect_err("another format");
            let error = error.to_string();
            let expected = "ConfigMap kube-system/cluster-autoscaler-status: data.status: ";
            assert!(error.starts_with(expected), "{error}");
            assert!(error.len() < 500, "{} bytes", error.len());
        }
        let initial = ClusterAutoscalerStatus::parse("autoscalerStatus: Initializing");
        assert_eq!(initial.map(|status| status.node_groups), Ok(Vec::new()));
    }
}
