//! Definitions as YAML manifests.

use std::borrow::Cow;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::ser::Error;
use serde_json::Value;

/// First line of every generated manifest.
const HEADER: &str = "# Generated from crates/api by `make manifests`.\n";

/// Words that are booleans in YAML 1.1 and strings in YAML 1.2.
const BOOLEANS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];

/// File of `deploy/crds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Name within the folder: `<plural>.yaml`.
    pub file_name: String,
    /// Content of the file.
    pub text: String,
}

/// All files of `deploy/crds`: a manifest per definition, and the list of them for kustomize.
pub fn manifests() -> Result<Vec<Manifest>, serde_yaml_ng::Error> {
    let mut manifests = Vec::new();
    let mut list = format!(
        "{HEADER}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
    );
    for definition in super::all() {
        let file_name = format!("{}.yaml", definition.spec.names.plural);
        list.extend(["- ", &file_name, "\n"]);
        manifests.push(Manifest {
            file_name,
            text: to_yaml(&definition)?,
        });
    }
    manifests.push(Manifest {
        file_name: "kustomization.yaml".to_owned(),
        text: list,
    });
    Ok(manifests)
}

/// The manifest of a definition, with keys in alphabetical order for a stable text.
fn to_yaml(definition: &CustomResourceDefinition) -> Result<String, serde_yaml_ng::Error> {
    let mut value = serde_json::to_value(definition).map_err(serde_yaml_ng::Error::custom)?;
    whole_numbers(&mut value);
    let text = serde_yaml_ng::to_string(&value)?;
    Ok(text.lines().fold(HEADER.to_owned(), |manifest, line| {
        manifest + &quote_boolean(line) + "\n"
    }))
}

/// YAML 1.1 parsers such as kubectl's read a bare `Off` as a boolean.
fn quote_boolean(line: &str) -> Cow<'_, str> {
    let value = ["- ", "default: "]
        .into_iter()
        .find_map(|before| line.trim_start().strip_prefix(before));
    match value {
        Some(word) if BOOLEANS.contains(&word.to_ascii_lowercase().as_str()) => Cow::Owned(
            format!("{}\"{word}\"", line.strip_suffix(word).unwrap_or_default()),
        ),
        _ => Cow::Borrowed(line),
    }
}

/// Bounds are doubles in the schema type; `minimum: 1` reads better than `minimum: 1.0`.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number
                .as_f64()
                .filter(|real| real.fract() == 0.0 && real.abs() < 1e15)
            {
                *number = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::quote_boolean;

    #[test]
    fn words_that_were_booleans_are_quoted() {
        for (line, expected) in [
            ("    - Off", "    - \"Off\""),
            ("- y", "- \"y\""),
            ("    default: Off", "    default: \"Off\""),
            ("    - Auto", "    - Auto"),
            ("- name: Off", "- name: Off"),
            (
                "    description: words - off",
                "    description: words - off",
            ),
        ] {
            assert_eq!(quote_boolean(line), expected);
        }
    }
}
