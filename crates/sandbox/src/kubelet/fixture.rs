//! Objects for the unit tests of this module.

use std::sync::Arc;

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
    let settings = json!({"metadata": {"name": "settings"}, "data": {"mode": "fast"}});
    let tls =
        json!({"metadata": {"name": "tls"}, "data": {"tls.key": "a2V5", "tls.crt": "Y2VydA=="}});
    Objects {
        config_maps: vec![Arc::new(serde_json::from_value(settings).unwrap())],
        secrets: vec![Arc::new(serde_json::from_value(tls).unwrap())],
        services: Vec::new(),
    }
}
