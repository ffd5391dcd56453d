//! Errors in one sentence on the standard error, and exit codes.

use crate::program::{Run, UNREACHABLE, file, kubeconfig, run, run_with};

/// Three days of constant usage with this request.
fn recording(cpu_request: &str) -> (tempfile::TempDir, String) {
    let first =
        format!("time,workload,cpu,memory,cpu_request\n0,deployment/web,1,1Gi,{cpu_request}\n");
    let others = (1..3 * 288).map(|slot| format!("{},deployment/web,1,1Gi\n", 300 * slot));
    file(&(first + &others.collect::<String>()))
}

fn check(arguments: &[&str], code: i32, error: &str) {
    let run = run(arguments);
    let expected = Run {
        code,
        stdout: String::new(),
        stderr: format!("error: {error}\n"),
    };
    assert_eq!(run, expected, "{arguments:?}");
}

#[test]
fn a_source_is_needed() {
    check(
        &["scan"],
        2,
        "no usage to read: name CSV files, --prometheus-address, --kubeconfig of a cluster with Prometheus, \
         or --sample for the bundled sample",
    );
    let limit = "--idle-node-cpu-requests=20";
    check(
        &["scan", "--sample", "--replicas", limit],
        2,
        "--idle-node-cpu-requests and --idle-node-memory-requests need the nodes of a cluster: leave out \
         the files and --sample",
    );
    // Access to Prometheus is of no use without its address.
    for flag in [
        "--prometheus-insecure",
        "--prometheus-ca-file=ca.crt",
        "--prometheus-bearer-token-file=token",
        "--username=me",
        "--prometheus-matchers=prod",
        "--prometheus-header=tenant",
    ] {
        let run = run(&["scan", flag]);
        let name = flag.split('=').next().expect("a name");
        assert!(run.code == 2 && run.stderr.contains(name), "{run:?}");
    }
    assert_eq!(run(&["scan", "--sample", "usage.csv"]).code, 2);
    assert_eq!(run(&["scan", "--sample", "--caution", "0"]).code, 2);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = |arguments: &[&str], what: &str| {
        let error = format!("cannot {what}: No such file or directory (os error 2)");
        check(arguments, 1, &error);
    };
    missing(&["scan", "/nowhere.csv"], "read /nowhere.csv");
    missing(&["rules", "check", "/nowhere.yaml"], "read /nowhere.yaml");
    let prices = ["report", "--sample", "--prices", "/nowhere.yaml"];
    missing(&prices, "read --prices=/nowhere.yaml");
    let report = ["report", "--sample", "-f", "/nowhere/report.html"];
    missing(&report, "write /nowhere/report.html");
    let (_folder, path) = file("time,workload,cpu\n0,deployment/web,much\n");
    let error = format!("{path}: line 2: column \"cpu\": \"much\" is not a quantity");
    check(&["backtest", &path], 1, &error);
}

#[test]
fn short_recordings_are_left_out_by_name() {
    let (_folder, path) = file("time,workload,cpu\n0,deployment/web,1\n300,deployment/web,1\n");
    let scan = run(&["scan", &path, "-o", "csv"]);
    assert_eq!(scan.code, 4);
    let left_out = "left out: deployment/web: less than an hour of usage\n";
    assert_eq!(scan.stderr, left_out);
    check(
        &["backtest", &path],
        1,
        "no container has two days of usage: a replay needs one to learn and one to judge",
    );
    let error = "no container has an hour of usage";
    check(&["report", &path, "-f", "-"], 1, error);
}

#[test]
fn findings_of_a_severity_fail_if_asked() {
    let (_folder, path) = recording("250m");
    let code = |arguments: &[&str]| run(&[&["scan", &path], arguments].concat()).code;
    assert_eq!(code(&[]), 0);
    assert_eq!(code(&["--fail-on", "critical"]), 3);
    // A filter of the output does not hide a finding.
    assert_eq!(code(&["--fail-on", "critical", "-n", ""]), 3);
    let (_folder, path) = recording("1200m");
    let code = |arguments: &[&str]| run(&[&["scan", &path], arguments].concat()).code;
    assert_eq!(code(&["--fail-on", "critical"]), 0);
    assert_eq!(code(&["--fail-on", "warning"]), 3);
}

#[test]
fn names_of_tenants_are_text_in_the_report() {
    let row = |slot| {
        format!(
            "{},\"<script>alert(1)</script>\",\"</pre><b>\",1,1Gi\n",
            300 * slot
        )
    };
    let rows: String = (0..3 * 288).map(row).collect();
    let (_folder, path) = file(&format!("time,workload,container,cpu,memory\n{rows}"));
    let report = run(&["report", &path, "-f", "-"]);
    assert_eq!(report.code, 0);
    let page = report.stdout;
    assert!(!page.contains("<script") && !page.contains("</pre><b>"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn a_report_is_written_to_a_file_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.html");
    let name = path.to_str().expect("UTF-8");
    let report = run(&["report", "--sample", "-f", name]);
    let wrote = format!("wrote {name}; open it in a browser\n");
    assert_eq!(report.stderr, wrote);
    let page = std::fs::read_to_string(&path).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
    // Nothing is loaded from elsewhere.
    assert!(!page.contains("src=") && !page.contains("http://") && !page.contains("https://"));
}

#[test]
fn each_command_has_a_manual_page_that_the_first_one_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let run = run(&["man", pages.to_str().expect("a path")]);
    assert_eq!((run.code, &*run.stdout), (0, ""));
    let first = std::fs::read_to_string(pages.join("plimsoll.1")).expect("the first page");
    for command in ["scan", "manifests", "dashboard", "migrate"] {
        let page = format!("plimsoll-{command}");
        assert!(
            first.contains(&page.replace('-', "\\-")),
            "{page} in {first}"
        );
        let text = std::fs::read_to_string(pages.join(format!("{page}.1"))).expect("a page");
        assert!(text.contains("SYNOPSIS"), "{text}");
    }
}

#[test]
fn completions_and_the_manual_page_name_all_commands() {
    for arguments in [&["completion", "bash"][..], &["man"][..]] {
        let run = run(arguments);
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("backtest") && run.stdout.contains("report"));
    }
}

