//! The plans of `adopt` and `release`: pure functions of the objects that were read.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};
use metric_routes::api_service::{ApiServiceState, standing};
use serving::ca_bundles::CERT_MANAGER_INJECT as INJECTED;
use serving::own_service::OwnService;

/// Annotation that Plimsoll writes on an `APIService`: its spec before `plimsoll migrate adopt`; see
/// docs/routes.md#replacing-an-existing-provider.
pub(super) const ADOPTED_FROM: &str = "plimsoll.dev/adopted-from";

const MISSING: &str =
    "it does not exist: add the component external-metrics-api, which creates it for the adapter";

#[derive(Debug)]
pub(super) struct AdoptionPlan {
    pub(super) from: OwnService,
    pub(super) port: i32,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) bundle: String,
}

/// Plans the adoption of an `APIService`; `None` if it points at the adapter. `custom`: the objects
/// of the adapter's other API, which prove that the adapter is reachable and have its CA bundle.
pub(super) fn plan_adoption(
    present: Option<&APIService>,
    custom: &[(&str, Option<APIService>)],
    own: &OwnService,
) -> anyhow::Result<Option<AdoptionPlan>> {
    let present = present.context(MISSING)?;
    if !matches!(standing(Some(present), own), ApiServiceState::Elsewhere(_)) {
        return Ok(None);
    }
    let spec = present.spec.clone().unwrap_or_default();
    let (from, port) = service_of(&spec).context("it points at no Service")?;
    let mut annotations = present.metadata.annotations.iter().flatten();
    if let Some((key, _)) = annotations.find(|(key, _)| key.starts_with(INJECTED)) {
        bail!("cert-manager would replace its caBundle: remove its annotation {key} first");
    }
    let (bundle, mut annotations) = verified_bundle(custom, own)?;
    let before = serde_json::to_string(&spec).unwrap_or_default();
    annotations.insert(ADOPTED_FROM.to_owned(), before);
    Ok(Some(AdoptionPlan {
        from,
        port,
        annotations,
        bundle,
    }))
}

/// Plans the release of an `APIService`. `force`: even if it now points at another Service.
pub(super) fn plan_release(
    present: Option<&APIService>,
    own: &OwnService,
    force: bool,
) -> anyhow::Result<APIService> {
    let mut released = present.context(MISSING)?.clone();
    let annotations = released.metadata.annotations.get_or_insert_default();
    let annotation = annotations.get(ADOPTED_FROM);
    let annotation = annotation
        .with_context(|| format!("it has no annotation {ADOPTED_FROM}: it was not adopted"))?;
    let spec: APIServiceSpec = serde_json::from_str(annotation)
        .with_context(|| format!("its annotation {ADOPTED_FROM} cannot be read"))?;
    if let ApiServiceState::Elsewhere(service) = standing(present, own)
        && !force
    {
        bail!("it now points at the Service {service}: use --force to proceed");
    }
    annotations.retain(|key, _| key != ADOPTED_FROM && !key.starts_with(INJECTED));
    released.spec = Some(spec);
    Ok(released)
}

pub(super) fn service_of(spec: &APIServiceSpec) -> Option<(OwnService, i32)> {
    let service = spec.service.clone()?;
    let port = service.port.unwrap_or(443);
    let (namespace, name) = (service.namespace, service.name);
    let service = OwnService::new(namespace.unwrap_or_default(), name.unwrap_or_default());
    Some((service, port))
}

