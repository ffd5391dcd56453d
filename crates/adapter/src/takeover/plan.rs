//! Whether an `APIService` is taken over, and what it becomes: a function of what was seen.

use std::collections::BTreeMap;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};

use crate::registration::{INJECTED, Standing, standing};
use crate::service_ref::OwnService;

/// Where what an object was before is kept.
pub(super) const ADOPTED_FROM: &str = "plimsoll.dev/adopted-from";

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AdoptionError {
    /// There is nothing to take over.
    #[error(
        "it is not there, so nobody is to be replaced: apply deploy/base, which brings one that leads to the adapter"
    )]
    Missing,
    /// It is the API server's own.
    #[error("it leads to no Service")]
    Local,
    /// It would not be told whom to trust.
    #[error(
        "cert-manager puts authorities into it that are not the adapter's: take away its annotation {0} first"
    )]
    Injected(String),
    /// The adapter is not known to answer.
    #[error(
        "no APIService of custom.metrics.k8s.io leads to {service} and is available, so that there are no authorities to go by: {found}"
    )]
    Unproven {
        /// The adapter's Service.
        service: String,
        /// What there is.
        found: String,
    },
    /// It was not taken over.
    #[error("it has no annotation {ADOPTED_FROM}: it was not taken over")]
    NotAdopted,
    /// The annotation is not ours.
    #[error("its annotation {ADOPTED_FROM} cannot be read: {0}")]
    Unreadable(String),
    /// Somebody else has it.
    #[error(
        "it leads to the Service {0} by now, which it would be taken from: --force does it all the same"
    )]
    Elsewhere(String),
}

/// What it takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AdoptionPlan {
    /// Whose it has been.
    pub(super) from: OwnService,
    /// Where the Service of those was reached.
    pub(super) port: i32,
    /// Annotations that it gets.
    pub(super) annotations: BTreeMap<String, String>,
    /// What the API server is to trust.
    pub(super) bundle: String,
}

/// What taking over `present` takes; nothing if it leads to the adapter. `custom`: the objects of
/// the adapter's other API, by which it is known to answer, and with which authorities.
pub(super) fn plan_adoption(
    present: Option<&APIService>,
    custom: &[(String, Option<APIService>)],
    own: &OwnService,
) -> Result<Option<AdoptionPlan>, AdoptionError> {
    let present = present.ok_or(AdoptionError::Missing)?;
    if !matches!(standing(Some(present), own), Standing::Elsewhere(_)) {
        return Ok(None);
    }
    let spec = present.spec.clone().unwrap_or_default();
    let Some((from, port)) = service_of(&spec) else {
        return Err(AdoptionError::Local);
    };
    let annotations = present.metadata.annotations.iter().flatten();
    if let Some((key, _)) = annotations
        .into_iter()
        .find(|(key, _)| key.starts_with(INJECTED))
    {
        return Err(AdoptionError::Injected(key.clone()));
    }
    let (bundle, mut annotations) = verified_bundle(custom, own)?;
    annotations.insert(ADOPTED_FROM.to_owned(), before(&spec));
    Ok(Some(AdoptionPlan {
        from,
        port,
        annotations,
        bundle,
    }))
}

/// What `present` is to be again. `force`: also if it leads to somebody else by now.
pub(super) fn plan_release(
    present: Option<&APIService>,
    own: &OwnService,
    force: bool,
) -> Result<APIService, AdoptionError> {
    let present = present.ok_or(AdoptionError::Missing)?;
    let kept = present
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(ADOPTED_FROM));
    let kept = kept.ok_or(AdoptionError::NotAdopted)?;
    let spec: APIServiceSpec =
        serde_json::from_str(kept).map_err(|error| AdoptionError::Unreadable(error.to_string()))?;
    if let Standing::Elsewhere(service) = standing(Some(present), own)
        && !force
    {
        return Err(AdoptionError::Elsewhere(service));
    }
    let mut released = present.clone();
    released.spec = Some(spec);
    if let Some(annotations) = &mut released.metadata.annotations {
        annotations.retain(|key, _| key != ADOPTED_FROM && !key.starts_with(INJECTED));
    }
    Ok(released)
}

/// To which Service an object leads, and at which port.
pub(super) fn service_of(spec: &APIServiceSpec) -> Option<(OwnService, i32)> {
    let service = spec.service.clone()?;
    let (namespace, name) = (
        service.namespace.unwrap_or_default(),
        service.name.unwrap_or_default(),
    );
    Some((OwnService { namespace, name }, service.port.unwrap_or(443)))
}

fn before(spec: &APIServiceSpec) -> String {
    serde_json::to_string(spec).unwrap_or_default()
}

