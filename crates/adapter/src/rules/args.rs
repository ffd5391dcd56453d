//! Flags of rules. Names and defaults are those of prometheus-adapter where it has them.

use std::time::Duration;

use anyhow::ensure;
use runtime::GoDuration;
use runtime::config_file::ConfigArgs;
use sources::prometheus::PrometheusArgs;

use super::RulesConfig;
use crate::config::{Config, DEFAULTS};

/// Flags of rules. Without --config there are none.
#[derive(Debug, Clone, clap::Args)]
pub struct RulesArgs {
    /// Rule file of prometheus-adapter, which is reloaded when it changes, or settings in braces. May be
    /// repeated: the last file counts, and the last value of a setting. Without a file there are no
    /// metrics from rules. docs/settings.md has the settings.
    #[arg(long, value_name = "FILE")]
    pub config: Vec<String>,
    /// Interval at which series are listed. A request for an unknown metric lists them sooner.
    #[arg(long, default_value = "10m0s", value_name = "DURATION")]
    pub metrics_relist_interval: GoDuration,
    /// Largest age of the last sample of a listed series. Zero: the value of
    /// --metrics-relist-interval.
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    pub metrics_max_age: GoDuration,
    /// Flags of the connection to Prometheus. Their query timeout is that of listing series; queries
    /// of values have one of 15 s.
    #[command(flatten)]
    pub prometheus: PrometheusArgs,
    /// Use the service account's token for Prometheus, and the cluster's CA unless
    /// --prometheus-ca-file is set.
    #[arg(long, conflicts_with = "prometheus_bearer_token_file")]
    pub prometheus_auth_incluster: bool,
    /// HTTP method of queries. With GET, queries that are too long for a URL are posted.
    #[arg(long, default_value = "GET", value_parser = ["GET", "POST"], value_name = "VERB")]
    pub prometheus_verb: String,
}

const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl RulesArgs {
    /// Returns the settings of `--config`, and the configuration of rules, unless there is no rule
    /// file.
    pub fn settings(self) -> anyhow::Result<(Config, Option<RulesConfig>)> {
        let (config, mut files): (Vec<_>, Vec<_>) =
            (self.config.into_iter()).partition(|value| value.starts_with('{'));
        let settings: Config = ConfigArgs { config }.read(DEFAULTS)?;
        let file = files.pop().filter(|file| !file.is_empty());
        let relist_interval = self.metrics_relist_interval.0;
        ensure!(
            relist_interval >= Duration::from_secs(1),
            "--metrics-relist-interval must be at least 1s"
        );
        let max_age = match self.metrics_max_age.0 {
            Duration::ZERO => relist_interval,
            max_age => max_age,
        };
        ensure!(
            max_age >= relist_interval,
            "--metrics-max-age must not be less than --metrics-relist-interval"
        );
        let mut prometheus = self.prometheus;
        if self.prometheus_auth_incluster {
            prometheus.client.prometheus_bearer_token_file = format!("{SERVICE_ACCOUNT}/token");
            prometheus
                .client
                .prometheus_ca_file
                .get_or_insert_with(|| format!("{SERVICE_ACCOUNT}/ca.crt").into());
        }
        let mut connection = prometheus.connection(None, None)?;
        connection.always_post = self.prometheus_verb == "POST";
        let rules = file.map(|file| RulesConfig {
            file: file.into(),
            connection,
            relist_interval,
            max_age,
            last_good_for: settings.metrics_last_good_for.0,
        });
        Ok((settings, rules))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        rules: RulesArgs,
    }

    fn parse(line: &str) -> Result<Option<RulesConfig>, String> {
        let words = std::iter::once("adapter").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let settings = line.rules.settings();
        settings
            .map(|(_, rules)| rules)
            .map_err(|error| format!("{error:#}"))
    }

    /// `expected`: a part of the configuration's debug output.
    fn check(line: &str, expected: &str) {
        let settings = parse(&format!("--config=/rules.yaml {line}"))
            .expect(line)
            .expect("settings");
        let settings = format!("{settings:?}");
        assert!(settings.contains(expected), "{line}: {settings}");
    }

    #[test]
    fn each_flag_reaches_its_setting() {
        assert!(parse("").expect("nothing").is_none());
        for expected in [
            r#"file: "/rules.yaml""#,
            "relist_interval: 600s, max_age: 600s, last_good_for: 60s",
            r#"address: "http://prometheus.monitoring.svc", credentials: None, ca_file: None"#,
            "always_post: false",
        ] {
            check("", expected);
        }
        let relist = "--metrics-relist-interval=1m";
        check(relist, "relist_interval: 60s, max_age: 60s");
        let both = format!("{relist} --metrics-max-age=5m");
        check(&both, "relist_interval: 60s, max_age: 300s");
        let last_good_for = r#"--config={"metricsLastGoodFor":"0s"}"#;
        check(last_good_for, "last_good_for: 0ns");
        check(last_good_for, r#"file: "/rules.yaml""#);
        check("--config=/other.yaml", r#"file: "/other.yaml""#);
        for flag in ["url", "address"] {
            let line = format!("--prometheus-{flag}=https://p:1");
            check(&line, r#"address: "https://p:1""#);
        }
        check("--prometheus-ca-file=/ca", r#"ca_file: Some("/ca")"#);
        let pair = "--prometheus-client-tls-cert-file=/c --prometheus-client-tls-key-file=/k";
        check(pair, r#"Some(("/c", "/k"))"#);
        check("--prometheus-token-file=/t", "Bearer(/t)");
        let (flag, folder) = (
            "--prometheus-auth-incluster",
            "/var/run/secrets/kubernetes.io/serviceaccount",
        );
        check(flag, &format!("Bearer({folder}/token)"));
        check(flag, &format!("Some(\"{folder}/ca.crt\")"));
        let header = "--prometheus-header=X-Scope-OrgID=a=b";
        check(header, r#"headers: [("x-scope-orgid", Sensitive)]"#);
        let basic = "--username=u --password-file=/p";
        check(basic, r#"Basic { username: "u", password: /p }"#);
        check("--prometheus-verb=POST", "always_post: true");
        check("--prometheus-query-timeout=5s", "query_timeout: 5s");
    }

    #[test]
    fn invalid_flags_are_rejected() {
        let both_tokens = "prometheus-token-file=/t --prometheus-auth-incluster";
        let user_and_header = "username=u --prometheus-header=Authorization=x";
        for (flags, part) in [
            ("metrics-max-age=30s", "--metrics-max-age must not be less"),
            ("metrics-relist-interval=1ms", "--metrics-relist-interval"),
            ("prometheus-url=prometheus:9090", "--prometheus-address"),
            ("prometheus-verb=PUT", "--prometheus-verb"),
            ("prometheus-matchers=prod", "--prometheus-matchers"),
            (
                "prometheus-header=x",
                "--prometheus-header: expected NAME=VALUE",
            ),
            (user_and_header, "--prometheus-header: authorization and"),
            ("prometheus-client-tls-cert-file=/c", "client-key-file"),
            (both_tokens, "--prometheus-bearer-token-file"),
            ("prometheus-query-timeout=0s", "--prometheus-query-timeout"),
        ] {
            let error = parse(&format!("--{flags}")).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
    }
}
