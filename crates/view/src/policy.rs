//! A `SizingPolicy` or `ClusterSizingPolicy` object without the metadata that no decision reads.

use api::sizing_policy::{
    ClusterSizingPolicy, LabelSelector, SizingPolicy, SizingPolicySpec, SizingPolicyStatus,
};
use jiff::Timestamp;
use kube::core::ObjectMeta;

use crate::table::ObjectKey;

/// A sizing policy of one namespace or of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Namespace, empty for a cluster policy, and name.
    pub key: ObjectKey,
    /// Unique identifier; a policy recreated under the same name has another one.
    pub uid: String,
    pub created: Option<Timestamp>,
    pub generation: i64,
    pub is_terminating: bool,
    pub scope: PolicyScope,
    pub spec: SizingPolicySpec,
    /// Status as last written.
    pub status: Option<SizingPolicyStatus>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum PolicyScope {
    Namespace,
    /// Namespaces that match the selector; all without a selector.
    Cluster(Option<LabelSelector>),
}

impl Policy {
    pub fn kind(&self) -> &'static str {
        match self.scope {
            PolicyScope::Namespace => "SizingPolicy",
            PolicyScope::Cluster(_) => "ClusterSizingPolicy",
        }
    }

    pub fn from_k8s(object: SizingPolicy) -> Self {
        Self::new(
            object.metadata,
            PolicyScope::Namespace,
            object.spec,
            object.status,
        )
    }

    /// Converts a cluster policy as [`Policy::from_k8s`] does.
    pub fn from_k8s_cluster(object: ClusterSizingPolicy) -> Self {
        let scope = PolicyScope::Cluster(object.spec.namespace_selector);
        Self::new(object.metadata, scope, object.spec.policy, object.status)
    }

    fn new(
        metadata: ObjectMeta,
        scope: PolicyScope,
        spec: SizingPolicySpec,
        status: Option<SizingPolicyStatus>,
    ) -> Self {
        Self {
            key: ObjectKey::of(metadata.namespace, metadata.name),
            uid: metadata.uid.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            generation: metadata.generation.unwrap_or_default(),
            is_terminating: metadata.deletion_timestamp.is_some(),
            scope,
            spec,
            status,
        }
    }
}

#[cfg(test)]
mod tests {
    use api::WellKnown;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_policy_selects_namespaces() {
        let object = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "ClusterSizingPolicy",
            "metadata": {
                "name": "all", "uid": "u1", "generation": 2, "resourceVersion": "9",
                "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
            },
            "spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}, "kinds": ["Job"]},
        });
        let object = api::parse_text(object.to_string().as_bytes());
        let policy = Policy::from_k8s_cluster(object.expect("it parses"));
        assert_eq!(policy.key, ObjectKey::new("", "all"));
        assert_eq!((policy.uid.as_str(), policy.generation), ("u1", 2));
        assert!(policy.is_terminating);
        let team = LabelSelector {
            match_labels: [("team".into(), "a".into())].into(),
            ..LabelSelector::default()
        };
        assert_eq!(policy.scope, PolicyScope::Cluster(Some(team)));
        assert_eq!(policy.spec.kinds, [WellKnown::Job.into()]);
    }

    #[test]
    fn a_policy_of_a_namespace_holds_there() {
        let object = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "SizingPolicy",
            "metadata": {"namespace": "shop", "name": "web", "uid": "u1"}, "spec": {},
        });
        let object = api::parse_text(object.to_string().as_bytes());
        let policy = Policy::from_k8s(object.expect("it parses"));
        assert_eq!(policy.key, ObjectKey::new("shop", "web"));
        assert_eq!(policy.scope, PolicyScope::Namespace);
        assert!(!policy.is_terminating);
    }
}
