//! The README of the chart, made of the comments in its `values.yaml`, and what `Chart.yaml` says of the images
//! and the definitions.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::{cell, page, repository};

const README: &str = "deploy/chart/README.md";
const INTRODUCTION: &str = "# Plimsoll

Plimsoll sizes, scales and places Kubernetes workloads by their usage, with the objects of the Vertical Pod
Autoscaler 1.8 and of Crane. It needs metrics-server.

```
helm install plimsoll deploy/chart -n plimsoll-system --create-namespace
helm test plimsoll -n plimsoll-system
```

The default mode `recommend` touches no pod. [Operations](../../docs/operations.md) has the modes, Argo CD and Flux,
upgrades and platforms.

## Values

Generated from the comments in `values.yaml`: `UPDATE_GOLDEN=1 cargo test -p e2e --test reference chart`. Each
`PROGRAM` (`recommender`, `updater`, `webhook`, `adapter`, `extender`) has the fields of `PROGRAM.pod`,
`PROGRAM.disruptionBudget` and `PROGRAM.serviceAccount`.

| value | default | meaning |
|---|---|---|
";

/// The description of a value in `values.schema.json`.
fn description<'a>(root: &'a Value, path: &[String]) -> Option<&'a str> {
    let schema = path.iter().try_fold(root, |schema, name| {
        let name = if name == "PROGRAM" {
            "recommender"
        } else {
            name
        };
        let field = schema["properties"].get(name)?;
        let definition = field["$ref"].as_str();
        let definition = definition.and_then(|found| found.strip_prefix("#/$defs/"));
        Some(definition.map_or(field, |name| &root["$defs"][name]))
    });
    schema?["description"].as_str()
}

/// Rows of the values with their defaults, and with their comments or else their descriptions in the
/// schema. Fields that an alias repeats are left out.
fn rows(values: &str, schema: &Value) -> String {
    let mut table = String::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    for line in values.lines() {
        let text = line.trim_start();
        let indentation = line.len() - text.len();
        if let Some(line) = text.strip_prefix('#') {
            comment.push(line.trim());
            continue;
        }
        let said = std::mem::take(&mut comment).join(" ");
        let Some((name, value)) = text.split_once(':') else {
            continue;
        };
        let mut value = value.trim();
        path.retain(|(at, _)| *at < indentation);
        path.push((indentation, name.to_owned()));
        if value.starts_with('*') {
            continue;
        }
        if let Some(anchored) = value.strip_prefix('&') {
            value = anchored.split_once(' ').map_or("", |(_, value)| value);
            if value.is_empty() {
                "PROGRAM".clone_into(&mut path[0].1);
            }
        }
        let names: Vec<String> = path.iter().map(|(_, name)| name.clone()).collect();
        let meaning = if said.is_empty() && !value.is_empty() {
            description(schema, &names).unwrap_or_default()
        } else {
            &said
        };
        if value.is_empty() && meaning.is_empty() {
            continue;
        }
        let (name, meaning) = (names.join("."), cell(meaning));
        assert!(
            !meaning.is_empty(),
            "{name} has no comment and no description"
        );
        let value = if value.is_empty() {
            String::new()
        } else {
            format!("`{value}`")
        };
        let _ = writeln!(table, "| `{name}` | {value} | {meaning} |");
    }
    table
}

#[test]
fn the_readme_of_the_chart_has_all_values() {
    let schema = serde_json::from_str(&page("deploy/chart/values.schema.json")).expect("JSON");
    let text = INTRODUCTION.to_owned() + &rows(&page("deploy/chart/values.yaml"), &schema);
    let path = repository::root().join(README);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).expect("the folder exists");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "{README} is old: UPDATE_GOLDEN=1 writes it"
    );
}

/// Texts of a field in each item of an annotation, which is a list in YAML.
fn annotation(chart: &Value, name: &str, field: &str) -> BTreeSet<String> {
    let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
    let list: Vec<Value> = serde_yaml_ng::from_str(text.unwrap_or_default()).expect("a list");
    let fields = list.iter().filter_map(|item| item[field].as_str());
    fields.map(str::to_owned).collect()
}

#[test]
fn the_metadata_of_the_chart_names_its_images_and_definitions() {
    let chart: Value = serde_yaml_ng::from_str(&page("deploy/chart/Chart.yaml")).expect("YAML");
    let version = env!("CARGO_PKG_VERSION");
    let programs = crate::SERVICES.into_iter().chain(["plimsoll"]);
    let images = programs.map(|name| format!("ghcr.io/plimsoll/{name}:{version}"));
    assert_eq!(annotation(&chart, "images", "image"), images.collect());
    let files = repository::files().into_iter();
    let definitions = files.filter(|path| path.starts_with("deploy/chart/files/crds"));
    let definitions = definitions.filter_map(|path| {
        let text = page(&path.to_string_lossy());
        let object: Value = serde_yaml_ng::from_str(&text).expect("YAML");
        Some(object["metadata"]["name"].as_str()?.to_owned())
    });
    assert_eq!(annotation(&chart, "crds", "name"), definitions.collect());
    let icon = chart["icon"].as_str().unwrap_or_default();
    let file = icon.strip_prefix("https://raw.githubusercontent.com/plimsoll/plimsoll/main/");
    assert!(
        repository::root().join(file.unwrap_or("none")).is_file(),
        "{icon}"
    );
}