/// What the API server trusts when it asks the adapter for the other API, and what has cert-manager
/// look after that.
fn verified_bundle(
    custom: &[(String, Option<APIService>)],
    own: &OwnService,
) -> Result<(String, BTreeMap<String, String>), AdoptionError> {
    let mut found = Vec::new();
    for (name, object) in custom {
        let why = match standing(object.as_ref(), own) {
            Standing::Ours(trusted) | Standing::Injected(trusted) if trusted.is_available => {
                if !trusted.bundle.is_empty() {
                    let annotations = object
                        .iter()
                        .flat_map(|object| object.metadata.annotations.iter().flatten());
                    let injected = annotations.filter(|(key, _)| key.starts_with(INJECTED));
                    return Ok((
                        trusted.bundle,
                        injected
                            .map(|(key, value)| (key.clone(), value.clone()))
                            .collect(),
                    ));
                }
                "has no authorities".to_owned()
            }
            Standing::Ours(_) | Standing::Injected(_) => "is not available".to_owned(),
            Standing::Missing => "is not there".to_owned(),
            Standing::Elsewhere(service) => format!("leads to {service}"),
            Standing::Insecure => "has insecureSkipTLSVerify".to_owned(),
        };
        found.push(format!("{name} {why}"));
    }
    let OwnService { namespace, name } = own;
    Err(AdoptionError::Unproven {
        service: format!("{namespace}/{name}"),
        found: found.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;

    fn own() -> OwnService {
        OwnService {
            namespace: "suite".to_owned(),
            name: "adapter".to_owned(),
        }
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

    fn custom(object: APIService) -> [(String, Option<APIService>); 2] {
        [
            ("first".to_owned(), None),
            ("second".to_owned(), Some(object)),
        ]
    }

    #[test]
    fn what_is_taken_over_and_released_is_what_it_was() {
        let old = object("keda/metrics", "theirs", "True", &json!({"a": "b"}));
        let ours = custom(object("suite/adapter", "ours", "True", &json!({})));
        let adoption = plan_adoption(Some(&old), &ours, &own())
            .expect("nothing against it")
            .expect("it leads elsewhere");
        assert_eq!(
            (
                adoption.from.name.as_str(),
                adoption.port,
                adoption.bundle.as_str()
            ),
            ("metrics", 8443, "ours")
        );
        let mut taken = object("suite/adapter", "ours", "True", &json!({"a": "b"}));
        taken
            .metadata
            .annotations
            .as_mut()
            .expect("some")
            .extend(adoption.annotations);
        assert_eq!(plan_release(Some(&taken), &own(), false), Ok(old.clone()));
        let mut lost = taken.clone();
        lost.spec = object("other/one", "x", "True", &json!({})).spec;
        assert_eq!(
            plan_release(Some(&lost), &own(), false),
            Err(AdoptionError::Elsewhere("other/one".to_owned()))
        );
        assert_eq!(plan_release(Some(&lost), &own(), true), Ok(old.clone()));
        assert_eq!(
            plan_release(Some(&old), &own(), false),
            Err(AdoptionError::NotAdopted)
        );
        assert_eq!(
            plan_release(None, &own(), false),
            Err(AdoptionError::Missing)
        );
    }

    #[test]
    fn what_leads_to_the_adapter_stays_as_it_is() {
        let ours = object("suite/adapter", "ours", "True", &json!({}));
        assert_eq!(plan_adoption(Some(&ours), &[], &own()), Ok(None));
    }

    fn check_refused(present: Option<&APIService>, ours: APIService, expected: &str) {
        let error = plan_adoption(present, &custom(ours), &own())
            .expect_err("it must be refused")
            .to_string();
        assert!(error.contains(expected), "{error}\ninstead of {expected}");
    }

    #[test]
    fn nothing_is_taken_over_that_would_not_work() {
        let available = || object("suite/adapter", "ours", "True", &json!({}));
        let old = object("keda/metrics", "theirs", "True", &json!({}));
        check_refused(None, available(), "it is not there");
        let mut local = old.clone();
        local.spec.as_mut().expect("a spec").service = None;
        check_refused(Some(&local), available(), "it leads to no Service");
        let injected = object(
            "keda/metrics",
            "x",
            "True",
            &json!({"cert-manager.io/inject-ca-from": "keda/cert"}),
        );
        check_refused(
            Some(&injected),
            available(),
            "take away its annotation cert-manager.io/inject-ca-from",
        );
        let ill = object("suite/adapter", "ours", "False", &json!({}));
        check_refused(
            Some(&old),
            ill,
            "first is not there, second is not available",
        );
        check_refused(
            Some(&old),
            object("suite/adapter", "", "True", &json!({})),
            "second has no authorities",
        );
        check_refused(Some(&old), old.clone(), "second leads to keda/metrics");
    }

    #[test]
    fn cert_manager_goes_on_looking_after_the_adapters_authorities() {
        let injecting = json!({"cert-manager.io/inject-ca-from": "suite/adapter"});
        let old = object("keda/metrics", "theirs", "True", &json!({}));
        let ours = custom(object("suite/adapter", "ours", "True", &injecting));
        let adoption = plan_adoption(Some(&old), &ours, &own())
            .expect("nothing against it")
            .expect("it leads elsewhere");
        assert_eq!(
            adoption.annotations["cert-manager.io/inject-ca-from"],
            "suite/adapter"
        );
        let mut taken = object("suite/adapter", "ours", "True", &json!({}));
        taken.metadata.annotations = Some(adoption.annotations);
        let released = plan_release(Some(&taken), &own(), false).expect("it was taken over");
        assert_eq!(
            (released.spec, released.metadata.annotations),
            (old.spec, Some(BTreeMap::new()))
        );
    }
}
