//! Fields of our objects, from the definitions in `deploy/crds`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{add_page, cell, page, repository};

const INTRODUCTION: &str = "# Fields of objects

Generated from the definitions in `deploy/crds`; `kubectl explain --recursive` shows the same. `[]` is each item
of a list, `{}` each value of a map. The fields `apiVersion`, `kind` and `metadata` are those of all
objects.
";

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

fn kind_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    let format = text(schema, "format");
    match text(schema, "type") {
        "" => "any".to_owned(),
        kind if format.is_empty() => kind.to_owned(),
        kind => format!("{kind} ({format})"),
    }
}

/// Values, bounds and lengths.
fn limits(schema: &Value) -> Vec<String> {
    let names = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "letters at least"),
        ("maxLength", "letters at most"),
        ("minItems", "items at least"),
        ("maxItems", "items at most"),
        ("pattern", "pattern"),
    ];
    let values = schema["enum"].as_array().into_iter().flatten();
    let values: Vec<String> = values
        .filter(|value| !value.is_null())
        .map(|value| format!("`{}`", value.as_str().unwrap_or(&value.to_string())))
        .collect();
    let values = (!values.is_empty()).then(|| format!("one of {}", values.join(", ")));
    let bounds = names.into_iter().filter_map(|(key, name)| {
        let bound = &schema[key];
        let bound = bound
            .as_str()
            .map_or_else(|| bound.to_string(), str::to_owned);
        (bound != "null").then(|| format!("{name} `{bound}`"))
    });
    values.into_iter().chain(bounds).collect()
}

fn row(page: &mut String, path: &str, schema: &Value, is_required: bool) {
    let required = if is_required { ", required" } else { "" };
    let default = &schema["default"];
    let default = match default {
        Value::Null => String::new(),
        default => format!("`{default}`"),
    };
    let rules = schema["x-kubernetes-validations"].as_array();
    let rules = rules.into_iter().flatten().map(|rule| {
        let message = text(rule, "message");
        let message = if message.is_empty() {
            text(rule, "rule")
        } else {
            message
        };
        format!("Refused otherwise: `{message}`.")
    });
    let description = text(schema, "description");
    let limits = limits(schema);
    let limits = (!limits.is_empty()).then(|| format!("({})", limits.join(", ")));
    let parts = [description.to_owned()]
        .into_iter()
        .chain(limits)
        .chain(rules);
    let meaning = cell(&parts.collect::<Vec<_>>().join(" "));
    let kind = kind_of(schema);
    let _ = writeln!(
        page,
        "| `{path}` | {kind}{required} | {default} | {meaning} |"
    );
}

fn rows(page: &mut String, path: &str, schema: &Value) {
    if schema["items"].is_object() {
        return rows(page, &format!("{path}[]"), &schema["items"]);
    }
    if schema["additionalProperties"].is_object() {
        return rows(
            page,
            &format!("{path}{{}}"),
            &schema["additionalProperties"],
        );
    }
    let required = schema["required"].as_array();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let is_required = required.is_some_and(|names| names.iter().any(|other| other == name));
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        row(page, &path, field, is_required);
        rows(page, &path, field);
    }
}

#[test]
fn the_page_of_objects_has_the_fields_of_the_definitions() {
    let mut text_of_page = INTRODUCTION.to_owned();
    let mut definitions = 0;
    for path in repository::files() {
        if !path.starts_with("deploy/chart/files/crds") || path.ends_with("kustomization.yaml") {
            continue;
        }
        definitions += 1;
        let text_of_file = page(&path.to_string_lossy());
        let definition: Value = serde_yaml_ng::from_str(&text_of_file).expect("a definition");
        let spec = &definition["spec"];
        for version in spec["versions"].as_array().expect("versions") {
            let schema = &version["schema"]["openAPIV3Schema"];
            let _ = write!(
                text_of_page,
                "\n## {}\n\n`apiVersion: {}/{}`, {}. {}\n\n| field | type | default | meaning |\n|---|---|---|---|\n",
                text(&spec["names"], "kind"),
                text(spec, "group"),
                text(version, "name"),
                text(spec, "scope").to_lowercase(),
                cell(text(schema, "description"))
            );
            rows(&mut text_of_page, "", schema);
        }
    }
    assert!(definitions >= 7, "{definitions} definitions");
    add_page("objects.md", &text_of_page);
}
