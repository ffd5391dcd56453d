//! The registration of the webhook: a `MutatingWebhookConfiguration` as upstream writes it, with
//! all defaults, so that it can be compared with the one in the API server. The replica that holds
//! a Lease writes it: during a rollout, replicas with different flags would change it in turns.

mod other_webhook;
mod owner;
mod registrar;
mod selection;
mod write;

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::pod_annotations::OPT_OUT_LABEL;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::core::ObjectMeta;
use serving::ca_bundles::CERT_MANAGER_INJECT;

pub use other_webhook::OtherWebhooks;
pub use owner::Owner;
pub use registrar::Registrar;
pub(crate) use selection::ANNOTATION as SELECTION_ANNOTATION;
use selection::with_requirement;
pub use selection::{NamespaceScope, Selection};
pub use write::Writer;

pub const CONFIGURATION: &str = "vpa-webhook-config";
pub const WEBHOOK: &str = "vpa.k8s.io";
const PORT: i32 = 443;

/// The desired registration without its CA bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    pub address: Address,
    pub labels: BTreeMap<String, String>,
    pub timeout_seconds: i32,
    /// The action without a response.
    pub failure_policy: FailurePolicy,
    pub namespaces: NamespaceScope,
    /// Further selectors and conditions.
    pub selection: Selection,
    /// Whether objects are reviewed again after changes of later webhooks.
    pub is_reinvoked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Service { namespace: String, name: String },
    Url(String),
}

impl Address {
    /// The names in the server certificate. The first one is that of the TLS handshake.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name } => vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
            ],
            Self::Url(url) => {
                let url = url.trim_start_matches("https://");
                let authority = url.split(['/', '?']).next().unwrap_or_default();
                let host = match authority.strip_prefix('[') {
                    Some(rest) => rest.split(']').next().unwrap_or_default(),
                    None => authority.split(':').next().unwrap_or_default(),
                };
                // As in a certificate: IP addresses in canonical form, names in lower case.
                let address = host.parse::<IpAddr>().map(|address| address.to_string());
                vec![address.unwrap_or_else(|_| host.to_ascii_lowercase())]
            }
        }
    }
}

/// The action of the API server without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    Ignore,
    Fail,
}

impl Registration {
    /// Refuses a second review where containers start with more CPU: it would take the boosted CPU
    /// for that of the manifest.
    pub fn check_reinvocation(&self, has_startup_boosts: bool) -> anyhow::Result<()> {
        anyhow::ensure!(
            !(self.is_reinvoked && has_startup_boosts),
            "reinvocationPolicy IfNeeded and the feature gate CPUStartupBoost exclude each other: a second \
             review would take the boosted CPU for that of the manifest"
        );
        Ok(())
    }

    /// The desired configuration, given the current one. `bundle` is the CA bundle in PEM; `None`
    /// keeps the current one, and so does an annotation of cert-manager. `owner` is the object with
    /// which the configuration is deleted; `None` keeps the current one. Additions of others to
    /// selectors and match conditions are kept, since they would be made again (by AKS, for one).
    pub fn desired(
        &self,
        bundle: Option<&str>,
        owner: Option<&OwnerReference>,
        current: Option<&MutatingWebhookConfiguration>,
    ) -> MutatingWebhookConfiguration {
        let found = current.and_then(webhook_of);
        let annotations = current.and_then(|current| current.metadata.annotations.clone());
        let mut names = annotations.iter().flatten().map(|(name, _)| name);
        let is_external =
            bundle.is_none() || names.any(|name| name.starts_with(CERT_MANAGER_INJECT));
        let ca_bundle = if is_external {
            current.and_then(bundle_of)
        } else {
            bundle.map(|bundle| bundle.as_bytes().to_vec())
        };
        let (service, url) = match &self.address {
            Address::Service { namespace, name } => {
                let service = ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    port: Some(PORT),
                    path: None,
                };
                (Some(service), None)
            }
            Address::Url(url) => (None, Some(url.clone())),
        };
        let recorded = Selection::recorded(current);
        let (namespace_selector, object_selector) = self.selectors(found, &recorded);
        let reinvocation = if self.is_reinvoked {
            "IfNeeded"
        } else {
            "Never"
        };
        let failure_policy = match self.failure_policy {
            FailurePolicy::Ignore => "Ignore",
            FailurePolicy::Fail => "Fail",
        };
        let webhook = MutatingWebhook {
            name: WEBHOOK.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: WebhookClientConfig {
                ca_bundle: ca_bundle.map(ByteString),
                service,
                url,
            },
            rules: Some(vec![
                rule("", "v1", "pods", &["CREATE"]),
                rule(
                    "autoscaling.k8s.io",
                    "*",
                    "verticalpodautoscalers",
                    &["CREATE", "UPDATE"],
                ),
            ]),
            side_effects: "None".to_owned(),
            failure_policy: Some(failure_policy.to_owned()),
            timeout_seconds: Some(self.timeout_seconds),
            match_policy: Some("Equivalent".to_owned()),
            reinvocation_policy: Some(reinvocation.to_owned()),
            namespace_selector: Some(namespace_selector),
            object_selector: Some(object_selector),
            match_conditions: selection::conditions(
                found.and_then(|found| found.match_conditions.as_ref()),
                &recorded.match_conditions,
                &self.selection.match_conditions,
            ),
        };
        let mut labels = current
            .and_then(|current| current.metadata.labels.clone())
            .unwrap_or_default();
        labels.extend(self.labels.clone());
        let mut annotations = annotations.unwrap_or_default();
        annotations.remove(SELECTION_ANNOTATION);
        let record = self.selection.record();
        annotations.extend(record.map(|record| (SELECTION_ANNOTATION.to_owned(), record)));
        let metadata = ObjectMeta {
            name: Some(CONFIGURATION.to_owned()),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            owner_references: match owner {
                Some(owner) => Some(vec![owner.clone()]),
                None => current.and_then(|current| current.metadata.owner_references.clone()),
            },
            ..ObjectMeta::default()
        };
        MutatingWebhookConfiguration {
            metadata,
            webhooks: Some(vec![webhook]),
        }
    }

    /// The desired selectors of namespaces and objects, without the recorded selection of earlier
    /// flags.
    fn selectors(
        &self,
        found: Option<&MutatingWebhook>,
        recorded: &Selection,
    ) -> (LabelSelector, LabelSelector) {
        let namespaces = found.and_then(|found| found.namespace_selector.as_ref());
        let namespaces =
            namespaces.map(|current| selection::without(current, &recorded.namespace_selector));
        let namespaces = self.namespaces.selector(namespaces.as_ref());
        let objects = found.and_then(|found| found.object_selector.as_ref());
        let objects = objects.map(|current| selection::without(current, &recorded.object_selector));
        let opt_out = Some(("NotIn", vec!["true".to_owned()]));
        let objects = with_requirement(objects.as_ref(), OPT_OUT_LABEL, opt_out);
        let own = &self.selection;
        (
            selection::with(namespaces, &own.namespace_selector),
            selection::with(objects, &own.object_selector),
        )
    }
}

