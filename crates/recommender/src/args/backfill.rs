//! Flags of the Prometheus history: upstream's names and defaults, with additions for TLS and for
//! secrets in files.

use anyhow::ensure;
use clap::Args;
use sources::prometheus::{
    HistorySettings, PodLabelSettings, PrometheusArgs, Secret, Step, UsageSettings,
};

/// Prometheus for `--storage=prometheus`.
#[derive(Debug, Clone, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub prometheus: PrometheusArgs,
    /// Bearer token for Prometheus. Takes precedence over a user name.
    #[arg(long, default_value = "", value_name = "TOKEN", hide_env_values = true)]
    pub prometheus_bearer_token: String,
    /// Password for Prometheus. Also read from `PROMETHEUS_PASSWORD`, and the user name from
    /// `PROMETHEUS_USERNAME`.
    #[arg(
        long,
        default_value = "",
        value_name = "PASSWORD",
        hide_env_values = true
    )]
    pub password: String,

    /// Length of the history to fetch.
    #[arg(long, default_value = "8d", value_name = "DURATION")]
    pub history_length: Step,
    /// Resolution of the history.
    #[arg(long, default_value = "1h", value_name = "DURATION")]
    pub history_resolution: Step,
    /// Scrape job of the usage series; empty for any. If this and the flags for names and labels
    /// have their defaults and these series do not exist, the names of the usual collectors are
    /// tried.
    #[arg(long, default_value = "kubernetes-cadvisor", value_name = "NAME")]
    pub prometheus_cadvisor_job_name: String,
    /// CPU usage series, in seconds.
    #[arg(
        long,
        default_value = "container_cpu_usage_seconds_total",
        value_name = "NAME"
    )]
    pub history_cpu_metric: String,
    /// Memory usage series.
    #[arg(
        long,
        default_value = "container_memory_working_set_bytes",
        value_name = "NAME"
    )]
    pub history_memory_metric: String,
    /// Label of the usage series with the namespace.
    #[arg(long, default_value = "namespace", value_name = "LABEL")]
    pub container_namespace_label: String,
    /// Label of the usage series with the name of the pod.
    #[arg(long, default_value = "pod_name", value_name = "LABEL")]
    pub container_pod_name_label: String,
    /// Label of the usage series with the name of the container.
    #[arg(long, default_value = "name", value_name = "LABEL")]
    pub container_name_label: String,
    /// Series with pod labels, which attribute the usage of deleted pods. If this and the next
    /// three flags have their defaults and these series do not exist, those of kube-state-metrics
    /// and OpenTelemetry are tried.
    #[arg(
        long,
        default_value = r#"up{job="kubernetes-pods"}"#,
        value_name = "QUERY"
    )]
    pub metric_for_pod_labels: String,
    /// Prefix of pod label names in these series.
    #[arg(long, default_value = "pod_label_", value_name = "PREFIX")]
    pub pod_label_prefix: String,
    /// Label of these series with the namespace.
    #[arg(long, default_value = "kubernetes_namespace", value_name = "LABEL")]
    pub pod_namespace_label: String,
    /// Label of these series with the name of the pod.
    #[arg(long, default_value = "kubernetes_pod_name", value_name = "LABEL")]
    pub pod_name_label: String,
}

impl HistoryArgs {
    /// Converts the flags to settings. `environment` returns the value of a variable.
    pub fn settings(
        self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<HistorySettings> {
        let mut prometheus = self.prometheus;
        ensure!(
            self.prometheus_bearer_token.is_empty()
                || prometheus.client.prometheus_bearer_token_file.is_empty()
                || prometheus.client.username.is_empty(),
            "--prometheus-bearer-token, --prometheus-bearer-token-file and --username exclude each other"
        );
        ensure!(
            self.history_resolution <= self.history_length,
            "--history-resolution {} is longer than --history-length {}",
            self.history_resolution,
            self.history_length
        );
        // The flags take precedence over the environment.
        if prometheus.client.username.is_empty() {
            prometheus.client.username = environment("PROMETHEUS_USERNAME").unwrap_or_default();
        }
        let mut password = self.password;
        if password.is_empty() && prometheus.client.password_file.is_empty() {
            password = environment("PROMETHEUS_PASSWORD").unwrap_or_default();
        }
        let secret = |text: String| (!text.is_empty()).then_some(Secret::Text(text));
        let connection =
            prometheus.connection(secret(self.prometheus_bearer_token), secret(password))?;
        Ok(HistorySettings {
            connection,
            usage: UsageSettings {
                job: self.prometheus_cadvisor_job_name,
                cpu_metric: self.history_cpu_metric,
                memory_metric: self.history_memory_metric,
                namespace_label: self.container_namespace_label,
                pod_label: self.container_pod_name_label,
                container_label: self.container_name_label,
            },
            pod_labels: PodLabelSettings {
                query: self.metric_for_pod_labels,
                prefix: self.pod_label_prefix,
                namespace_label: self.pod_namespace_label,
                pod_label: self.pod_name_label,
            },
            length: self.history_length,
            resolution: self.history_resolution,
        })
    }
}

#[cfg(test)]
mod tests {
    use sources::prometheus::Credentials;

    use super::*;
    use crate::args::tests::parse;

