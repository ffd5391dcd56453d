//! The settings of `--config`.

use std::path::PathBuf;

use controllers::predictions::PredictionSettings;
use feed::AllowedClients;
use runtime::config_file::from_text;
use runtime::{GoDuration, ListenAddress, OtherAutoscalers};
use serde::Deserialize;
use sizing::WithoutUsage;
use vertical::schedulable;

pub const DEFAULTS: &str = include_str!("defaults.yaml");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Interval at which changes are written that no decision waits for: bounds of a recommendation
    /// that cross no request of a pod, and checkpoints of objects whose recommendation stays. Other
    /// changes are written at once. 0s writes every change at once, as upstream does.
    #[serde(deserialize_with = "from_text")]
    pub refresh_interval: GoDuration,
    pub without_usage: WithoutUsage,
    /// Whether recommendations are exported as metrics, under the former names of
    /// kube-state-metrics: at most 20,000 series, of which a container has eight. One metric counts
    /// the omitted ones.
    pub recommendation_metrics: bool,
    pub other_autoscalers: OtherAutoscalers,
    pub capping: schedulable::Settings,
    pub feed: FeedConfig,
    pub predictions: PredictionSettings,
}

/// The feed to the other services. It is disabled without the folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeedConfig {
    /// Folder with tls.crt, tls.key and ca.crt (PEM): the certificate of the feed, and the CAs of its
    /// clients. Reloaded when they change; while they are missing, the feed does not start.
    pub cert_dir: Option<PathBuf>,
    /// Address of the gRPC feed; without a host, all interfaces.
    #[serde(deserialize_with = "from_text")]
    pub address: ListenAddress,
    /// Host at which the other services reach this replica. It is announced in the Lease. Needed if
    /// the address has no host.
    pub advertised_host: String,
    /// Whether the certificates of the feed are issued, for all programs, into the Secrets
    /// plimsoll-PROGRAM-feed-tls of the own namespace, and renewed. Secrets that others made are left
    /// alone.
    pub manage_certificates: bool,
    /// DNS names, separated by commas, one of which a client certificate must contain.
    #[serde(deserialize_with = "from_text")]
    pub allowed_clients: AllowedClients,
}

#[cfg(test)]
mod tests {
    use runtime::config_file::parse;

    use super::*;

    /// `expected`: whether there are caps; `None` for invalid settings.
    fn check_caps(fields: &str, expected: Option<bool>) {
        let text = format!("capping: {{{fields}}}");
        let config: anyhow::Result<Config> = parse(&[DEFAULTS, text.as_str()]);
        let settings = config.ok().and_then(|config| config.capping.checked().ok());
        assert_eq!(settings.map(|it| it.is_some()), expected, "{fields}");
    }

    #[test]
    fn nothing_is_capped_unless_asked_for_and_slips_are_noticed() {
        check_caps("", Some(false));
        check_caps("margin: 0.1", Some(false));
        check_caps("capPoliciesTo: {limit-ranges: true}", Some(true));
        check_caps("capTo: {node: true}", None);
        let nodes = "capTo: {nodes: true}";
        for (field, expected) in [
            ("capacityFrom: {karpenter: true}", Some(true)),
            ("capacityFrom: {gke: true}", None),
            (
                "nodeGroups: {big: {allocatable: {cpu: 16, memory: 64Gi}}}",
                Some(true),
            ),
            ("nodeGroups: {big: {allocatable: {cpu: 16}}}", None),
            ("margin: 1", None),
        ] {
            check_caps(&format!("{nodes}, {field}"), expected);
        }
        check_caps("capacityFrom: {karpenter: true}", None);
    }

    #[test]
    fn the_feed_needs_a_client() {
        let error = parse::<Config>(&[DEFAULTS, "feed: {allowedClients: ','}"]);
        let error = error.expect_err("no client").to_string();
        assert!(error.starts_with("feed.allowedClients: "), "{error}");
    }
}
