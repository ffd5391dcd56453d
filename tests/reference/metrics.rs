//! Metrics: name, type, labels and HELP text, from the calls that create them.
//! `served_metrics` compares them with the running programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::sources::{consists_of, literals, sources};
use crate::{add_page, cell, check_list};

const INTRODUCTION: &str = "# Metrics

Generated from the calls that create the metrics, and compared with what the running programs serve at
`/metrics` of [`--address`](../operations.md#endpoints-of-the-programs). A metric with labels is absent until
its first value. [Metrics by topic](../metrics.md) explains the values of labels.

Each program also serves the `process_*` metrics of Prometheus' client libraries.
";

/// Functions and macros with the name and the HELP text of a metric as their first two literals.
const CONSTRUCTORS: [&str; 20] = [
    "register_gauge_with_registry!",
    "register_gauge_vec_with_registry!",
    "register_int_gauge_with_registry!",
    "register_int_gauge_vec_with_registry!",
    "register_int_counter_with_registry!",
    "register_int_counter_vec_with_registry!",
    "register_histogram_with_registry!",
    "register_histogram_vec_with_registry!",
    "IntGauge::new",
    "IntCounter::new",
    "Opts::new",
    "HistogramOpts::new",
    "computed::register",
    "StepLatency::register",
    "families.number",
    "families.count",
    "families.gauge",
    "families.counter",
    // A pair of a `GaugeTable`, and an entry of Crane's metrics.
    "",
    "Family",
];

/// Local functions that call one of these.
const LOCAL: [&str; 4] = ["gauge", "counter", "counters", "histogram"];

/// Parts of names that are parameters: crate, parameter, values.
const PARAMETERS: [(&str, &str, &[&str]); 6] = [
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
    (
        "recommender",
        "{PREFIX}",
        &["kube_verticalpodautoscaler_status_recommendation_containerrecommendations_"],
    ),
    (
        "recommender",
        "{name}",
        &["target", "lowerbound", "upperbound", "uncappedtarget"],
    ),
    ("updater", "{name}", &[]),
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

/// The HELP text of all histograms of steps.
const STEP_HELP: &str = "Duration of the steps of the main loop, in seconds.";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Metric {
    name: String,
    kind: &'static str,
    labels: Vec<String>,
    help: String,
}

/// The programs that serve a metric of a crate.
fn programs(metric: &Metric, crate_name: &str) -> &'static str {
    match (crate_name, metric.name.as_str()) {
        (_, name) if name.starts_with("vpa_admission_controller") => "Webhook",
        (_, name) if name.starts_with("plimsoll_extender") => "Extender",
        (_, "leader_election_master_status") => "Recommender and updater",
        (_, "plimsoll_other_autoscaler_running") => "Recommender, updater and webhook",
        (_, "vpa_recommender_shard_conflict") => "Recommender",
        ("adapter" | "delegated_auth" | "serving", _) => "Adapter",
        ("extender" | "placement", _) => "Extender",
        ("updater", _) => "Updater",
        ("runtime", _) => "All programs",
        _ => "Recommender",
    }
}

/// A call: its function, its arguments, and the code after it.
fn calls(code: &str) -> impl Iterator<Item = (&str, Vec<&str>, &str)> {
    code.match_indices(['(', '{']).filter_map(|(at, _)| {
        let before = code[..at].trim_end_matches(' ');
        let is_name = |letter: char| letter.is_alphanumeric() || "_:!.".contains(letter);
        let start = before
            .rfind(|letter| !is_name(letter))
            .map_or(0, |at| at + 1);
        let (arguments, length) = arguments(&code[at + 1..])?;
        Some((&before[start..], arguments, &code[at + 1 + length..]))
    })
}

/// Splits at the commas up to the closing bracket.
fn arguments(code: &str) -> Option<(Vec<&str>, usize)> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, letter) in code.char_indices().take(4000) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            _ if is_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                found.push(code[start..at].trim());
                return Some((found, at));
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(code[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// The literal of an argument, alone or formatted, or of the field of a struct.
fn literal(argument: &str) -> Option<String> {
    let text = argument
        .trim_start_matches("name: ")
        .trim_start_matches("help: ");
    let text = text
        .strip_prefix("format!(")
        .map_or(text, |text| text.trim_end_matches(')'));
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(text.to_owned())
}

/// The code of a file and of its crate.
struct Scope<'a> {
    file: &'a str,
    crate_code: &'a str,
}

impl<'a> Scope<'a> {
    /// The definition of a variable of the file, or of a constant of the crate.
    fn definition(&self, name: &str) -> Option<&'a str> {
        let name = name.rsplit("::").next().unwrap_or_default();
        definition(self.file, name).or_else(|| definition(self.crate_code, name))
    }
}

/// The value of a constant or variable: its definition in the code, up to the semicolon after it.
fn definition<'a>(code: &'a str, name: &str) -> Option<&'a str> {
    let starts = ["let ", "const "].into_iter().flat_map(|word| {
        let [typed, plain] = [":", " ="].map(|after| format!("{word}{name}{after}"));
        [code.find(&typed), code.find(&plain)]
    });
    let rest = &code[starts.flatten().next()?..];
    let value = &rest[rest.find(" =")?..];
    let mut depth = 0;
    let end = value.find(|letter| {
        depth += match letter {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        letter == ';' && depth == 0
    })?;
    Some(&value[..end])
}

