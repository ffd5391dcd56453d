//! Command lines and their parsed settings.

use std::time::Duration;

use super::*;

pub(crate) fn parse(line: &str) -> Result<Args, String> {
    PROGRAM.parse_line(line)
}

#[test]
fn the_command_line_is_sound() {
    PROGRAM.command::<Args>().debug_assert();
}

#[test]
fn defaults_are_upstreams() {
    let args = parse("").expect("no flag is required");
    assert_eq!(
        (args.recommender_name.as_str(), args.update_worker_count),
        ("default", 10)
    );
    assert_eq!(args.recommender_interval.0, Duration::from_mins(1));
    assert_eq!(args.checkpoints_timeout.0, Duration::from_mins(1));
    assert_eq!(args.checkpoints_gc_interval.0, Duration::from_mins(10));
    assert_eq!(
        (args.storage, args.min_checkpoints),
        (Storage::Checkpoint, 10)
    );
    assert_eq!(args.common.address.to_string(), ":8942");
    assert_eq!(
        args.election.leader_elect_resource_name,
        "vpa-recommender-lease"
    );
}

#[test]
fn checkpoints_are_the_storage_by_either_name_and_a_slip_is_noticed() {
    for line in ["", "--storage=", "--storage=checkpoint"] {
        let storage = parse(line).expect(line).storage;
        assert_eq!(storage, Storage::Checkpoint, "{line}");
    }
    assert!(parse("--storage=checkpoints").is_err());
}

fn scoped(line: &str) -> anyhow::Result<Scope> {
    let args = parse(line).expect(line);
    scope(args.namespaces, args.shard)
}

#[test]
fn namespaces_are_all_some_or_one() {
    let check = |line: &str, namespace: &str, expected: bool| {
        let scope = scoped(line).expect("one of the two");
        assert_eq!(scope.includes(namespace), expected, "{line} {namespace}");
    };
    check("", "a", true);
    check("--vpa-object-namespace=a", "b", false);
    check("--ignored-vpa-object-namespaces=a,b", "b", false);
    check("--ignored-vpa-object-namespaces=a,b", "c", true);
    assert!(scoped("--vpa-object-namespace=a --ignored-vpa-object-namespaces=b").is_err());
}

#[test]
fn shards_are_counted_from_zero_and_divide_all_namespaces() {
    let shard = |line: &str| parse(line).map(|args| args.shard);
    assert_eq!(shard(""), Ok(Shard::default()));
    let second = "--shard=1/2 --ignored-vpa-object-namespaces=kube-system";
    assert!(scoped(second).expect("a scope").includes("mail"));
    assert!(scoped("--shard=1/2 --vpa-object-namespace=mail").is_err());
    for (line, expected) in [
        (
            "--shard=2/2",
            "shards are counted from zero: the last of 2 is 1/2",
        ),
        ("--shard=0/0", "there must be 1 to 256 shards"),
        ("--shard=2", "expected INDEX/COUNT, such as 0/2 and 1/2"),
    ] {
        let error = shard(line).expect_err(line);
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("--shard"), "{error}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for line in [
        "--checkpoints-timeout=0s",
        "--checkpoints-gc-interval=0s",
        "--recommender-interval=0s",
        "--update-worker-count=0",
    ] {
        assert!(parse(line).is_err(), "{line}");
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
        assert_eq!(args.ignored_flags.iter().count(), 0, "{line}");
        assert!(args.sizing.config(&args.feature_gates).is_ok(), "{line}");
    }
}

/// `expected`: the metrics, `None` for the metrics API, or part of the error.
fn check_external(line: &str, expected: Result<Option<[Option<&str>; 2]>, &str>) {
    let args = parse(line).expect(line);
    let names = args.external.names(&args.history.container_name_label);
    match (names, expected) {
        (Ok(names), Ok(expected)) => {
            let expected = expected.map(|names| {
                let [cpu, memory] = names.map(|name| name.map(str::to_owned));
                ExternalMetricNames::new(cpu, memory, "name".to_owned()).expect("names")
            });
            assert_eq!(names, expected, "{line}");
        }
        (Err(error), Err(part)) => {
            assert!(format!("{error:#}").contains(part), "{line}: {error:#}");
        }
        (names, expected) => panic!("{line}: {names:?}, expected {expected:?}"),
    }
}

#[test]
fn external_metrics_need_a_name_and_the_switch() {
    check_external("", Ok(None));
    check_external("--external-metrics-cpu-metric=cpu", Ok(None));
    check_external(
        "--use-external-metrics --external-metrics-cpu-metric=cpu",
        Ok(Some([Some("cpu"), None])),
    );
    let both = "--use_external_metrics=true --external_metrics_cpu_metric=a --external_metrics_memory_metric=b";
    check_external(both, Ok(Some([Some("a"), Some("b")])));
    check_external(
        "--use-external-metrics",
        Err("needs --external-metrics-cpu-metric"),
    );
    check_external(
        "--use-external-metrics --external-metrics-cpu-metric=a/b",
        Err("is not the name of a metric"),
    );
}
