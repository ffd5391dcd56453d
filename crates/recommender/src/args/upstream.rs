//! Test of every flag of upstream's recommender 1.8.1, with its default: a Deployment written for upstream
//! starts this program with the same meaning.

use runtime::upstream_flags;

use super::tests::parse;
use super::{Args, PROGRAM};

/// Upstream's flags that not all programs have. Source: `docs/flags.md` and
/// `pkg/recommender/config`.
const OWN: [(&str, &str); 55] = [
    ("recommender-name", "default"),
    ("recommender-interval", "1m0s"),
    ("checkpoints-gc-interval", "10m0s"),
    ("checkpoints-timeout", "1m0s"),
    ("address", ":8942"),
    ("storage", ""),
    ("memory-saver", "false"),
    ("update-worker-count", "10"),
    ("min-checkpoints", "10"),
    ("recommendation-margin-fraction", "0.15"),
    ("pod-recommendation-min-cpu-millicores", "25"),
    ("pod-recommendation-min-memory-mb", "250"),
    ("target-cpu-percentile", "0.9"),
    ("target-memory-percentile", "0.9"),
    ("recommendation-lower-bound-cpu-percentile", "0.5"),
    ("recommendation-lower-bound-memory-percentile", "0.5"),
    ("recommendation-upper-bound-cpu-percentile", "0.95"),
    ("recommendation-upper-bound-memory-percentile", "0.95"),
    ("confidence-interval-cpu", "24h0m0s"),
    ("confidence-interval-memory", "24h0m0s"),
    ("humanize-memory", "false"),
    ("round-cpu-millicores", "1"),
    ("round-memory-bytes", "1"),
    ("prometheus-address", "http://prometheus.monitoring.svc"),
    ("prometheus-insecure", "false"),
    ("prometheus-cadvisor-job-name", "kubernetes-cadvisor"),
    ("history-length", "8d"),
    ("history-resolution", "1h"),
    ("history-cpu-metric", "container_cpu_usage_seconds_total"),
    (
        "history-memory-metric",
        "container_memory_working_set_bytes",
    ),
    ("prometheus-query-timeout", "5m"),
    ("pod-label-prefix", "pod_label_"),
    ("metric-for-pod-labels", "up{job=\"kubernetes-pods\"}"),
    ("pod-namespace-label", "kubernetes_namespace"),
    ("pod-name-label", "kubernetes_pod_name"),
    ("container-namespace-label", "namespace"),
    ("container-pod-name-label", "pod_name"),
    ("container-name-label", "name"),
    ("username", ""),
    ("password", ""),
    ("prometheus-bearer-token", ""),
    ("prometheus-bearer-token-file", ""),
    ("use-external-metrics", "false"),
    ("external-metrics-cpu-metric", ""),
    ("external-metrics-memory-metric", ""),
    ("memory-aggregation-interval", "24h0m0s"),
    ("memory-aggregation-interval-count", "8"),
    ("memory-histogram-decay-half-life", "24h0m0s"),
    ("cpu-histogram-decay-half-life", "24h0m0s"),
    ("oom-bump-up-ratio", "1.2"),
    ("oom-min-bump-up-bytes", "1.048576e+08"),
    ("cpu-integer-post-processor-enabled", "false"),
    ("container-recommendation-max-allowed-cpu", "0"),
    ("container-recommendation-max-allowed-memory", "0"),
    ("leader-elect-resource-name", "vpa-recommender-lease"),
];

#[test]
fn every_flag_of_upstream_is_known_and_has_upstreams_default() {
    upstream_flags::check_defaults::<Args>(&PROGRAM, &OWN);
}

#[test]
fn a_flag_with_a_value_of_its_own_is_heard() {
    let shown = |words: &[String]| upstream_flags::shown::<Args>(&PROGRAM, words);
    let nothing = shown(&[]);
    for (flag, default) in OWN.into_iter().chain(upstream_flags::FLAGS) {
        let other = match default {
            "true" => "false",
            "false" => "true",
            "0" => "2",
            "leases" => continue,
            "" if flag == "storage" => "prometheus",
            "" if flag == "feature-gates" => "PerVPAConfig=true",
            number if number.parse::<f64>().is_ok() => "3",
            duration
                if duration.ends_with('s')
                    && duration.starts_with(|digit: char| digit.is_ascii_digit()) =>
            {
                "7s"
            }
            "5m" | "1h" | "8d" => "6h",
            ":8942" => ":1",
            _ => "other",
        };
        let word = format!("--{flag}={other}");
        assert_ne!(shown(std::slice::from_ref(&word)), nothing, "{word}");
    }
}

#[test]
fn the_arguments_of_upstreams_manifests_start_the_recommender_without_a_word_about_flags() {
    for line in [
        // deploy/recommender-deployment.yaml, and its variants for high availability and external
        // metrics.
        "--v=4 --stderrthreshold=info",
        "--v=4 --stderrthreshold=info --leader-elect=true",
        "--v=4 --stderrthreshold=info --recommender-name=performance --prometheus-address=http://prometheus.default.svc.cluster.local:9090",
        "--v=8 --stderrthreshold=info --use-external-metrics=true --external-metrics-cpu-metric=cpu --external-metrics-memory-metric=mem",
        // The Helm chart's, and what distributions pass.
        "--address=:8942 --leader-elect=true --leader-elect-resource-name=vpa-recommender-lease --leader-elect-resource-namespace=kube-system",
        "--logtostderr --v=1 -v 2 --memory-saver --recommendation-margin-fraction=0.1 --oom-bump-up-ratio=1.3 --feature-gates=InPlace=true,PerVPAConfig=true",
    ] {
        let args = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(args.common.ignored_flags.iter().count(), 0, "{line}");
        assert!(args.sizing.config(&args.feature_gates).is_ok(), "{line}");
    }
}