fn names_of_labels(text: &str) -> Vec<String> {
    let is_label =
        |text: &String| consists_of(text, |letter| letter.is_alphanumeric() || letter == '_');
    literals(text).into_iter().filter(is_label).collect()
}

fn labels(function: &str, rest: &[&str], after: &str, scope: &Scope) -> Vec<String> {
    for argument in rest {
        let argument = argument.trim_start_matches("labels: ");
        let is_list = argument.starts_with("&[") || argument.starts_with('"');
        let name = argument.trim_start_matches('&');
        let value = if is_list {
            Some(argument)
        } else if name == "registry"
            || !consists_of(name, |letter| {
                letter.is_alphabetic() || "_:".contains(letter)
            })
        {
            None
        } else {
            scope.definition(name)
        };
        let found = value.map(names_of_labels).unwrap_or_default();
        if !found.is_empty() {
            return found;
        }
    }
    if function == "Opts::new" {
        // Names after the options, or names with values.
        let names = after
            .strip_prefix("), &")
            .and_then(|rest| rest.split(')').next());
        if let Some(names) = names {
            return scope
                .definition(names)
                .map(names_of_labels)
                .unwrap_or_default();
        }
        let statement = after.split(';').take(2).collect::<String>();
        let constants = statement.split(".const_label(").skip(1);
        return constants
            .filter_map(|text| literals(text).into_iter().next())
            .collect();
    }
    if LOCAL.contains(&function) {
        let body = scope.definition(function).unwrap_or_default();
        if let Some(list) = body.split("&[").skip(1).find(|list| list.starts_with('"')) {
            return names_of_labels(list.split(']').next().unwrap_or_default());
        }
        if body.contains("labels") && !body.contains("labels:") {
            return scope
                .definition("labels")
                .map(names_of_labels)
                .unwrap_or_default();
        }
    }
    Vec::new()
}

/// The metric of a call, if it has one.
fn metric(function: &str, arguments: &[&str], after: &str, scope: &Scope) -> Option<Metric> {
    let at = arguments
        .iter()
        .position(|argument| literal(argument).is_some())?;
    let rest = &arguments[at + 1..];
    let mut name = literal(arguments[at])?;
    let is_pair = function.is_empty();
    if is_pair && (arguments.len() < 2 || !name.starts_with("plimsoll_")) {
        return None;
    }
    if function.starts_with("families.") {
        name = format!("vpa_updater_{name}");
    } else if LOCAL.contains(&function) {
        let body = scope.definition(function).unwrap_or_default();
        let template = body.split("format!(\"").nth(1);
        if let Some(template) = template.and_then(|text| text.split('"').next()) {
            name = template.replace("{name}", &name);
        }
    }
    let is_template = |letter: char| letter.is_ascii_alphanumeric() || "_{}".contains(letter);
    if !consists_of(&name, is_template) || !name.contains(['_', '{']) {
        return None;
    }
    let help = if function == "StepLatency::register" {
        STEP_HELP.to_owned()
    } else {
        let help = rest.first()?;
        literal(help).or_else(|| {
            let value = scope.definition(help)?;
            literals(value).into_iter().next()
        })?
    };
    let kind = match function {
        name if name.to_lowercase().contains("histogram") || name.starts_with("StepLatency") => {
            "histogram"
        }
        name if name.to_lowercase().contains("count") => "counter",
        _ => "gauge",
    };
    let labels = match function {
        "StepLatency::register" => vec!["step".to_owned()],
        "" => vec!["group".to_owned()],
        _ => labels(function, rest.get(1..).unwrap_or_default(), after, scope),
    };
    Some(Metric {
        name,
        kind,
        labels,
        help,
    })
}

/// A metric for each value of the parameters in its name.
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
    let sources = sources();
    let mut crates: BTreeMap<&str, String> = BTreeMap::new();
    for source in &sources {
        crates
            .entry(source.crate_name())
            .or_default()
            .push_str(&source.code);
    }
    for source in &sources {
        let crate_name = source.crate_name();
        let scope = Scope {
            file: &source.code,
            crate_code: &crates[crate_name],
        };
        for (function, arguments, after) in calls(&source.code) {
            if !CONSTRUCTORS.contains(&function) && !LOCAL.contains(&function) {
                continue;
            }
            let metric = metric(function, &arguments, after, &scope);
            for metric in metric
                .into_iter()
                .flat_map(|metric| expand(metric, crate_name))
            {
                found
                    .entry(programs(&metric, crate_name))
                    .or_default()
                    .insert(metric);
            }
        }
    }
    found
}

/// The names of all metrics.
pub(crate) fn names() -> BTreeSet<String> {
    metrics()
        .into_values()
        .flatten()
        .map(|metric| metric.name)
        .collect()
}

/// The page of all metrics.
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
