//! Objects for the unit tests of this module.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::address::{PodAddress, Pool};
use super::config_objects::Objects;

/// A pod named `pod` with these fields of its own.
pub(super) fn pod(fields: &Value) -> Pod {
    let mut object = json!({"metadata": {"name": "pod", "namespace": "default", "uid": "uid"}, "spec": {"containers": []}});
    json_patch::merge(&mut object, fields);
    serde_json::from_value(object).unwrap()
}

pub(super) fn address() -> PodAddress {
    Pool::new(130).take().unwrap()
}

/// A `ConfigMap` named `settings` and a Secret named `tls`.
pub(super) fn objects() -> Objects {
    let from = |value: Value| serde_json::from_value(value).unwrap();
    Objects {
        config_maps: [(
            "settings".to_owned(),
            serde_json::from_value(json!({"data": {"mode": "fast"}})).unwrap(),
        )]
        .into(),
        secrets: [(
            "tls".to_owned(),
            from(json!({"data": {"tls.key": "a2V5", "tls.crt": "Y2VydA=="}})),
        )]
        .into(),
        services: Vec::new(),
    }
}
