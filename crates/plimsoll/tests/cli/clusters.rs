//! Commands for several clusters: `a` and `b`, and `c` that cannot be reached.

use serde_json::{Value, json};

use crate::api_server;
use crate::program::{Run, UNREACHABLE, file, run};

/// The kubeconfig of the three.
fn kubeconfig() -> (tempfile::TempDir, String) {
    let servers = [
        api_server::start(),
        api_server::start(),
        "http://127.0.0.1:1".to_owned(),
    ];
    let names = ["a", "b", "c"];
    let clusters: Vec<Value> = names
        .iter()
        .zip(&servers)
        .map(|(name, server)| json!({"name": name, "cluster": {"server": server}}))
        .collect();
    let contexts =
        names.map(|name| json!({"name": name, "context": {"cluster": name, "user": "me"}}));
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": clusters,
        "contexts": contexts, "users": [{"name": "me", "user": {}}],
    });
    file(&kubeconfig.to_string())
}

fn run_for(kubeconfig: &str, command: &str) -> Run {
    let arguments: Vec<&str> = command.split(' ').collect();
    run(&[&arguments[..], &["--kubeconfig", kubeconfig]].concat())
}

/// The error of the cluster `c`, which begins like this.
fn left_out() -> String {
    UNREACHABLE.replace("error", "left out: c")
}

#[test]
fn each_cluster_is_stopped_and_the_exit_code_is_the_worst() {
    let (_folder, path) = kubeconfig();
    let name = "plimsoll-system/plimsoll-stop";
    let stopped =
        format!("stopped: created the ConfigMap {name}, and no pod is evicted or resized");
    assert_eq!(
        run_for(&path, "stop --context b").stdout,
        format!("{stopped}\n")
    );
    let both = run_for(&path, "stop --contexts a,b,c");
    let already = format!("already stopped: the ConfigMap {name} exists");
    let expected = format!("a: {stopped}\nb: {already}\n2 of 3 clusters are stopped\n");
    assert_eq!((both.code, both.stdout), (5, expected));
    let error = UNREACHABLE.replace("error: ", "error: c: ");
    assert!(both.stderr.starts_with(&error), "{}", both.stderr);
    let all = run_for(&path, "go --all-contexts");
    let end = "2 of 3 clusters are not stopped\n";
    assert!(all.code == 5 && all.stdout.ends_with(end), "{all:?}");
    let again = run_for(&path, "go --contexts a,b");
    let line = format!("not stopped: there is no ConfigMap {name}\n");
    let end = "2 of 2 clusters are not stopped\n";
    let expected = format!("a: {line}b: {line}{end}");
    assert_eq!(
        (again.code, again.stdout, again.stderr),
        (0, expected, String::new())
    );
}

#[test]
fn one_unreachable_cluster_does_not_hide_the_others() {
    let (_folder, path) = kubeconfig();
    for (command, code) in [
        ("status", 4),
        // The definitions of the suite are missing in both.
        ("check", 1),
        ("scan --prometheus-service monitoring/prometheus:9090", 4),
    ] {
        let run = run_for(&path, &format!("{command} --all-contexts -o json"));
        assert_eq!(run.code, code, "{command}: {run:?}");
        assert!(
            run.stderr.contains(&left_out()),
            "{command}: {}",
            run.stderr
        );
        let data: Value = serde_json::from_str(&run.stdout).expect("JSON");
        let clusters = data["clusters"].as_array().expect("clusters");
        let names: Vec<&Value> = clusters.iter().map(|it| &it["cluster"]).collect();
        assert_eq!(names, ["a", "b"], "{command}");
        assert_eq!(data["leftOut"][0]["cluster"], "c", "{command}");
    }
    let none = run_for(&path, "status --contexts c");
    assert_eq!((none.code, none.stdout.as_str()), (5, ""));
}

