//! Metrics: name, type, labels and HELP text, from the rows that declare them.
//! `served_metrics` compares them with the running programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::sources::{consists_of, literals, sources};
use crate::{add_page, cell, check_list};

const INTRODUCTION: &str = "# Metrics

Generated from the rows that declare the metrics, and compared with what the running programs serve at
`/metrics` of [`--address`](../operations.md#endpoints-of-the-programs). A metric with labels is absent until
its first value. [Metrics by topic](../metrics.md) explains the values of labels.

Each program also serves the `process_*` metrics of Prometheus' client libraries.
";

/// Parts of names that are parameters: crate, parameter, values.
const PARAMETERS: [(&str, &str, &[&str]); 3] = [
    (
        "serving",
        "{prefix}",
        &[
            "vpa_admission_controller",
            "plimsoll_adapter",
            "plimsoll_extender",
        ],
    ),
    ("delegated_auth", "{prefix}", &["plimsoll_adapter"]),
    ("delegated_auth", "{kind}", &["authn", "authz"]),
];

/// First parts of the names of metrics, which are arguments.
const ARGUMENTS: [&str; 2] = ["plimsoll_adapter", "plimsoll_extender"];

/// Begins of the names of metrics of the suite and of VPA.
pub(crate) const PREFIXES: [&str; 5] = [
    "vpa_recommender_",
    "vpa_updater_",
    "vpa_quality_",
    "vpa_admission_controller_",
    "plimsoll_",
];
/// Begins of names that programs of Kubernetes have in common.
const FOREIGN_PREFIXES: [&str; 4] = [
    "leader_election_",
    "rest_client_",
    "apiserver_",
    "metrics_apiserver_",
];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Metric {
    name: String,
    kind: &'static str,
    labels: Vec<String>,
    help: String,
}

fn programs(metric: &Metric, crate_name: &str) -> &'static str {
    match (crate_name, metric.name.as_str()) {
        (_, name) if name.starts_with("vpa_admission_controller") => "Webhook",
        (_, name) if name.starts_with("plimsoll_extender") => "Extender",
        (_, "leader_election_master_status" | "plimsoll_other_autoscaler_running") => {
            "Recommender, updater and webhook"
        }
        (_, "vpa_recommender_shard_conflict") => "Recommender",
        ("adapter" | "delegated_auth" | "serving", _) => "Adapter",
        ("extender" | "placement", _) => "Extender",
        ("updater", _) => "Updater",
        ("runtime", _) => "All programs",
        _ => "Recommender",
    }
}

fn rows(code: &str) -> Vec<Metric> {
    let tables = code.split("metrics! {").skip(1);
    tables
        .flat_map(|rest| {
            let table = until(rest, '}').0;
            let mut body = table.split_once('{').map_or("", |(_, body)| body);
            let mut found = Vec::new();
            while let Some(row) = body.contains(';').then(|| until(body, ';')) {
                found.extend(metric(row.0));
                body = row.1;
            }
            found
        })
        .collect()
}

/// Splits at the first such sign outside of brackets and texts.
fn until(code: &str, sign: char) -> (&str, &str) {
    let (mut depth, mut is_text, mut is_escaped) = (0, false, false);
    for (at, letter) in code.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            _ if is_text => {}
            _ if letter == sign && depth == 0 => return (&code[..at], &code[at + 1..]),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    (code, "")
}

/// `field: Kind { label: values, ... } [buckets] = name, help`
fn metric(row: &str) -> Option<Metric> {
    let (declared, described) = until(row, '=');
    let [name, help] = literals(described).try_into().ok()?;
    let kind = declared.split_once(": ")?.1;
    let mut labels = Vec::new();
    if let Some((_, mut rest)) = kind.split_once('{') {
        rest = until(rest, '}').0;
        while !rest.trim().is_empty() {
            let (label, others) = until(rest, ',');
            labels.push(label.split(':').next()?.trim().to_owned());
            rest = others;
        }
    }
    let kind = match kind.split([' ', '\n']).next()? {
        name if name.starts_with("Histogram") || name == "StepLatency" => "histogram",
        name if name.contains("Counter") => "counter",
        _ => "gauge",
    };
    Some(Metric {
        name,
        kind,
        labels,
        help,
    })
}

fn expand(metric: Metric, crate_name: &str) -> Vec<Metric> {
    let mut metrics = vec![metric];
    for (_, parameter, values) in PARAMETERS.iter().filter(|(name, ..)| *name == crate_name) {
        metrics = metrics
            .into_iter()
            .flat_map(|metric| {
                if !metric.name.contains(parameter) {
                    return vec![metric];
                }
                let with = |value: &&str| Metric {
                    name: metric.name.replace(parameter, value),
                    ..metric.clone()
                };
                values.iter().map(with).collect()
            })
            .collect();
    }
    metrics
}

/// The metrics by the programs that serve them.
fn metrics() -> BTreeMap<&'static str, BTreeSet<Metric>> {
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for source in sources() {
        let crate_name = source.crate_name();
        for metric in rows(&source.code) {
            for metric in expand(metric, crate_name) {
                let programs = programs(&metric, crate_name);
                found.entry(programs).or_default().insert(metric);
            }
        }
    }
    found
}

pub(crate) fn names() -> BTreeSet<String> {
    metrics()
        .into_values()
        .flatten()
        .map(|metric| metric.name)
        .collect()
}

pub(crate) fn page() -> String {
    let mut text = INTRODUCTION.to_owned();
    for (programs, metrics) in metrics() {
        let _ = write!(
            text,
            "\n## {programs}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
        );
        for Metric {
            name,
            kind,
            labels,
            help,
        } in metrics
        {
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                text,
                "| `{name}` | {kind} | {} | {} |",
                labels.join(", "),
                cell(&help)
            );
        }
    }
    text
}

#[test]
fn the_list_of_metrics_has_those_of_the_sources() {
    let by_programs = metrics().into_iter();
    let lines = by_programs.flat_map(|(programs, metrics)| {
        metrics.into_iter().map(move |metric| {
            let labels = metric.labels.join(", ");
            format!("{programs}: {} {}{{{labels}}}", metric.kind, metric.name)
        })
    });
    check_list("metrics.txt", &lines.collect::<Vec<_>>());
    add_page("metrics.md", &page());
}

#[test]
fn each_literal_that_looks_like_a_metric_is_one() {
    let names = names();
    assert!(names.len() > 120, "{} metrics", names.len());
    let prefixes = PREFIXES.iter().chain(&FOREIGN_PREFIXES);
    let mut missing = BTreeSet::new();
    for source in sources() {
        for literal in literals(&source.code) {
            let is_name = consists_of(&literal, |letter| {
                letter.is_ascii_lowercase() || letter == '_'
            });
            let has_prefix = prefixes.clone().any(|prefix| literal.starts_with(prefix));
            if is_name
                && has_prefix
                && !ARGUMENTS.contains(&literal.as_str())
                && !names.contains(&literal)
            {
                missing.insert(format!("{}: {literal}", source.path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
