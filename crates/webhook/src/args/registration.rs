//! Flags of the registration with the API server.

use std::collections::BTreeMap;

use anyhow::ensure;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use model::{is_label_name, is_label_value};

use crate::config::{Config, ReinvocationPolicy};
use crate::registration::{Address, FailurePolicy, NamespaceScope, Registration, Selection};

/// Flags of the registration.
#[derive(Debug, Clone, clap::Args)]
pub struct RegistrationArgs {
    /// Create the `MutatingWebhookConfiguration` `vpa-webhook-config` and keep it current.
    #[arg(long, default_value_t = true)]
    pub register_webhook: bool,
    /// Name of the webhook's Service.
    #[arg(long, default_value = "vpa-webhook", value_name = "NAME")]
    pub webhook_service: String,
    /// Register a URL from --webhook-address and --webhook-port instead of the Service.
    #[arg(long)]
    pub register_by_url: bool,
    /// The URL without port, such as <https://vpa.example>. Without scheme, https is used.
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    pub webhook_address: String,
    /// The port of the URL. Without --register-by-url it has no effect: the Service has port 443.
    #[arg(long, default_value = "", value_name = "PORT")]
    pub webhook_port: String,
    /// Timeout of a review at the API server. While the webhook hangs, each new pod waits this
    /// long.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(i32).range(1..=30), value_name = "SECONDS")]
    pub webhook_timeout_seconds: i32,
    /// Refuse pods while the webhook does not respond (failurePolicy Fail). The webhook's own
    /// namespace and kube-system are excluded then, and --vpa-object-namespace must be neither.
    #[arg(long)]
    pub webhook_failure_policy_fail: bool,
    /// Labels of the `MutatingWebhookConfiguration`, as name:value,name:value.
    #[arg(long, default_value = "", value_name = "LABELS")]
    pub webhook_labels: String,
}

/// Name and expression that failure policy `Fail` adds to the registration: new nodes start with pods
/// such as those of the network, and without them the webhook cannot start either.
const NO_CRITICAL_PODS: &str = "no-critical-pods";
const NOT_CRITICAL: &str = "request.resource.resource != 'pods' || !has(object.spec.priorityClassName) || \
    !(object.spec.priorityClassName in ['system-cluster-critical', 'system-node-critical'])";

impl RegistrationArgs {
    /// The registration with the additions of `config`; `None` without --register-webhook.
    /// `own_namespace` is the webhook's.
    pub fn registration(
        self,
        config: &Config,
        own_namespace: &str,
        only: &str,
        ignored: &[String],
    ) -> anyhow::Result<Option<Registration>> {
        if !self.register_webhook {
            return Ok(None);
        }
        let mut selection = Selection {
            namespace_selector: config.namespace_selector.clone(),
            object_selector: config.object_selector.clone(),
            match_conditions: config.match_conditions.clone(),
        };
        if self.webhook_failure_policy_fail {
            selection.match_conditions.push(MatchCondition {
                name: NO_CRITICAL_PODS.to_owned(),
                expression: NOT_CRITICAL.to_owned(),
            });
        }
        let address = if self.register_by_url {
            Address::Url(url(&self.webhook_address, &self.webhook_port)?)
        } else {
            Address::Service {
                namespace: own_namespace.to_owned(),
                name: self.webhook_service,
            }
        };
        let failure_policy = if self.webhook_failure_policy_fail {
            FailurePolicy::Fail
        } else {
            FailurePolicy::Ignore
        };
        Ok(Some(Registration {
            address,
            labels: labels(&self.webhook_labels)?,
            timeout_seconds: self.webhook_timeout_seconds,
            namespaces: NamespaceScope::new(failure_policy, own_namespace, only, ignored)?,
            failure_policy,
            selection,
            is_reinvoked: config.reinvocation_policy == ReinvocationPolicy::IfNeeded,
        }))
    }
}

/// Joins address and port. Upstream adds no scheme, so its users write one.
fn url(address: &str, port: &str) -> anyhow::Result<String> {
    ensure!(
        !address.is_empty(),
        "--register-by-url needs --webhook-address"
    );
    ensure!(
        !address.starts_with("http://"),
        "--webhook-address={address}: the API server requires https"
    );
    ensure!(
        port.is_empty() || port.parse::<u16>().is_ok(),
        "--webhook-port={port} is not a port number"
    );
    let scheme = if address.starts_with("https://") {
        ""
    } else {
        "https://"
    };
    let colon = if port.is_empty() { "" } else { ":" };
    Ok(format!("{scheme}{address}{colon}{port}"))
}

/// Parses `name:value,name:value`, with optional blanks and quotes around. Any other format means
/// no labels, as upstream. Labels that the API server would refuse are an error.
/// Source: upstream `convertLabelsToMap`.
pub(super) fn labels(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let bare = text.trim().trim_matches('"').trim();
    if bare.is_empty() {
        return Ok(BTreeMap::new());
    }
    let labels: Option<BTreeMap<_, _>> = bare.split(',').map(pair).collect();
    let Some(labels) = labels else {
        tracing::warn!(
            "--webhook-labels={text} does not have the format name:value,name:value; setting no labels"
        );
        return Ok(BTreeMap::new());
    };
    for (name, value) in &labels {
        ensure!(
            is_label_name(name),
            "--webhook-labels={text}: {name:?} is not a valid label name"
        );
        ensure!(
            is_label_value(value),
            "--webhook-labels={text}: {value:?} is not a valid label value"
        );
    }
    Ok(labels)
}

fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
    use serde_json::json;

    use super::*;
    use crate::args::{Args, PROGRAM};
    use crate::config::DEFAULTS;

    #[test]
    fn urls_have_the_scheme_https() {
        let hook = "https://vpa.example/hook";
        for (address, port, expected) in [
            ("https://10.0.0.1", "8443", Some("https://10.0.0.1:8443")),
            ("vpa.example", "443", Some("https://vpa.example:443")),
            (hook, "", Some(hook)),
            ("http://vpa.example", "80", None),
            ("", "443", None),
        ] {
            let found = url(address, port).ok();
            assert_eq!(found.as_deref(), expected, "{address} {port}");
        }
    }

    /// The registration with these flags and this file.
    fn registration(line: &str, file: &str) -> anyhow::Result<Option<Registration>> {
        let args: Args = PROGRAM.parse_line(line).expect(line);
        let config = runtime::config_file::parse(&[DEFAULTS, file]).expect(file);
        args.registration.registration(&config, "suite", "", &[])
    }

    /// The configuration with these flags and this file.
    fn registered(line: &str, file: &str) -> Option<MutatingWebhookConfiguration> {
        let registration = registration(line, file).ok()??;
        Some(registration.desired(None, None, None))
    }

    #[test]
    fn the_port_applies_to_the_url_only() {
        let by_url = "--register-by-url --webhook-address=vpa.example --webhook-port";
        let valid = format!("{by_url}=8443");
        for (line, url, port) in [
            ("", None, Some(443)),
            ("--webhook-port=8443", None, Some(443)),
            ("--webhook-port=https", None, Some(443)),
            (&valid, Some("https://vpa.example:8443"), None),
        ] {
            let webhooks = registered(line, "").and_then(|desired| desired.webhooks);
            let webhooks = webhooks.expect(line);
            let client = &webhooks[0].client_config;
            let found = client.service.as_ref().and_then(|service| service.port);
            assert_eq!((client.url.as_deref(), found), (url, port), "{line}");
        }
        assert_eq!(registered(&format!("{by_url}=https"), ""), None);
    }

    #[test]
    fn selectors_and_conditions_are_added_to_the_own_ones() {
        let file = "namespaceSelector: {matchLabels: {size: 'true'}}
objectSelector: {matchExpressions: [{key: app, operator: Exists}]}
matchConditions: [{name: a, expression: 'true'}]
reinvocationPolicy: IfNeeded";
        let desired = registered("", file).expect("a registration");
        let webhook = json!(desired.webhooks)[0].take();
        assert_eq!(
            webhook["namespaceSelector"],
            json!({"matchLabels": {"size": "true"}})
        );
        let own =
            json!({"key": "plimsoll.dev/disable-webhook", "operator": "NotIn", "values": ["true"]});
        let app = json!({"key": "app", "operator": "Exists"});
        assert_eq!(
            webhook["objectSelector"],
            json!({"matchExpressions": [own, app]})
        );
        assert_eq!(
            webhook["matchConditions"],
            json!([{"name": "a", "expression": "true"}])
        );
        assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
    }

    #[test]
    fn critical_pods_never_depend_on_the_webhook() {
        let fail = "--webhook-failure-policy-fail";
        for (line, file, expected) in [
            ("", "", &[][..]),
            (fail, "", &[NO_CRITICAL_PODS]),
            (
                fail,
                "matchConditions: [{name: a, expression: 'true'}]",
                &["a", NO_CRITICAL_PODS],
            ),
        ] {
            let desired = registered(line, file).expect("a registration");
            let webhook = desired.webhooks.and_then(|all| all.into_iter().next());
            let conditions = webhook.and_then(|webhook| webhook.match_conditions);
            let names = conditions
                .into_iter()
                .flatten()
                .map(|condition| condition.name);
            assert_eq!(names.collect::<Vec<_>>(), expected, "{line} {file}");
        }
    }

    #[test]
    fn startup_boosts_exclude_a_second_review() {
        for (policy, has_boosts, expected) in [
            ("Never", true, true),
            ("IfNeeded", false, true),
            ("IfNeeded", true, false),
        ] {
            let registration = registration("", &format!("reinvocationPolicy: {policy}"));
            let registration = registration.expect("valid").expect("a registration");
            let found = registration.check_reinvocation(has_boosts);
            assert_eq!(found.is_ok(), expected, "{policy} {has_boosts}: {found:?}");
        }
    }

    /// Expects these labels; `None` for an error.
    fn check(text: &str, expected: Option<&[(&str, &str)]>) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let expected = expected.map(|labels| labels.iter().map(owned).collect());
        assert_eq!(labels(text).ok(), expected, "{text:?}");
    }

    #[test]
    fn blanks_and_quotes_are_trimmed() {
        check("a:b,c:d", Some(&[("a", "b"), ("c", "d")]));
        check("a:b, c : d ", Some(&[("a", "b"), ("c", "d")]));
        check("\"a:b,c:d\"", Some(&[("a", "b"), ("c", "d")]));
        check("a.b/c:true", Some(&[("a.b/c", "true")]));
        check("a:", Some(&[("a", "")]));
    }

    #[test]
    fn other_formats_mean_no_labels() {
        for text in ["", "a", "a:b,c", "a:b,:c", "\"\""] {
            check(text, Some(&[]));
        }
    }

    #[test]
    fn labels_that_the_api_server_would_refuse_are_errors() {
        let long = "a".repeat(64);
        let long_prefix = "a.".repeat(127) + "a";
        let too_long = [
            format!("{long}:b"),
            format!("a:{long}"),
            format!("{long_prefix}/b:c"),
        ];
        let invalid = "a b:c;a:b c;\"a\":\"b\";-a:b;a:b:c;/a:b;a/:b;A.b/c:d;a..b/c:d;a/b/c:d";
        for text in invalid
            .split(';')
            .chain(too_long.iter().map(String::as_str))
        {
            check(text, None);
        }
    }
}
