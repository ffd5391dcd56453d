//! Flags that say how the API server is told of the webhook.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};

use crate::registration::{Address, FailurePolicy, Reach, Registration};

/// Flags of the registration.
#[derive(Debug, Clone, clap::Args)]
pub struct RegistrationArgs {
    /// Keep the configuration `vpa-webhook-config` registered and current.
    #[arg(long, default_value_t = true)]
    pub register_webhook: bool,
    /// The Service at which the API server reaches the webhook.
    #[arg(long, default_value = "vpa-webhook", value_name = "NAME")]
    pub webhook_service: String,
    /// Register a URL made of --webhook-address and --webhook-port in place of a Service.
    #[arg(long)]
    pub register_by_url: bool,
    /// The beginning of that URL, such as <https://vpa.example>; a host alone is reached over HTTPS.
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    pub webhook_address: String,
    /// The port of that URL; or that of the Service, which is 443 where nothing is said.
    #[arg(long, default_value = "", value_name = "PORT")]
    pub webhook_port: String,
    /// How long the API server waits for an answer.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(i32).range(1..=30), value_name = "SECONDS")]
    pub webhook_timeout_seconds: i32,
    /// Have the API server refuse pods when it gets no answer. Pods of the webhook's own namespace and of kube-system never come
    /// to it then, so that it cannot stand in its own way.
    #[arg(long)]
    pub webhook_failure_policy_fail: bool,
    /// Labels of the configuration, as name:value,name:value.
    #[arg(long, default_value = "", value_name = "LABELS")]
    pub webhook_labels: String,
}

impl RegistrationArgs {
    /// What is registered; none if nothing is. `own_namespace` is the webhook's.
    pub fn registration(
        self,
        own_namespace: &str,
        only: &str,
        ignored: &[String],
    ) -> anyhow::Result<Option<Registration>> {
        let Self {
            register_webhook,
            webhook_service,
            register_by_url,
            webhook_address,
            webhook_port,
            webhook_timeout_seconds,
            webhook_failure_policy_fail,
            webhook_labels,
        } = self;
        if !register_webhook {
            return Ok(None);
        }
        let address = if register_by_url {
            Address::Url(url(&webhook_address, &webhook_port)?)
        } else {
            let port = if webhook_port.is_empty() { "443" } else { &webhook_port };
            let port: u16 = port.parse().with_context(|| format!("--webhook-port={port}"))?;
            Address::Service { namespace: own_namespace.to_owned(), name: webhook_service, port }
        };
        let failure_policy = if webhook_failure_policy_fail { FailurePolicy::Fail } else { FailurePolicy::Ignore };
        Ok(Some(Registration {
            address,
            labels: labels(&webhook_labels),
            timeout_seconds: webhook_timeout_seconds,
            reach: Reach::of(failure_policy, own_namespace, only, ignored),
            failure_policy,
        }))
    }
}

/// Upstream joins the two with a colon and adds nothing, so that its users write the scheme themselves.
fn url(address: &str, port: &str) -> anyhow::Result<String> {
    ensure!(!address.is_empty(), "--register-by-url needs --webhook-address");
    ensure!(!address.starts_with("http://"), "--webhook-address={address}: the API server asks over HTTPS only");
    let scheme = if address.starts_with("https://") { "" } else { "https://" };
    let colon = if port.is_empty() { "" } else { ":" };
    Ok(format!("{scheme}{address}{colon}{port}"))
}

/// A text that does not fit means no labels, as upstream.
fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').map(|pair| pair.split_once(':').map(|(name, value)| (name.into(), value.into())));
    match pairs.collect::<Option<BTreeMap<_, _>>>() {
        Some(labels) => labels,
        None if text.is_empty() => BTreeMap::new(),
        None => {
            tracing::warn!("--webhook-labels={text} is not of the form name:value,name:value; there will be none");
            BTreeMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_whether_it_was_written_or_not() {
        for (address, port, expected) in [
            ("https://10.0.0.1", "8443", Some("https://10.0.0.1:8443")),
            ("vpa.example", "443", Some("https://vpa.example:443")),
            ("https://vpa.example/hook", "", Some("https://vpa.example/hook")),
            ("http://vpa.example", "80", None),
            ("", "443", None),
        ] {
            assert_eq!(url(address, port).ok().as_deref(), expected, "{address} {port}");
        }
    }

    #[test]
    fn labels_that_do_not_fit_are_none() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(labels("a:b,c:d"), BTreeMap::from([pair("a", "b"), pair("c", "d")]));
        for text in ["", "a", "a:b,c"] {
            assert_eq!(labels(text), BTreeMap::new(), "{text}");
        }
    }
}
