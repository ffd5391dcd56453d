//! `report merge` with saved scans.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::{Run, run};

fn scan() -> Value {
    let run = run(&["scan", "--sample", "-o", "json"]);
    serde_json::from_str(&run.stdout).expect("JSON")
}

fn merge(folder: &Path, files: &[(&str, &Value)]) -> Run {
    let paths = files.iter().map(|(name, scan)| {
        let path = folder.join(name);
        std::fs::write(&path, scan.to_string()).expect("a written file");
        path.to_str().expect("UTF-8").to_owned()
    });
    let paths: Vec<String> = paths.collect();
    let paths = paths.iter().map(String::as_str);
    let arguments: Vec<&str> = ["report", "merge", "-f", "-"]
        .into_iter()
        .chain(paths)
        .collect();
    run(&arguments)
}

#[test]
fn saved_scans_become_one_page_with_sums() {
    let folder = tempfile::tempdir().expect("a folder");
    let scan = scan();
    let saving = scan["total"]["savingsPerMonth"].as_f64().expect("a number");
    let several = json!({
        "version": 1,
        "clusters": [with(&scan, "cluster", json!("north")), with(&scan, "cluster", json!("south"))],
        "leftOut": [{"cluster": "west", "error": "no route"}],
    });
    let merged = merge(
        folder.path(),
        &[("east.json", &scan), ("others.json", &several)],
    );
    assert_eq!(merged.code, 4, "{merged:?}");
    let named = "others.json: west: no route\n";
    assert!(merged.stderr.starts_with("left out: ") && merged.stderr.ends_with(named));
    let page = merged.stdout;
    assert!(page.contains("<h1>Plimsoll report of 3 clusters</h1>"));
    assert!(page.contains("Left out: west: no route."));
    for name in ["east", "north", "south"] {
        let sum = row(&page, &format!("<tr><td>{name}</td>"));
        assert!(sum.contains(&format!(">{saving:.2}<")), "{sum}");
    }
    let total = row(&page, "<tr><td>total</td>");
    assert!(total.contains(&format!(">{:.2}<", 3.0 * saving)), "{total}");
    assert!(page.contains("<tr><td>south</td><td>shop</td><td>"));
}

/// The line of the page that begins with this text.
fn row<'a>(page: &'a str, begin: &str) -> &'a str {
    let found = page
        .lines()
        .find_map(|line| line.find(begin).map(|at| &line[at..]));
    found.expect(begin)
}

fn with(scan: &Value, field: &str, value: Value) -> Value {
    let mut scan = scan.clone();
    scan[field] = value;
    scan
}

#[test]
fn files_that_cannot_be_merged_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |files: &[(&str, &Value)], error: &str| {
        let run = merge(folder.path(), files);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{error}");
        let error = error.replace("DIR", &folder.path().display().to_string());
        assert_eq!(run.stderr, format!("error: {error}\n"));
    };
    let scan = scan();
    let newer = with(&scan, "version", json!(2));
    check(
        &[("a.json", &newer)],
        "DIR/a.json: version 2 is not supported, only 1",
    );
    let no_scan = "not an output of `plimsoll scan -o json`: missing field `currency`";
    check(
        &[("a.json", &json!({"checks": []}))],
        &format!("DIR/a.json: {no_scan}"),
    );
    let named = with(&scan, "cluster", json!("a"));
    let twice = "DIR/b.json: another file has the cluster a, too: rename one";
    check(&[("a.json", &scan), ("b.json", &named)], twice);
    let euros = with(&scan, "currency", json!("EUR"));
    let mixed = "savings of a are in USD and those of b in EUR: use one currency";
    check(&[("a.json", &scan), ("b.json", &euros)], mixed);
}
