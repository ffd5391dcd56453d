//! A `VerticalPodAutoscalerCheckpoint` object without the metadata that no decision reads.

use std::sync::Arc;

use api::checkpoint::{
    SIZING_HISTORY, VerticalPodAutoscalerCheckpoint, VerticalPodAutoscalerCheckpointSpec,
    VerticalPodAutoscalerCheckpointStatus,
};
use jiff::Timestamp;

use crate::table::ObjectKey;

#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    pub key: ObjectKey,
    /// Unique identifier; an object recreated under the same name has another one.
    pub uid: String,
    pub resource_version: String,
    pub is_annotated: bool,
    /// The stored history of a sizing method other than the VPA's.
    pub sizing_history: Option<Arc<str>>,
    pub created: Option<Timestamp>,
    /// The VPA and the container that it belongs to. The object's name need not contain them.
    pub spec: VerticalPodAutoscalerCheckpointSpec,
    /// The stored histograms; `None` before the first write.
    pub status: Option<VerticalPodAutoscalerCheckpointStatus>,
}

impl Checkpoint {
    pub fn from_k8s(object: VerticalPodAutoscalerCheckpoint) -> Self {
        let annotations = object.metadata.annotations.as_ref();
        let history = annotations.and_then(|annotations| annotations.get(SIZING_HISTORY));
        Self {
            key: ObjectKey::from(&object.metadata),
            uid: object.metadata.uid.unwrap_or_default(),
            is_annotated: annotations.is_some(),
            sizing_history: history.map(|text| text.as_str().into()),
            resource_version: object.metadata.resource_version.unwrap_or_default(),
            created: object.metadata.creation_timestamp.map(|time| time.0),
            spec: object.spec,
            status: object.status,
        }
    }

    pub fn vpa(&self) -> ObjectKey {
        ObjectKey::new(&self.key.namespace, &self.spec.vpa_object_name)
    }
}

#[cfg(test)]
mod tests {
    use api::ParseError;
    use serde_json::{Value, json};

    use super::*;

    fn from_k8s(status: Value) -> Result<Checkpoint, ParseError> {
        let mut object = json!({
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscalerCheckpoint",
            "metadata": {
                "namespace": "shop", "name": "web-main", "uid": "c1", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"vpaObjectName": "web", "containerName": "main"},
        });
        if !status.is_null() {
            object["status"] = status;
        }
        api::parse_text(object.to_string().as_bytes()).map(Checkpoint::from_k8s)
    }

    #[test]
    fn an_object_without_status_holds_nothing() {
        let expected = Checkpoint {
            key: ObjectKey::new("shop", "web-main"),
            uid: "c1".to_owned(),
            resource_version: "7".to_owned(),
            is_annotated: false,
            sizing_history: None,
            created: "2026-01-01T00:00:00Z".parse().ok(),
            spec: VerticalPodAutoscalerCheckpointSpec {
                vpa_object_name: "web".to_owned(),
                container_name: "main".to_owned(),
            },
            status: None,
        };
        assert_eq!(expected.vpa(), ObjectKey::new("shop", "web"));
        assert_eq!(from_k8s(Value::Null), Ok(expected));
    }

    #[test]
    fn weights_are_read_to_the_last_bit() {
        let histogram =
            json!({"bucketWeights": {"8": 9957}, "totalWeight": 149.355_173_068_049_82});
        let object = from_k8s(json!({"version": "v3", "cpuHistogram": histogram}));
        let status = object.expect("an object").status;
        let histogram = status.expect("a status").cpu_histogram;
        assert_eq!(histogram.bucket_weights, [(8, 9957)].into());
        let expected = 149.355_173_068_049_82_f64;
        assert_eq!(histogram.total_weight.to_bits(), expected.to_bits());
    }

    #[test]
    fn a_field_that_does_not_parse_is_named() {
        let error = from_k8s(json!({"cpuHistogram": {"bucketWeights": {"x": 1}}}))
            .expect_err("x is no bucket");
        assert_eq!(
            (error.namespace.as_str(), error.name.as_str()),
            ("shop", "web-main")
        );
        assert!(error.field.contains("bucketWeights"), "{error}");
    }
}