    /// `expected`: what the settings look like, or a part of the error.
    fn check(line: &str, environment: &[(&str, &str)], expected: Result<&str, &str>) {
        let variable = |name: &str| {
            environment
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let settings = parse(line)
            .map_err(anyhow::Error::msg)
            .and_then(|args| args.history.settings(variable));
        match (settings, expected) {
            (Ok(settings), Ok(part)) => {
                let shown = format!("{settings:?}");
                assert!(shown.contains(part), "{line}: {shown}");
            }
            (Err(error), Err(part)) => {
                assert!(format!("{error:#}").contains(part), "{line}: {error:#}");
            }
            (settings, expected) => panic!("{line}: {settings:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn defaults_are_upstreams() {
        let settings = parse("")
            .expect("no flag is required")
            .history
            .settings(|_| None)
            .expect("valid");
        assert_eq!(settings.usage, UsageSettings::default());
        assert_eq!(settings.pod_labels, PodLabelSettings::default());
        assert_eq!(
            (settings.length.to_string(), settings.resolution.to_string()),
            ("8d".into(), "1h".into())
        );
        assert_eq!(
            settings.connection.address,
            "http://prometheus.monitoring.svc"
        );
        assert_eq!(settings.connection.query_timeout.as_secs(), 300);
        assert!(matches!(settings.connection.credentials, Credentials::None));
    }

    #[test]
    fn each_flag_reaches_its_setting() {
        for (line, part) in [
            (
                "--prometheus-address=https://p:1/x",
                r#"address: "https://p:1/x""#,
            ),
            ("--prometheus-insecure", "insecure: true"),
            ("--prometheus-ca-file=/ca", r#"ca_file: Some("/ca")"#),
            (
                "--prometheus-client-cert-file=/c --prometheus-client-key-file=/k",
                r#"Some(("/c", "/k"))"#,
            ),
            ("--prometheus-query-timeout=30s", "query_timeout: 30s"),
            (
                r#"--prometheus-matchers=cluster="a",env!="b""#,
                r#"texts: ["cluster=\"a\"", "env!=\"b\""]"#,
            ),
            (
                "--prometheus-header=X-Scope-OrgID=shop --prometheus-header=X-Team=a",
                r#"headers: [("x-scope-orgid", Sensitive), ("x-team", Sensitive)]"#,
            ),
            (
                "--prometheus-cadvisor-job-name=kubelet",
                r#"job: "kubelet""#,
            ),
            ("--history-cpu-metric=a", r#"cpu_metric: "a""#),
            ("--history-memory-metric=b", r#"memory_metric: "b""#),
            (
                "--container-namespace-label=c",
                r#"namespace_label: "c", pod_label: "pod_name""#,
            ),
            (
                "--container-pod-name-label=d",
                r#"pod_label: "d", container_label: "name""#,
            ),
            ("--container-name-label=e", r#"container_label: "e""#),
            ("--metric-for-pod-labels=f", r#"query: "f""#),
            ("--pod-label-prefix=g", r#"prefix: "g""#),
            (
                "--pod-namespace-label=h",
                r#"namespace_label: "h", pod_label: "kubernetes_pod_name""#,
            ),
            ("--pod-name-label=i", r#"pod_label: "i" }"#),
            ("--history-length=2w", "length: Step(1209600000)"),
            ("--history-resolution=5m", "resolution: Step(300000)"),
        ] {
            check(line, &[], Ok(part));
        }
    }

    #[test]
    fn a_token_wins_over_a_user_and_flags_win_over_the_environment() {
        let environment = [
            ("PROMETHEUS_USERNAME", "env"),
            ("PROMETHEUS_PASSWORD", "env"),
        ];
        check(
            "--prometheus-bearer-token=t --username=u",
            &environment,
            Ok("Bearer((secret))"),
        );
        check(
            "--prometheus-bearer-token-file=/t --username=u",
            &environment,
            Ok("Bearer(/t)"),
        );
        check(
            "--prometheus-bearer-token=t --prometheus-bearer-token-file=/t",
            &[],
            Ok("Bearer((secret))"),
        );
        check(
            "--username=u --password-file=/p",
            &environment,
            Ok(r#"Basic { username: "u", password: /p }"#),
        );
        check(
            "",
            &environment,
            Ok(r#"Basic { username: "env", password: (secret) }"#),
        );
        check(
            "",
            &[("PROMETHEUS_PASSWORD", "alone")],
            Ok("credentials: None"),
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (line, part) in [
            (
                "--prometheus-bearer-token=t --prometheus-bearer-token-file=/t --username=u",
                "exclude each other",
            ),
            (
                "--prometheus-address=prometheus:9090",
                "--prometheus-address",
            ),
            (
                "--history-length=1h --history-resolution=1d",
                "--history-resolution",
            ),
            ("--history-length=8", "--history-length"),
            ("--history-resolution=0s", "above zero"),
            (
                "--prometheus-client-cert-file=/c",
                "--prometheus-client-key-file",
            ),
            ("--prometheus-query-timeout=0s", "at least 100ms"),
            (
                "--prometheus-matchers=cluster=prod",
                "'--prometheus-matchers <MATCHERS>': character 9: expected a string, found prod",
            ),
            (
                "--prometheus-header=tenant",
                "--prometheus-header: expected",
            ),
            (
                "--prometheus-header=Authorization=x --username=u",
                "--prometheus-header: authorization and",
            ),
        ] {
            check(line, &[], Err(part));
        }
    }
}
