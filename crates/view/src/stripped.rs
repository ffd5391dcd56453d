//! A full object without the metadata that no decision reads. Used for the objects of the
//! horizontal loop, which are written as well as read.

use kube::Resource;

use crate::table::{Entry, ObjectKey};
use crate::vpa::strip;

/// A full object of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Stripped<K> {
    pub key: ObjectKey,
    /// The object. Its metadata has the fields that an [`Vpa`](crate::Vpa) keeps, and
    /// the deletion timestamp.
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
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    use serde_json::json;

    use super::*;

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
