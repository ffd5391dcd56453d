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

/// Compares the output of a command with a golden file.
fn check(name: &str, command: &str) {
    let arguments: Vec<&str> = command.split(' ').collect();
    let run = run(&arguments);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{command}");
    let path = folder().join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &run.stdout).expect("a written file");
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file");
    assert!(
        run.stdout == expected,
        "the output of {command} differs from {}",
        path.display()
    );
}

fn check_forms(name: &str, command: &str) {
    for (form, ending) in FORMS {
        check(&format!("{name}.{ending}"), &format!("{command} -o {form}"));
    }
}

#[test]
fn scans_have_forms_of_tables_and_of_findings() {
    check_forms("scan", "scan --sample");
    check("scan_junit.xml", "scan --sample -o junit");
    check("scan_sarif.json", "scan --sample -o sarif");
}

#[test]
fn backtests_have_six_forms() {
    check_forms("backtest", "backtest --sample");
}

#[test]
fn simulations_have_six_forms() {
    check_forms("simulate", "simulate --sample -n shop --pod-cpu 100m");
}

#[test]
fn changes_have_a_table_and_manifests() {
    check_forms("diff", "diff --sample");
    for form in ["patch", "kustomize", "helm-values"] {
        check(
            &format!("manifests_{form}.yaml"),
            &format!("manifests --sample --{form}"),
        );
    }
    check(
        "manifests_warning.yaml",
        "manifests --sample --patch --min-severity warning",
    );
}

#[test]
fn containers_are_filtered_and_ordered() {
    check(
        "scan_shop_by_savings.txt",
        "scan --sample -n shop --sort-by savings",
    );
    check(
        "scan_critical.json",
        "scan --sample --min-severity critical -o json",
    );
    check("scan_wide.txt", "scan --sample -n jobs --wide");
    check("scan_replicas.txt", "scan --sample --replicas");
    check("scan_replicas.json", "scan --sample --replicas -o json");
    check("scan_cautious.csv", "scan --sample --caution high -o csv");
}

#[test]
fn the_help_of_every_command_is_known() {
    check("help.txt", "--help");
    for command in
        "scan diff manifests backtest simulate report explain check status revert resume stop go \
                    support-bundle dashboard migrate"
            .split(' ')
    {
        check(&format!("help_{command}.txt"), &format!("{command} --help"));
    }
    check("help_report_merge.txt", "report merge --help");
    for command in ["keda", "adopt", "release"] {
        let name = format!("help_migrate_{command}.txt");
        check(&name, &format!("migrate {command} --help"));
    }
}
