//! Objects without the metadata that no decision reads: `VerticalPodAutoscaler`, and those of the
//! horizontal loop, which are written as well as read.

use api::vpa::{NodeGroup, VerticalPodAutoscaler};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::ObjectMeta;
use model::{Recommendation, Workload, WorkloadRef};

use crate::table::{Entry, ObjectKey};

#[derive(Debug, Clone, PartialEq)]
pub struct Vpa {
    pub key: ObjectKey,
    /// The object. Its metadata keeps name, namespace, uid, generation, creation time, labels,
    /// annotations and owner references only.
    pub object: VerticalPodAutoscaler,
}

impl Vpa {
    pub fn from_k8s(mut object: VerticalPodAutoscaler) -> Self {
        object.metadata = strip(object.metadata);
        Self {
            key: ObjectKey::from(&object.metadata),
            object,
        }
    }

    pub fn target(&self) -> WorkloadRef {
        self.points_at().to_ref()
    }

    /// The workload that `targetRef` names, borrowed.
    pub fn points_at(&self) -> Workload<'_> {
        self.object.spec.target_ref.workload(&self.key.namespace)
    }

    /// The `involvedObject` of events about this object.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(VerticalPodAutoscaler::api_version(&()).into_owned()),
            kind: Some(VerticalPodAutoscaler::kind(&()).into_owned()),
            namespace: Some(self.key.namespace.clone()),
            name: Some(self.key.name.clone()),
            uid: Some(self.uid().to_owned()),
            ..ObjectReference::default()
        }
    }

    /// The recommendation of the status, unless it has no containers.
    pub fn recommendation(&self) -> Option<&Recommendation> {
        let recommendation = self.object.status.as_ref()?.recommendation.as_ref();
        recommendation.filter(|it| !it.containers.is_empty())
    }

    /// Creation time, in whole seconds.
    pub fn created_at(&self) -> Option<Timestamp> {
        let created = self.object.metadata.creation_timestamp.as_ref();
        created.map(|time| time.0)
    }

    /// The sort key of objects with one target: those of node groups first, then by creation time and
    /// name. An object without creation time comes first, as upstream.
    pub fn precedence(&self) -> impl Ord + '_ {
        let is_plain = NodeGroup::annotation(&self.object).is_none();
        (is_plain, self.created_at(), &self.key.name)
    }

    /// Unique identifier (`metadata.uid`); empty if absent.
    pub fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }
}

pub(crate) fn strip(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        generation: metadata.generation,
        creation_timestamp: metadata.creation_timestamp,
        labels: metadata.labels.filter(|labels| !labels.is_empty()),
        // An empty map is kept too: annotations with other prefixes were left out before parsing,
        // and a patch must not replace the map.
        annotations: metadata.annotations,
        owner_references: metadata
            .owner_references
            .filter(|owners| !owners.is_empty()),
        ..ObjectMeta::default()
    }
}

impl Entry for Vpa {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn target_workload(&self) -> Option<WorkloadRef> {
        Some(self.target().of_any_version())
    }
}

/// A full object of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Stripped<K> {
    pub key: ObjectKey,
    /// The object. Its metadata has the fields that a [`Vpa`] keeps, and the deletion timestamp.
    pub object: K,
}

impl<K: Resource<DynamicType = ()>> Stripped<K> {
    pub fn from_k8s(mut object: K) -> Self {
        let deletion_timestamp = object.meta().deletion_timestamp.clone();
        let metadata = std::mem::take(object.meta_mut());
        *object.meta_mut() = strip(metadata);
        object.meta_mut().deletion_timestamp = deletion_timestamp;
        Self {
            key: ObjectKey::from(object.meta()),
            object,
        }
    }
}

impl<K: PartialEq> Entry for Stripped<K> {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use api::ParseError;
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    use serde_json::{Value, json};

    use super::*;

    fn object() -> Value {
        json!({
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "u1", "generation": 3, "resourceVersion": "7",
                "annotations": {},
                "managedFields": [{"manager": "kubectl", "operation": "Update"}],
            },
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        })
    }

    fn from_k8s(object: &Value) -> Result<Vpa, ParseError> {
        api::parse_text(object.to_string().as_bytes()).map(Vpa::from_k8s)
    }

    #[test]
    fn metadata_that_no_decision_reads_is_dropped() {
        let metadata = from_k8s(&object()).expect("it parses").object.metadata;
        let expected = json!({"namespace": "shop", "name": "web", "uid": "u1", "generation": 3, "annotations": {}});
        assert_eq!(serde_json::to_value(metadata).expect("metadata"), expected);
    }

    #[test]
    fn a_field_that_does_not_parse_is_named() {
        let mut broken = object();
        broken["spec"]["resourcePolicy"] =
            json!({"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "1.2.3"}}]});
        let error = from_k8s(&broken).expect_err("1.2.3 is no quantity");
        assert_eq!(
            (error.namespace.as_str(), error.name.as_str()),
            ("shop", "web")
        );
        assert!(error.field.contains("minAllowed"), "{error}");
    }

    #[test]
    fn foreign_metadata_is_dropped_and_the_deletion_timestamp_is_kept() {
        let object = |version: &str, time: &str| {
            let object = json!({
                "metadata": {
                    "name": "web", "namespace": "shop", "resourceVersion": version, "deletionTimestamp": time,
                    "managedFields": [{"manager": version}],
                },
                "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
            });
            Stripped::from_k8s(
                serde_json::from_value::<HorizontalPodAutoscaler>(object).expect("an autoscaler"),
            )
        };
        let first = object("1", "2026-01-02T03:04:05Z");
        assert_eq!(first, object("2", "2026-01-02T03:04:05Z"));
        assert_ne!(first, object("2", "2026-01-02T03:04:06Z"));
        assert_eq!(first.key, ObjectKey::new("shop", "web"));
    }
}
