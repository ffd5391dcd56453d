//! How the API server is told of the webhook: the `MutatingWebhookConfiguration`, as upstream writes it, with every default
//! spelled out so that it can be compared with what the API server holds.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::ObjectMeta;

/// The name of the configuration.
pub const CONFIGURATION: &str = "vpa-webhook-config";
/// The name of the webhook in it.
pub const WEBHOOK: &str = "vpa.k8s.io";
/// Annotations of this kind have cert-manager put the authorities into the configuration.
const INJECTED: &str = "cert-manager.io/inject-";
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// What is registered, apart from the authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Where the API server asks.
    pub address: Address,
    /// Labels of the configuration.
    pub labels: BTreeMap<String, String>,
    /// How long it waits.
    pub timeout_seconds: i32,
    /// What it does without an answer.
    pub failure_policy: FailurePolicy,
    /// Of which namespaces it asks.
    pub reach: Reach,
}

/// Where the API server asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// A URL.
    Url(String),
}

impl Address {
    /// The names at which the API server asks, that of the handshake first.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name, .. } => {
                vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}.svc.cluster.local")]
            }
            Self::Url(url) => {
                let authority = url.trim_start_matches("https://").split(['/', '?']).next().unwrap_or_default();
                let host = match authority.strip_prefix('[') {
                    Some(rest) => rest.split(']').next().unwrap_or_default(),
                    None => authority.split(':').next().unwrap_or_default(),
                };
                vec![host.to_owned()]
            }
        }
    }
}

/// What the API server does without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It admits the object.
    Ignore,
    /// It refuses it.
    Fail,
}

/// Of which namespaces the API server asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// All but these.
    AllBut(Vec<String>),
    /// One.
    Only(String),
}

impl Reach {
    /// From the flags about namespaces. Where no answer means a refusal, the webhook must not depend on itself, nor the cluster's
    /// own pods on it.
    pub fn of(policy: FailurePolicy, own_namespace: &str, only: &str, ignored: &[String]) -> Self {
        if !only.is_empty() {
            return Self::Only(only.to_owned());
        }
        let mut but = ignored.to_vec();
        if policy == FailurePolicy::Fail {
            but.extend([own_namespace, "kube-system"].map(str::to_owned));
        }
        but.sort_unstable();
        but.dedup();
        Self::AllBut(but)
    }

    fn selector(&self) -> LabelSelector {
        let (operator, values) = match self {
            Self::AllBut(namespaces) if namespaces.is_empty() => return LabelSelector::default(),
            Self::AllBut(namespaces) => ("NotIn", namespaces.clone()),
            Self::Only(namespace) => ("In", vec![namespace.clone()]),
        };
        let requirement = LabelSelectorRequirement {
            key: NAMESPACE_LABEL.to_owned(),
            operator: operator.to_owned(),
            values: Some(values),
        };
        LabelSelector { match_expressions: Some(vec![requirement]), match_labels: None }
    }
}

impl Registration {
    /// The configuration as it should be, given the one that is there. `bundle`: the authorities in PEM; none where somebody else
    /// looks after them. What cert-manager injects is left alone in any case.
    pub fn wanted(
        &self,
        bundle: Option<&str>,
        present: Option<&MutatingWebhookConfiguration>,
    ) -> MutatingWebhookConfiguration {
        let annotations = present.and_then(|present| present.metadata.annotations.clone());
        let theirs = bundle.is_none() || annotations.iter().flatten().any(|(name, _)| name.starts_with(INJECTED));
        let ca_bundle =
            if theirs { present.and_then(bundle_of) } else { bundle.map(|bundle| bundle.as_bytes().to_vec()) };
        let (service, url) = match &self.address {
            Address::Service { namespace, name, port } => {
                let service = ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    port: Some(i32::from(*port)),
                    path: None,
                };
                (Some(service), None)
            }
            Address::Url(url) => (None, Some(url.clone())),
        };
        let failure_policy = match self.failure_policy {
            FailurePolicy::Ignore => "Ignore",
            FailurePolicy::Fail => "Fail",
        };
        let webhook = MutatingWebhook {
            name: WEBHOOK.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: WebhookClientConfig { ca_bundle: ca_bundle.map(ByteString), service, url },
            rules: Some(vec![
                rule("", "v1", "pods", &["CREATE"]),
                rule("autoscaling.k8s.io", "*", "verticalpodautoscalers", &["CREATE", "UPDATE"]),
            ]),
            side_effects: "None".to_owned(),
            failure_policy: Some(failure_policy.to_owned()),
            timeout_seconds: Some(self.timeout_seconds),
            match_policy: Some("Equivalent".to_owned()),
            reinvocation_policy: Some("Never".to_owned()),
            namespace_selector: Some(self.reach.selector()),
            object_selector: Some(LabelSelector::default()),
            match_conditions: None,
        };
        let mut labels = present.and_then(|present| present.metadata.labels.clone()).unwrap_or_default();
        labels.extend(self.labels.clone());
        let metadata = ObjectMeta {
            name: Some(CONFIGURATION.to_owned()),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            annotations,
            ..ObjectMeta::default()
        };
        MutatingWebhookConfiguration { metadata, webhooks: Some(vec![webhook]) }
    }
}