pub fn bundle_of(current: &MutatingWebhookConfiguration) -> Option<Vec<u8>> {
    let bundle = webhook_of(current)?.client_config.ca_bundle.as_ref()?;
    Some(bundle.0.clone())
}

fn webhook_of(current: &MutatingWebhookConfiguration) -> Option<&MutatingWebhook> {
    let mut webhooks = current.webhooks.iter().flatten();
    webhooks.find(|webhook| webhook.name == WEBHOOK)
}

pub fn is_current(
    current: &MutatingWebhookConfiguration,
    desired: &MutatingWebhookConfiguration,
) -> bool {
    let (current_metadata, metadata) = (&current.metadata, &desired.metadata);
    current.webhooks == desired.webhooks
        && selection_of(current) == selection_of(desired)
        && current_metadata.labels == metadata.labels
        && current_metadata.owner_references == metadata.owner_references
}

/// The recorded selection as JSON.
fn selection_of(configuration: &MutatingWebhookConfiguration) -> Option<&String> {
    let annotations = configuration.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(SELECTION_ANNOTATION))
}

fn rule(group: &str, version: &str, resource: &str, operations: &[&str]) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![group.to_owned()]),
        api_versions: Some(vec![version.to_owned()]),
        operations: Some(operations.iter().map(ToString::to_string).collect()),
        resources: Some(vec![resource.to_owned()]),
        scope: Some("*".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::selection::NAMESPACE_LABEL;
    use super::*;

    pub(super) fn registration() -> Registration {
        Registration {
            address: Address::Service {
                namespace: "suite".to_owned(),
                name: "vpa-webhook".to_owned(),
            },
            labels: BTreeMap::from([("team".to_owned(), "sizes".to_owned())]),
            timeout_seconds: 30,
            failure_policy: FailurePolicy::Ignore,
            namespaces: NamespaceScope::AllExcept(Vec::new()),
            selection: Selection::default(),
            is_reinvoked: false,
        }
    }

    fn current(annotation: &str) -> MutatingWebhookConfiguration {
        let object = json!({
            "metadata": {"name": CONFIGURATION, "annotations": {annotation: "suite/vpa"}, "labels": {"app": "chart"}},
            "webhooks": [
                {"name": "other.example", "clientConfig": {"url": "https://other"}, "sideEffects": "None",
                 "admissionReviewVersions": ["v1"]},
                {"name": WEBHOOK, "clientConfig": {"caBundle": ByteString(b"theirs".to_vec())}, "sideEffects": "None",
                 "admissionReviewVersions": ["v1"]},
            ],
        });
        serde_json::from_value(object).expect("a configuration")
    }

    #[test]
    fn names_are_those_of_the_service_or_the_url() {
        let service = Address::Service {
            namespace: "suite".to_owned(),
            name: "hook".to_owned(),
        };
        assert_eq!(
            service.names(),
            ["hook.suite.svc", "hook.suite.svc.cluster.local"]
        );
        for (url, expected) in [
            ("https://vpa.example:8443/hook", "vpa.example"),
            ("https://127.0.0.1:1", "127.0.0.1"),
            ("https://[fd00::7]:8443", "fd00::7"),
            ("https://[FD00:0::7]:8443", "fd00::7"),
            ("https://VPA.example", "vpa.example"),
        ] {
            assert_eq!(Address::Url(url.to_owned()).names(), [expected], "{url}");
        }
    }

    #[test]
    fn bundles_of_other_programs_are_kept() {
        for (bundle, annotation, expected) in [
            (Some("ours"), "note", "ours"),
            (None, "note", "theirs"),
            (Some("ours"), "cert-manager.io/inject-ca-from", "theirs"),
            (
                Some("ours"),
                "cert-manager.io/inject-ca-from-secret",
                "theirs",
            ),
        ] {
            let current = current(annotation);
            let desired = registration().desired(bundle, None, Some(&current));
            let found = bundle_of(&desired);
            assert_eq!(found.as_deref(), Some(expected.as_bytes()), "{annotation}");
            assert_eq!(desired.metadata.annotations, current.metadata.annotations);
            let webhooks = desired.webhooks.iter().flatten().count();
            assert_eq!(webhooks, 1, "it is ours alone");
        }
    }

    #[test]
    fn the_owner_is_set_and_kept_while_it_is_not_known() {
        let owner = |uid: &str| OwnerReference {
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: "plimsoll-webhook".to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        };
        let registration = registration();
        let first = registration.desired(Some("ours"), Some(&owner("1")), None);
        assert_eq!(first.metadata.owner_references, Some(vec![owner("1")]));
        let unknown = registration.desired(Some("ours"), None, Some(&first));
        assert!(is_current(&first, &unknown));
        // The role was deleted and created again.
        let next = registration.desired(Some("ours"), Some(&owner("2")), Some(&first));
        assert!(!is_current(&first, &next));
        assert_eq!(next.metadata.owner_references, Some(vec![owner("2")]));
    }

    #[test]
    fn additions_of_others_are_kept() {
        let condition = json!({"name": "not-ours", "expression": "true"});
        let theirs = json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]});
        let mut registration = registration();
        let mut current = registration.desired(Some("ours"), None, None);
        let change = json!({"matchConditions": [condition], "namespaceSelector": {
            "matchExpressions": [theirs, {"key": NAMESPACE_LABEL, "operator": "In", "values": ["old"]}],
            "matchLabels": {"sized": "true"},
        }, "objectSelector": {"matchLabels": {"sized": "true"}}});
        let mut webhook = serde_json::to_value(&current.webhooks).expect("JSON");
        for (member, value) in change.as_object().expect("an object") {
            webhook[0][member] = value.clone();
        }
        current.webhooks = serde_json::from_value(webhook).expect("webhooks");
        let own = |operator: &str| json!({"key": NAMESPACE_LABEL, "operator": operator, "values": ["shop"]});
        let shop = "shop".to_owned();
        for (scope, expressions) in [
            (NamespaceScope::AllExcept(Vec::new()), json!([theirs])),
            (
                NamespaceScope::AllExcept(vec![shop.clone()]),
                json!([theirs, own("NotIn")]),
            ),
            (NamespaceScope::Only(shop), json!([theirs, own("In")])),
        ] {
            registration.namespaces = scope;
            let desired = registration.desired(Some("ours"), None, Some(&current));
            assert!(!is_current(&current, &desired));
            let webhook =
                serde_json::to_value(desired.webhooks.iter().flatten().next()).expect("JSON");
            let selector =
                json!({"matchExpressions": expressions, "matchLabels": {"sized": "true"}});
            assert_eq!(webhook["namespaceSelector"], selector);
            assert_eq!(webhook["matchConditions"], json!([condition]));
            let opt_out = json!({"key": OPT_OUT_LABEL, "operator": "NotIn", "values": ["true"]});
            let objects = json!({"matchExpressions": [opt_out], "matchLabels": {"sized": "true"}});
            assert_eq!(webhook["objectSelector"], objects);
            let next = registration.desired(Some("ours"), None, Some(&desired));
            assert!(is_current(&desired, &next), "{expressions}");
        }
    }

    #[test]
    fn the_configuration_is_upstreams_with_all_defaults() {
        let desired = serde_json::to_value(registration().desired(Some("ours"), None, None))
            .expect("it serializes");
        let webhook = json!({
            "name": "vpa.k8s.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "caBundle": ByteString(b"ours".to_vec()),
                "service": {"namespace": "suite", "name": "vpa-webhook", "port": 443},
            },
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"},
                {"apiGroups": ["autoscaling.k8s.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                 "resources": ["verticalpodautoscalers"], "scope": "*"},
            ],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 30,
            "matchPolicy": "Equivalent",
            "reinvocationPolicy": "Never",
            "namespaceSelector": {},
            "objectSelector": {
                "matchExpressions": [{"key": "plimsoll.dev/disable-webhook", "operator": "NotIn", "values": ["true"]}],
            },
        });
        assert_eq!(desired["webhooks"], json!([webhook]));
        assert_eq!(
            desired["metadata"],
            json!({"name": "vpa-webhook-config", "labels": {"team": "sizes"}})
        );
    }
}
