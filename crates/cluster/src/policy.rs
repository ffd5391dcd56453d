//! A `SizingPolicy` or `ClusterSizingPolicy` object, stripped of metadata that changes no decision.

use api::ParseError;
use api::sizing_policy::{
    self, ClusterSizingPolicy, ClusterSizingPolicySpec, LabelSelector, SizingPolicy, SizingPolicySpec,
    SizingPolicyStatus,
};
use jiff::Timestamp;
use kube::core::{DynamicObject, ObjectMeta};

use crate::table::{Entry, ObjectKey};

/// A policy of one namespace or of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Namespace, empty for one of the cluster, and name.
    pub key: ObjectKey,
    /// Unique identifier: a policy of the same name made later is another one.
    pub uid: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Counts the changes of the specification.
    pub generation: i64,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Where it holds.
    pub reach: Reach,
    /// What it asks for.
    pub spec: SizingPolicySpec,
    /// What was last said of it.
    pub status: Option<SizingPolicyStatus>,
}

/// The namespaces of a policy.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// Its own.
    Namespace,
    /// Those with such labels; without a selector, all.
    Cluster(Option<LabelSelector>),
}

impl Policy {
    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self.reach {
            Reach::Namespace => "SizingPolicy",
            Reach::Cluster(_) => "ClusterSizingPolicy",
        }
    }

    /// Reads a policy of a namespace, or says which field cannot be read.
    pub(crate) fn trim(loose: DynamicObject) -> Result<Self, ParseError> {
        let SizingPolicy { metadata, spec, status } = sizing_policy::parse(value(loose, "SizingPolicy")?)?;
        Ok(Self::new(metadata, Reach::Namespace, spec, status))
    }

    /// Reads a policy of the cluster, or says which field cannot be read.
    pub(crate) fn trim_cluster(loose: DynamicObject) -> Result<Self, ParseError> {
        let value = value(loose, "ClusterSizingPolicy")?;
        let ClusterSizingPolicy { metadata, spec, status } = sizing_policy::parse_cluster(value)?;
        let ClusterSizingPolicySpec { namespace_selector, policy } = spec;
        Ok(Self::new(metadata, Reach::Cluster(namespace_selector), policy, status))
    }

    fn new(metadata: ObjectMeta, reach: Reach, spec: SizingPolicySpec, status: Option<SizingPolicyStatus>) -> Self {
        Self {
            key: ObjectKey::new(metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default()),
            uid: metadata.uid.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            generation: metadata.generation.unwrap_or_default(),
            is_terminating: metadata.deletion_timestamp.is_some(),
            reach,
            spec,
            status,
        }
    }
}

fn value(loose: DynamicObject, kind: &str) -> Result<serde_json::Value, ParseError> {
    let (namespace, name) = (loose.metadata.namespace.clone(), loose.metadata.name.clone());
    serde_json::to_value(loose).map_err(|error| ParseError {
        kind: kind.to_owned(),
        namespace: namespace.unwrap_or_default(),
        name: name.unwrap_or_default(),
        field: ".".to_owned(),
        reason: error.to_string(),
    })
}

impl Entry for Policy {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_of_the_cluster_says_which_namespaces_it_means() {
        let object = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "ClusterSizingPolicy",
            "metadata": {
                "name": "all", "uid": "u1", "generation": 2, "resourceVersion": "9",
                "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
            },
            "spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}, "kinds": ["Job"]},
        });
        let policy = Policy::trim_cluster(serde_json::from_value(object).expect("an object")).expect("it parses");
        assert_eq!((policy.key.to_string().as_str(), policy.uid.as_str(), policy.generation), ("/all", "u1", 2));
        assert!(policy.is_terminating);
        let team = LabelSelector { match_labels: [("team".into(), "a".into())].into(), ..LabelSelector::default() };
        assert_eq!(policy.reach, Reach::Cluster(Some(team)));
        assert_eq!(policy.spec.kinds, [sizing_policy::WorkloadKind::Job]);
    }

    #[test]
    fn a_policy_of_a_namespace_holds_there() {
        let object = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "SizingPolicy",
            "metadata": {"namespace": "shop", "name": "web", "uid": "u1"}, "spec": {},
        });
        let policy = Policy::trim(serde_json::from_value(object).expect("an object")).expect("it parses");
        assert_eq!((policy.key, policy.reach), (ObjectKey::new("shop", "web"), Reach::Namespace));
        assert!(!policy.is_terminating);
    }
}
