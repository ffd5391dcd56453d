//! How the API server is told of the webhook: the `MutatingWebhookConfiguration`, as upstream
//! writes it, with every default spelled out so that it can be compared with what the API server
//! holds.

mod reach;
mod revision;

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    WebhookClientConfig,
};
use kube::core::ObjectMeta;

pub use reach::Reach;
pub use revision::Revision;
pub(crate) use revision::{ANNOTATION as REVISION_ANNOTATION, REPLICA_SET_ANNOTATION};

/// The name of the configuration.
pub const CONFIGURATION: &str = "vpa-webhook-config";
/// The name of the webhook in it.
pub const WEBHOOK: &str = "vpa.k8s.io";
/// Annotations of this kind have cert-manager put the authorities into the configuration.
const INJECTED: &str = "cert-manager.io/inject-";
/// Pods and VPA objects with this label, and `true` as its value, do not come to the webhook.
pub const OPT_OUT_LABEL: &str = "plimsoll.dev/disable-webhook";
/// The port of Services of webhooks.
const PORT: i32 = 443;

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
    },
    /// A URL.
    Url(String),
}

impl Address {
    /// The names at which the API server asks, that of the handshake first.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name } => {
                vec![
                    format!("{name}.{namespace}.svc"),
                    format!("{name}.{namespace}.svc.cluster.local"),
                ]
            }
            Self::Url(url) => {
                let authority = url
                    .trim_start_matches("https://")
                    .split(['/', '?'])
                    .next()
                    .unwrap_or_default();
                let host = match authority.strip_prefix('[') {
                    Some(rest) => rest.split(']').next().unwrap_or_default(),
                    None => authority.split(':').next().unwrap_or_default(),
                };
                // As a certificate has it: an address in its canonical form, a name in small
                // letters.
                vec![host.parse().map_or_else(
                    |_| host.to_ascii_lowercase(),
                    |address: IpAddr| address.to_string(),
                )]
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

impl Registration {
    /// The configuration as it should be, given the one that is there. `bundle`: the authorities in
    /// PEM; none where somebody else looks after them. What cert-manager injects is left alone in
    /// any case, and what others (AKS, for one) add to the selectors and to the conditions: they
    /// would add it again and again.
    pub fn wanted(
        &self,
        bundle: Option<&str>,
        present: Option<&MutatingWebhookConfiguration>,
    ) -> MutatingWebhookConfiguration {
        let found = present.and_then(webhook_of);
        let annotations = present.and_then(|present| present.metadata.annotations.clone());
        let theirs = bundle.is_none()
            || annotations
                .iter()
                .flatten()
                .any(|(name, _)| name.starts_with(INJECTED));
        let ca_bundle = if theirs {
            present.and_then(bundle_of)
        } else {
            bundle.map(|bundle| bundle.as_bytes().to_vec())
        };
        let (service, url) = match &self.address {
            Address::Service { namespace, name } => {
                let (namespace, name) = (namespace.clone(), name.clone());
                (
                    Some(ServiceReference {
                        namespace,
                        name,
                        port: Some(PORT),
                        path: None,
                    }),
                    None,
                )
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
            reinvocation_policy: Some("Never".to_owned()),
            namespace_selector: Some(
                self.reach
                    .selector(found.and_then(|found| found.namespace_selector.as_ref())),
            ),
            object_selector: Some(reach::with_requirement(
                found.and_then(|found| found.object_selector.as_ref()),
                OPT_OUT_LABEL,
                Some(("NotIn", vec!["true".to_owned()])),
            )),
            match_conditions: found.and_then(|found| found.match_conditions.clone()),
        };
        let mut labels = present
            .and_then(|present| present.metadata.labels.clone())
            .unwrap_or_default();
        labels.extend(self.labels.clone());
        let metadata = ObjectMeta {
            name: Some(CONFIGURATION.to_owned()),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            annotations,
            ..ObjectMeta::default()
        };
        MutatingWebhookConfiguration {
            metadata,
            webhooks: Some(vec![webhook]),
        }
    }
}

/// The authorities that the API server has.
pub fn bundle_of(present: &MutatingWebhookConfiguration) -> Option<Vec<u8>> {
    webhook_of(present)?
        .client_config
        .ca_bundle
        .clone()
        .map(|bundle| bundle.0)
}

fn webhook_of(present: &MutatingWebhookConfiguration) -> Option<&MutatingWebhook> {
    present
        .webhooks
        .iter()
        .flatten()
        .find(|webhook| webhook.name == WEBHOOK)
}

/// Whether the configuration that is there says all that is wanted.
pub fn is_current(
    present: &MutatingWebhookConfiguration,
    wanted: &MutatingWebhookConfiguration,
) -> bool {
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
    use serde_json::json;

    use super::reach::NAMESPACE_LABEL;
    use super::*;

    fn registration() -> Registration {
        Registration {
            address: Address::Service {
                namespace: "suite".to_owned(),
                name: "vpa-webhook".to_owned(),
            },
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

    fn check(bundle: Option<&str>, annotation: &str, expected: &str) {
        let present = present(annotation);
        let wanted = registration().wanted(bundle, Some(&present));
        assert_eq!(
            bundle_of(&wanted).as_deref(),
            Some(expected.as_bytes()),
            "{bundle:?} {annotation}"
        );
        assert_eq!(wanted.metadata.annotations, present.metadata.annotations);
        assert_eq!(
            wanted.webhooks.iter().flatten().count(),
            1,
            "it is ours alone"
        );
    }

    #[test]
    fn authorities_that_somebody_else_puts_in_place_are_left_alone() {
        check(Some("ours"), "note", "ours");
        check(None, "note", "theirs");
        check(Some("ours"), "cert-manager.io/inject-ca-from", "theirs");
        check(
            Some("ours"),
            "cert-manager.io/inject-ca-from-secret",
            "theirs",
        );
    }

    #[test]
    fn what_others_add_to_it_stays_and_needs_no_change() {
        let condition = json!({"name": "not-ours", "expression": "true"});
        let theirs = json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]});
        let mut registration = registration();
        let mut present = registration.wanted(Some("ours"), None);
        let change = json!({"webhooks": [{"matchConditions": [condition], "namespaceSelector": {
            "matchExpressions": [theirs, {"key": NAMESPACE_LABEL, "operator": "In", "values": ["old"]}],
            "matchLabels": {"sized": "true"},
        }, "objectSelector": {"matchLabels": {"sized": "true"}}}]});
        for (member, value) in change["webhooks"][0].as_object().expect("an object") {
            let mut webhook =
                serde_json::to_value(&present.webhooks.as_ref().expect("webhooks")[0])
                    .expect("JSON");
            webhook[member] = value.clone();
            present.webhooks = Some(vec![serde_json::from_value(webhook).expect("a webhook")]);
        }
        let own = |operator: &str| json!({"key": NAMESPACE_LABEL, "operator": operator, "values": ["shop"]});
        for (reach, expressions) in [
            (Reach::AllBut(Vec::new()), json!([theirs])),
            (
                Reach::AllBut(vec!["shop".to_owned()]),
                json!([theirs, own("NotIn")]),
            ),
            (Reach::Only("shop".to_owned()), json!([theirs, own("In")])),
        ] {
            registration.reach = reach;
            let wanted = registration.wanted(Some("ours"), Some(&present));
            assert!(!is_current(&present, &wanted));
            let webhook =
                serde_json::to_value(wanted.webhooks.iter().flatten().next()).expect("JSON");
            let selector =
                json!({"matchExpressions": expressions, "matchLabels": {"sized": "true"}});
            assert_eq!(
                (&webhook["namespaceSelector"], &webhook["matchConditions"]),
                (&selector, &json!([condition]))
            );
            let opt_out = json!({"key": OPT_OUT_LABEL, "operator": "NotIn", "values": ["true"]});
            let objects = json!({"matchExpressions": [opt_out], "matchLabels": {"sized": "true"}});
            assert_eq!(webhook["objectSelector"], objects);
            assert!(
                is_current(&wanted, &registration.wanted(Some("ours"), Some(&wanted))),
                "{expressions}"
            );
        }
    }

    #[test]
    fn it_is_upstreams_with_all_defaults_spelled_out() {
        let wanted =
            serde_json::to_value(registration().wanted(Some("ours"), None)).expect("it serializes");
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
        assert_eq!(wanted["webhooks"], json!([webhook]));
        assert_eq!(
            wanted["metadata"],
            json!({"name": "vpa-webhook-config", "labels": {"team": "sizes"}})
        );
    }
}
