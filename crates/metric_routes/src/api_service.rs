//! State of the adapter's `APIService` objects. An object that refers to another Service, or whose
//! bundle cert-manager injects, is not the adapter's to change.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serving::ca_bundles::CERT_MANAGER_INJECT;
use serving::own_service::OwnService;

/// The objects of the APIs that the adapter serves.
pub const API_SERVICES: [&str; 3] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    EXTERNAL,
];
pub const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
/// The field manager of `plimsoll migrate adopt` and `release`.
pub const ADOPTER: &str = "plimsoll-adopt";

/// State of an `APIService` object, as seen by the adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiServiceState {
    /// The object does not exist.
    Missing,
    /// The object refers to this Service, which is not the adapter's.
    Elsewhere(String),
    /// `insecureSkipTLSVerify` is set. The API server accepts no bundle until it is removed.
    Insecure,
    Injected(CaBundle),
    Ours(CaBundle),
}

/// Authorities with which the API server verifies the adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaBundle {
    /// The authorities, in PEM.
    pub bundle: String,
    /// Whether the condition `Available` is true.
    pub is_available: bool,
}

/// Classifies an object for the adapter behind this Service.
pub fn standing(present: Option<&APIService>, own: &OwnService) -> ApiServiceState {
    let Some(present) = present else {
        return ApiServiceState::Missing;
    };
    let spec = present.spec.as_ref();
    let service = spec.and_then(|spec| spec.service.as_ref());
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let service = service.map_or_else(
        || OwnService::new("", ""),
        |service| OwnService::new(text(&service.namespace), text(&service.name)),
    );
    if service != *own {
        return ApiServiceState::Elsewhere(service.to_string());
    }
    if spec.is_some_and(|spec| spec.insecure_skip_tls_verify == Some(true)) {
        return ApiServiceState::Insecure;
    }
    let bundle = spec.and_then(|spec| spec.ca_bundle.as_ref());
    let bundle = bundle.map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned());
    let trusted = CaBundle {
        bundle: bundle.unwrap_or_default(),
        is_available: is_available(present),
    };
    if is_injected(present) {
        ApiServiceState::Injected(trusted)
    } else {
        ApiServiceState::Ours(trusted)
    }
}

pub fn is_available(present: &APIService) -> bool {
    let status = present.status.iter();
    let mut conditions = status.flat_map(|status| &status.conditions).flatten();
    conditions.any(|condition| condition.type_ == "Available" && condition.status == "True")
}

fn is_injected(present: &APIService) -> bool {
    let annotations = present.metadata.annotations.iter().flatten();
    let mut names = annotations.map(|(name, _)| name);
    names.any(|name| name.starts_with(CERT_MANAGER_INJECT))
}

/// Field managers of `caBundle`.
pub fn writers(present: &APIService) -> impl Iterator<Item = &str> {
    let entries = present.metadata.managed_fields.iter().flatten();
    let wrote = entries.filter(|entry| {
        let mut fields = entry.fields_v1.iter();
        fields.any(|fields| fields.0.pointer("/f:spec/f:caBundle").is_some())
    });
    wrote.filter_map(|entry| entry.manager.as_deref())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;

    fn own() -> OwnService {
        OwnService::new("suite", "adapter")
    }

    fn trusted(is_available: bool) -> CaBundle {
        CaBundle {
            bundle: "bundle".to_owned(),
            is_available,
        }
    }

    fn check(change: &Value, expected: &ApiServiceState) {
        let mut object = json!({
            "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
            "spec": {
                "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": {"namespace": "suite", "name": "adapter"},
                "caBundle": ByteString(b"bundle".to_vec()),
            },
            "status": {"conditions": [{"type": "Available", "status": "True"}]},
        });
        for (pointer, value) in change.as_object().into_iter().flatten() {
            *object.pointer_mut(pointer).expect("a field") = value.clone();
        }
        let present: APIService = serde_json::from_value(object).expect("an object");
        assert_eq!(standing(Some(&present), &own()), *expected, "{change}");
    }

    #[test]
    fn only_objects_that_refer_to_this_service_are_ours() {
        assert_eq!(standing(None, &own()), ApiServiceState::Missing);
        let ours = |is_available| ApiServiceState::Ours(trusted(is_available));
        check(&json!({}), &ours(true));
        check(&json!({"/status": null}), &ours(false));
        check(
            &json!({"/status/conditions/0/status": "False"}),
            &ours(false),
        );
        for (pointer, value, service) in [
            ("/spec/service/name", json!("keda"), "suite/keda"),
            ("/spec/service/namespace", json!("keda"), "keda/adapter"),
            ("/spec/service", json!(null), "/"),
        ] {
            let expected = ApiServiceState::Elsewhere(service.to_owned());
            check(&json!({pointer: value}), &expected);
        }
        let insecure = json!({
            "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"namespace": "suite", "name": "adapter"},
        });
        check(&json!({"/spec": insecure}), &ApiServiceState::Insecure);
    }

    #[test]
    fn what_cert_manager_puts_in_place_is_its_own() {
        let injected = ApiServiceState::Injected(trusted(true));
        let annotated = json!({"annotations": {"cert-manager.io/inject-ca-from": "suite/adapter"}});
        check(&json!({"/metadata": annotated}), &injected);
        let owner = |manager: &str, field: &str| json!({"/metadata": {"managedFields": [{"manager": manager, "fieldsV1": {"f:spec": {field: {}}}}]}});
        let ours = ApiServiceState::Ours(trusted(true));
        // It injects no more once its annotation is gone.
        check(&owner("cert-manager-cainjector", "f:caBundle"), &ours);
        check(&owner("kubectl", "f:caBundle"), &ours);
    }
}
