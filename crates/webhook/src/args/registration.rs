//! Flags that say how the API server is told of the webhook.

use anyhow::ensure;

use super::labels::labels;
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
    /// The beginning of that URL, such as <https://vpa.example>; a host alone is reached over
    /// HTTPS.
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    pub webhook_address: String,
    /// The port of that URL. Without --register-by-url it has no effect: Services are asked at 443.
    #[arg(long, default_value = "", value_name = "PORT")]
    pub webhook_port: String,
    /// How long the API server waits for an answer. Each pod that is created waits so long when the
    /// webhook hangs.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(i32).range(1..=30), value_name = "SECONDS")]
    pub webhook_timeout_seconds: i32,
    /// Have the API server refuse pods when it gets no answer. Pods of the webhook's own namespace
    /// and of kube-system never come to it then, so that it cannot stand in its own way; nor can
    /// either be the one of --vpa-object-namespace.
    #[arg(long)]
    pub webhook_failure_policy_fail: bool,
    /// Labels of the configuration, as name:value,name:value with blanks and quotes around.
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
            Address::Service {
                namespace: own_namespace.to_owned(),
                name: webhook_service,
            }
        };
        let failure_policy = if webhook_failure_policy_fail {
            FailurePolicy::Fail
        } else {
            FailurePolicy::Ignore
        };
        Ok(Some(Registration {
            address,
            labels: labels(&webhook_labels)?,
            timeout_seconds: webhook_timeout_seconds,
            reach: Reach::of(failure_policy, own_namespace, only, ignored)?,
            failure_policy,
        }))
    }
}

/// Upstream joins the two with a colon and adds nothing, so that its users write the scheme
/// themselves.
fn url(address: &str, port: &str) -> anyhow::Result<String> {
    ensure!(
        !address.is_empty(),
        "--register-by-url needs --webhook-address"
    );
    ensure!(
        !address.starts_with("http://"),
        "--webhook-address={address}: the API server asks over HTTPS only"
    );
    ensure!(
        port.is_empty() || port.parse::<u16>().is_ok(),
        "--webhook-port={port} is no port"
    );
    let scheme = if address.starts_with("https://") {
        ""
    } else {
        "https://"
    };
    let colon = if port.is_empty() { "" } else { ":" };
    Ok(format!("{scheme}{address}{colon}{port}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;

    use super::*;
    use crate::args::{Args, PROGRAM};

    #[test]
    fn a_url_has_a_scheme_whether_it_was_written_or_not() {
        for (address, port, expected) in [
            ("https://10.0.0.1", "8443", Some("https://10.0.0.1:8443")),
            ("vpa.example", "443", Some("https://vpa.example:443")),
            (
                "https://vpa.example/hook",
                "",
                Some("https://vpa.example/hook"),
            ),
            ("http://vpa.example", "80", None),
            ("", "443", None),
        ] {
            assert_eq!(
                url(address, port).ok().as_deref(),
                expected,
                "{address} {port}"
            );
        }
    }

    /// What is registered with these flags.
    fn registered(line: &str) -> Option<MutatingWebhookConfiguration> {
        let args: Args = PROGRAM.parse_line(line).expect(line);
        let registration = args.registration.registration("suite", "", &[]).ok()??;
        Some(registration.wanted(None, None))
    }

    #[test]
    fn the_port_is_that_of_the_url_and_never_that_of_the_service() {
        for (line, url, port) in [
            ("", None, Some(443)),
            ("--webhook-port=8443", None, Some(443)),
            ("--webhook-port=https", None, Some(443)),
            (
                "--register-by-url --webhook-address=vpa.example --webhook-port=8443",
                Some("https://vpa.example:8443"),
                None,
            ),
        ] {
            let webhooks = registered(line)
                .and_then(|wanted| wanted.webhooks)
                .expect(line);
            let client = &webhooks[0].client_config;
            let found = client.service.as_ref().and_then(|service| service.port);
            assert_eq!((client.url.as_deref(), found), (url, port), "{line}");
        }
        assert!(
            registered("--register-by-url --webhook-address=vpa.example --webhook-port=https")
                .is_none()
        );
    }
}
