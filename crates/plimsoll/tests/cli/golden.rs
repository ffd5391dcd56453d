//! Every command and form of output with the bundled sample.

use crate::program::{folder, run};

/// Forms of the output with the endings of their golden files.
const FORMS: [(&str, &str); 6] = [
    ("table", "txt"),
    ("json", "json"),
    ("yaml", "yaml"),
    ("csv", "csv"),
    ("md", "md"),
    ("html", "html"),
];

fn check(name: &str, arguments: &[&str]) {
    let run = run(arguments);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{arguments:?}");
    let path = folder().join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &run.stdout).expect("a written file");
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file");
    assert!(
        run.stdout == expected,
        "the output of {arguments:?} differs from {}",
        path.display()
    );
}

#[test]
fn scans_have_six_forms() {
    for (form, ending) in FORMS {
        check(&format!("scan.{ending}"), &["scan", "--sample", "-o", form]);
    }
}

#[test]
fn backtests_have_six_forms() {
    for (form, ending) in FORMS {
        let name = format!("backtest.{ending}");
        check(&name, &["backtest", "--sample", "-o", form]);
    }
}

#[test]
fn simulations_have_six_forms() {
    for (form, ending) in FORMS {
        let name = format!("simulate.{ending}");
        let arguments = [
            "simulate",
            "--sample",
            "-n",
            "shop",
            "--pod-cpu",
            "100m",
            "-o",
            form,
        ];
        check(&name, &arguments);
    }
}

#[test]
fn changes_have_a_table_and_manifests() {
    for (form, ending) in FORMS {
        check(&format!("diff.{ending}"), &["diff", "--sample", "-o", form]);
    }
    for form in ["patch", "kustomize", "helm-values"] {
        let flag = format!("--{form}");
        check(&format!("apply_{form}.yaml"), &["apply", "--sample", &flag]);
    }
    check(
        "apply_warning.yaml",
        &["apply", "--sample", "--patch", "--min-severity", "warning"],
    );
}

#[test]
fn containers_are_filtered_and_ordered() {
    check(
        "scan_shop_by_savings.txt",
        &["scan", "--sample", "-n", "shop", "--sort-by", "savings"],
    );
    check(
        "scan_critical.json",
        &[
            "scan",
            "--sample",
            "--min-severity",
            "critical",
            "-o",
            "json",
        ],
    );
    for (form, ending) in [("table", "txt"), ("json", "json")] {
        let name = format!("scan_replicas.{ending}");
        check(&name, &["scan", "--sample", "--replicas", "-o", form]);
    }
    check(
        "scan_cautious.csv",
        &["scan", "--sample", "--caution", "high", "-o", "csv"],
    );
}

#[test]
fn the_help_of_every_command_is_known() {
    check("help.txt", &["--help"]);
    for command in [
        "scan",
        "diff",
        "apply",
        "backtest",
        "simulate",
        "report",
        "explain",
        "check",
        "status",
        "stop",
        "go",
        "support-bundle",
        "dashboard",
        "migrate",
    ] {
        check(&format!("help_{command}.txt"), &[command, "--help"]);
    }
    for command in ["keda", "adopt", "release"] {
        let name = format!("help_migrate_{command}.txt");
        check(&name, &["migrate", command, "--help"]);
    }
}