#[test]
fn sections_and_columns_name_the_cluster() {
    let (_folder, path) = kubeconfig();
    let scan = "scan --prometheus-service monitoring/prometheus:9090 --contexts b,a";
    let csv = run_for(&path, &format!("{scan} -o csv"));
    let lines: Vec<&str> = csv.stdout.lines().collect();
    assert!(
        lines[0].starts_with("cluster,namespace,workload,"),
        "{csv:?}"
    );
    assert!(
        lines[1].starts_with("b,shop,statefulset/web,app,1,2,"),
        "{csv:?}"
    );
    assert!(
        lines[2].starts_with("a,shop,statefulset/web,app,1,2,"),
        "{csv:?}"
    );
    assert_eq!(csv.code, 0);
    let table = run_for(&path, scan).stdout;
    assert!(table.contains("\nClusters\nCLUSTER "), "{table}");
    let one = run_for(
        &path,
        "scan --prometheus-service monitoring/prometheus:9090",
    );
    assert!(!one.stdout.contains("CLUSTER"), "{one:?}");
    let sarif = run_for(&path, &format!("{scan} -o sarif"));
    let sarif: Value = serde_json::from_str(&sarif.stdout).expect("JSON");
    let uri = "/runs/0/results/0/locations/0/physicalLocation/artifactLocation/uri";
    assert_eq!(
        sarif.pointer(uri).expect(uri),
        "kubernetes/b/shop/statefulset/web/app"
    );
    let check = run_for(&path, "check --contexts a,b -o short").stdout;
    assert!(check.starts_with("cluster a\n=========\n"), "{check}");
    assert!(
        check.contains("\ncluster b\n") && check.contains("\n2 of 2 clusters, "),
        "{check}"
    );
    let status = run_for(&path, "status --contexts a,b").stdout;
    assert!(
        status.ends_with(
            "2 of 2 clusters: 2 of 2 replicas are ready, 0 VerticalPodAutoscaler \
                              objects, updates are stopped in 0.\n"
        ),
        "{status}"
    );
}

#[test]
fn a_report_of_several_clusters_has_their_sum() {
    let (_folder, path) = kubeconfig();
    let report = "report --prometheus-service monitoring/prometheus:9090 --all-contexts -f -";
    let report = run_for(&path, report);
    assert_eq!(report.code, 4, "{report:?}");
    assert!(report.stderr.contains(&left_out()), "{}", report.stderr);
    for text in [
        "Plimsoll report of 2 clusters",
        "<td>b</td><td>shop</td>",
        "Left out: c: cannot",
    ] {
        assert!(report.stdout.contains(text), "{text}");
    }
}

#[test]
fn flags_that_contradict_each_other_are_named() {
    let several = "--contexts <NAMES>";
    for command in ["scan", "report", "check", "stop", "go", "status"] {
        for (flags, one, other) in [
            (
                &["--context", "a", "--contexts", "b"],
                "--context <NAME>",
                several,
            ),
            (
                &["--all-contexts", "--contexts", "b", "-h"],
                "--all-contexts",
                several,
            ),
        ] {
            let flags = flags.iter().filter(|flag| **flag != "-h").copied();
            let run = run(&[command].into_iter().chain(flags).collect::<Vec<_>>());
            assert_eq!(run.code, 2, "{run:?}");
            assert!(
                run.stderr.contains(one) && run.stderr.contains(other),
                "{run:?}"
            );
        }
        let run = run(&[command, "--contexts", "a,,b"]);
        assert_eq!(run.code, 2, "{run:?}");
    }
    for (source, named) in [
        (&["--sample"][..], "--sample"),
        (&["usage.csv"], "files"),
        (
            &["--prometheus-address", "http://127.0.0.1:1"],
            "--prometheus-address",
        ),
    ] {
        let run = run(&[&["scan", "--contexts", "a"], source].concat());
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.stderr
                .starts_with("error: --contexts and --all-contexts"),
            "{run:?}"
        );
        assert!(run.stderr.contains(named), "{run:?}");
    }
}