/// Returns the CA bundle with which the API server reaches the adapter in its other API, and the
/// annotations that have cert-manager maintain it.
fn verified_bundle(
    custom: &[(&str, Option<APIService>)],
    own: &OwnService,
) -> anyhow::Result<(String, BTreeMap<String, String>)> {
    let mut found = Vec::new();
    for (name, object) in custom {
        let why = match standing(object.as_ref(), own) {
            ApiServiceState::Ours(trusted) | ApiServiceState::Injected(trusted)
                if trusted.is_available =>
            {
                if !trusted.bundle.is_empty() {
                    let object = object.clone().unwrap_or_default();
                    let mut injected = object.metadata.annotations.unwrap_or_default();
                    injected.retain(|key, _| key.starts_with(INJECTED));
                    return Ok((trusted.bundle, injected));
                }
                "has no caBundle".to_owned()
            }
            ApiServiceState::Ours(_) | ApiServiceState::Injected(_) => {
                "is not available".to_owned()
            }
            ApiServiceState::Missing => "does not exist".to_owned(),
            ApiServiceState::Elsewhere(service) => format!("points at {service}"),
            ApiServiceState::Insecure => "has insecureSkipTLSVerify".to_owned(),
        };
        found.push(format!("{name} {why}"));
    }
    bail!(
        "no APIService of custom.metrics.k8s.io points at {own} and is available, so its caBundle is unknown: {}; \
         migrate the provider of that API first",
        found.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;

    fn own() -> OwnService {
        OwnService::new("suite", "adapter")
    }

    fn object(service: &str, bundle: &str, available: &str, annotations: &Value) -> APIService {
        let (namespace, name) = service.split_once('/').expect("a namespace and a name");
        serde_json::from_value(json!({
            "metadata": {"name": "v1beta1.external.metrics.k8s.io", "annotations": annotations},
            "spec": {
                "group": "external.metrics.k8s.io", "version": "v1beta1",
                "groupPriorityMinimum": 77, "versionPriority": 7,
                "service": {"namespace": namespace, "name": name, "port": 8443},
                "caBundle": ByteString(bundle.as_bytes().to_vec()),
            },
            "status": {"conditions": [{"type": "Available", "status": available}]},
        }))
        .expect("an object")
    }

    fn custom(object: APIService) -> [(&'static str, Option<APIService>); 2] {
        [("first", None), ("second", Some(object))]
    }

    fn ours(bundle: &str, annotations: &Value) -> APIService {
        object("suite/adapter", bundle, "True", annotations)
    }

    #[test]
    fn release_restores_the_adopted_object() {
        let old = object("keda/metrics", "theirs", "True", &json!({"a": "b"}));
        let own_objects = custom(ours("own_objects", &json!({})));
        let adoption = plan_adoption(Some(&old), &own_objects, &own())
            .expect("nothing against it")
            .expect("it points at another Service");
        assert_eq!(
            (adoption.from.name.as_str(), adoption.port),
            ("metrics", 8443)
        );
        assert_eq!(adoption.bundle, "own_objects");
        let mut taken = ours("own_objects", &json!({"a": "b"}));
        let annotations = taken.metadata.annotations.get_or_insert_default();
        annotations.extend(adoption.annotations);
        let mut lost = taken.clone();
        lost.spec = object("other/one", "x", "True", &json!({})).spec;
        let elsewhere = "it now points at the Service other/one: use --force to proceed";
        let not_adopted = "it has no annotation plimsoll.dev/adopted-from: it was not adopted";
        for (present, force, expected) in [
            (Some(&taken), false, Ok(old.clone())),
            (Some(&lost), false, Err(elsewhere)),
            (Some(&lost), true, Ok(old.clone())),
            (Some(&old), false, Err(not_adopted)),
            (None, false, Err(MISSING)),
        ] {
            let released = plan_release(present, &own(), force).map_err(|error| error.to_string());
            assert_eq!(released, expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn an_object_of_the_adapter_is_not_adopted() {
        let own_objects = ours("own_objects", &json!({}));
        let plan = plan_adoption(Some(&own_objects), &[], &own()).expect("nothing against it");
        assert!(plan.is_none());
    }

    fn check_refused(present: Option<&APIService>, own_objects: APIService, expected: &str) {
        let error = plan_adoption(present, &custom(own_objects), &own())
            .expect_err("it must be refused")
            .to_string();
        assert!(error.contains(expected), "{error}\ninstead of {expected}");
    }

    #[test]
    fn an_adoption_that_would_not_work_is_refused() {
        let available = || ours("own_objects", &json!({}));
        let old = object("keda/metrics", "theirs", "True", &json!({}));
        check_refused(None, available(), "it does not exist");
        let mut local = old.clone();
        local.spec.as_mut().expect("a spec").service = None;
        check_refused(Some(&local), available(), "it points at no Service");
        let injecting = json!({"cert-manager.io/inject-ca-from": "keda/cert"});
        let injected = object("keda/metrics", "x", "True", &injecting);
        let why = "remove its annotation cert-manager.io/inject-ca-from";
        check_refused(Some(&injected), available(), why);
        let ill = object("suite/adapter", "own_objects", "False", &json!({}));
        let why = "first does not exist, second is not available";
        check_refused(Some(&old), ill, why);
        let empty = ours("", &json!({}));
        check_refused(Some(&old), empty, "second has no caBundle");
        check_refused(Some(&old), old.clone(), "second points at keda/metrics");
    }

    #[test]
    fn cert_manager_keeps_injecting_the_adapters_ca_bundle() {
        let injecting = json!({"cert-manager.io/inject-ca-from": "suite/adapter"});
        let old = object("keda/metrics", "theirs", "True", &json!({}));
        let own_objects = custom(ours("own_objects", &injecting));
        let adoption = plan_adoption(Some(&old), &own_objects, &own())
            .expect("nothing against it")
            .expect("it points at another Service");
        assert_eq!(
            adoption.annotations["cert-manager.io/inject-ca-from"],
            "suite/adapter"
        );
        let mut taken = ours("own_objects", &json!({}));
        taken.metadata.annotations = Some(adoption.annotations);
        let released = plan_release(Some(&taken), &own(), false).expect("it was taken over");
        assert_eq!(
            (released.spec, released.metadata.annotations),
            (old.spec, Some(BTreeMap::new()))
        );
    }
}