/// The authorities that the API server has.
pub fn bundle_of(present: &MutatingWebhookConfiguration) -> Option<Vec<u8>> {
    let webhook = present.webhooks.iter().flatten().find(|webhook| webhook.name == WEBHOOK)?;
    webhook.client_config.ca_bundle.clone().map(|bundle| bundle.0)
}

/// Whether the configuration that is there says all that is wanted.
pub fn is_current(present: &MutatingWebhookConfiguration, wanted: &MutatingWebhookConfiguration) -> bool {
    present.webhooks == wanted.webhooks && present.metadata.labels == wanted.metadata.labels
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
    use serde_json::{Value, json};

    use super::*;

    fn registration() -> Registration {
        Registration {
            address: Address::Service { namespace: "suite".to_owned(), name: "vpa-webhook".to_owned(), port: 443 },
            labels: BTreeMap::from([("team".to_owned(), "sizes".to_owned())]),
            timeout_seconds: 30,
            failure_policy: FailurePolicy::Ignore,
            reach: Reach::AllBut(Vec::new()),
        }
    }

    fn present(annotation: &str) -> MutatingWebhookConfiguration {
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
    fn the_certificate_is_for_the_names_at_which_the_api_server_asks() {
        let service = Address::Service { namespace: "suite".to_owned(), name: "hook".to_owned(), port: 443 };
        assert_eq!(service.names(), ["hook.suite.svc", "hook.suite.svc.cluster.local"]);
        for (url, expected) in [
            ("https://vpa.example:8443/hook", "vpa.example"),
            ("https://127.0.0.1:1", "127.0.0.1"),
            ("https://[fd00::7]:8443", "fd00::7"),
        ] {
            assert_eq!(Address::Url(url.to_owned()).names(), [expected], "{url}");
        }
    }

    fn check(bundle: Option<&str>, annotation: &str, expected: &str) {
        let present = present(annotation);
        let wanted = registration().wanted(bundle, Some(&present));
        assert_eq!(bundle_of(&wanted).as_deref(), Some(expected.as_bytes()), "{bundle:?} {annotation}");
        assert_eq!(wanted.metadata.annotations, present.metadata.annotations);
        assert_eq!(wanted.webhooks.iter().flatten().count(), 1, "it is ours alone");
    }

    #[test]
    fn authorities_that_somebody_else_puts_in_place_are_left_alone() {
        check(Some("ours"), "note", "ours");
        check(None, "note", "theirs");
        check(Some("ours"), "cert-manager.io/inject-ca-from", "theirs");
        check(Some("ours"), "cert-manager.io/inject-ca-from-secret", "theirs");
    }

    #[test]
    fn it_is_upstreams_with_all_defaults_spelled_out() {
        let wanted = serde_json::to_value(registration().wanted(Some("ours"), None)).expect("it serializes");
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
            "objectSelector": {},
        });
        assert_eq!(wanted["webhooks"], json!([webhook]));
        assert_eq!(wanted["metadata"], json!({"name": "vpa-webhook-config", "labels": {"team": "sizes"}}));
    }

    #[test]
    fn a_webhook_that_must_answer_does_not_stand_in_its_own_way() {
        let selector = |policy, only: &str, ignored: &[&str]| {
            let ignored: Vec<String> = ignored.iter().map(ToString::to_string).collect();
            serde_json::to_value(Reach::of(policy, "suite", only, &ignored).selector()).expect("it serializes")
        };
        let among = |operator: &str, values: &[&str]| -> Value {
            json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": operator, "values": values}]})
        };
        assert_eq!(selector(FailurePolicy::Ignore, "", &[]), json!({}));
        assert_eq!(selector(FailurePolicy::Ignore, "", &["b", "a"]), among("NotIn", &["a", "b"]));
        assert_eq!(selector(FailurePolicy::Ignore, "a", &[]), among("In", &["a"]));
        assert_eq!(selector(FailurePolicy::Fail, "", &["suite"]), among("NotIn", &["kube-system", "suite"]));
        assert_eq!(selector(FailurePolicy::Fail, "a", &[]), among("In", &["a"]));
    }
}