#[test]
fn a_simulation_needs_the_cpu_of_a_pod_and_ordered_bounds() {
    let (_folder, path) = recording("");
    check(
        &["simulate", &path],
        1,
        "no workload can be simulated. left out: deployment/web: a container has no CPU request: set --pod-cpu",
    );
    let bounds = ["simulate", &path, "--min", "5", "--max", "4"];
    check(&bounds, 2, "--min=5 is above --max=4");
    let zero = run(&["simulate", &path, "--pod-cpu", "0"]);
    assert_eq!(zero.code, 2);
    assert!(zero.stderr.contains("must be at least 1m"), "{zero:?}");
}

#[test]
fn clusters_and_ranges_are_checked() {
    let prometheus = ["scan", "--prometheus-address", "http://127.0.0.1:1"];
    let with = |more: &[&'static str]| [&prometheus[..], more].concat();
    for (flag, error) in [
        ("--history=367d", " is longer than 366d"),
        ("--history=1m", " is shorter than --step=5m"),
        ("--step=1s", " is shorter than 1m"),
    ] {
        check(&with(&[flag]), 2, &format!("{flag}{error}"));
    }
    assert_eq!(run(&with(&["--sample"])).code, 2);
    assert_eq!(run(&with(&["--username", "a"])).code, 2);
    let missing = run(&with(&["--kubeconfig", "missing.kubeconfig"]));
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("missing.kubeconfig"), "{missing:?}");
    let (_folder, path) = kubeconfig("http://127.0.0.1:1");
    let unreachable = run(&[&prometheus[..], &["--kubeconfig", &path]].concat());
    assert_eq!(unreachable.code, 5, "{unreachable:?}");
    assert!(
        unreachable.stderr.starts_with(UNREACHABLE),
        "{unreachable:?}"
    );
}

#[test]
fn an_unreachable_cluster_has_an_exit_code_of_its_own() {
    let (folder, path) = kubeconfig("http://127.0.0.1:1");
    let bundle = folder.path().join("bundle");
    let bundle = format!("support-bundle -o {}", bundle.to_str().expect("UTF-8"));
    for command in [
        "check",
        "check --pre --wait=1s",
        "status",
        "stop",
        "go",
        &bundle,
        "explain vpa/web",
        "dashboard",
        "migrate vpa",
        "migrate keda --plan",
        "migrate adopt",
        "migrate release",
    ] {
        let arguments: Vec<&str> = command.split(' ').chain(["--kubeconfig", &path]).collect();
        let run = run(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{command}");
        assert!(run.stderr.starts_with(UNREACHABLE), "{}", run.stderr);
    }
}

#[test]
fn slips_of_units_are_named_in_a_scan() {
    let (_folder, path) = recording("250");
    let slip = "deployment/web: requests[cpu]: \"250\" is 250 cores; millicores have the suffix m.";
    for format in ["table", "json"] {
        let run = run(&["scan", &path, "-o", format]);
        let text = run.stdout.replace("\\\"", "\"");
        assert!(text.contains(slip), "{text}");
    }
    let (_folder, path) = recording("250m");
    assert!(!run(&["scan", &path]).stdout.contains("suffix"));
}

#[test]
fn a_plan_has_no_tables() {
    let error = "--plan has the forms table, json and yaml: choose one with --output";
    check(&["migrate", "crane", "--plan", "-o", "csv"], 2, error);
}

#[test]
fn errors_in_files_of_the_adapter_name_the_field() {
    let (_folder, file) = file("rules: [{seriesQuery: up}]");
    let write = |text: &str| std::fs::write(&file, text).expect("a written file");
    let missing = format!("{file}: rules[0].metricsQuery: must be set");
    check(&["rules", "check", &file], 1, &missing);
    write("defaultUpstream: keda");
    let unknown = format!("{file}: defaultUpstream: there is no upstream \"keda\"");
    check(&["routes", "check", &file], 1, &unknown);
    write("upstreams: []");
    let valid = run(&["routes", "check", &file]);
    let expected = format!("{file}: valid, 0 upstreams and 0 routes\n");
    assert_eq!((valid.code, valid.stdout), (0, expected));
}

#[test]
fn a_kubeconfig_that_cannot_be_used_does_not_lead_to_another_cluster() {
    let (_folder, path) = file("apiVersion: v1\nkind: Config\ncurrent-context: gone\n");
    for (variables, expected) in [
        (
            &[("KUBECONFIG", &*path)][..],
            "error: cannot use the kubeconfig",
        ),
        (&[], "error: no cluster: name a kubeconfig"),
    ] {
        let run = run_with(variables, &["stop"]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.stderr.starts_with(expected), "{}", run.stderr);
    }
}
