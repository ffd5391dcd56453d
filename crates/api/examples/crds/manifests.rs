//! Definitions as YAML manifests.

use std::borrow::Cow;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::ser::Error;
use serde_json::Value;

/// First line of every generated manifest.
const HEADER: &str = "# Generated from crates/api by `make manifests`.\n";

/// Words that are booleans in YAML 1.1, or the key of a default, and strings in YAML 1.2.
const WORDS: [&str; 7] = ["y", "n", "yes", "no", "on", "off", "="];

/// File of `deploy/crds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Name within the folder: `<plural>.yaml`.
    pub(crate) file_name: String,
    /// Content of the file.
    pub(crate) text: String,
}

/// All files of `deploy/crds`: a manifest per definition, and the list of them for kustomize.
pub(crate) fn manifests() -> Result<Vec<Manifest>, serde_yaml_ng::Error> {
    let mut manifests = Vec::new();
    let mut list = format!(
        "{HEADER}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
    );
    for definition in api::crd::all() {
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
        manifest + &quote_word(line) + "\n"
    }))
}

/// YAML 1.1 parsers such as kubectl's read a bare `Off` as a boolean, and `PyYAML` cannot read `=`.
fn quote_word(line: &str) -> Cow<'_, str> {
    let value = ["- ", "default: "]
        .into_iter()
        .find_map(|before| line.trim_start().strip_prefix(before));
    match value {
        Some(word) if WORDS.contains(&word.to_ascii_lowercase().as_str()) => Cow::Owned(format!(
            "{}\"{word}\"",
            line.strip_suffix(word).unwrap_or_default()
        )),
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
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::{manifests, quote_word};

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
            assert_eq!(quote_word(line), expected);
        }
    }

    #[test]
    fn deploy_crds_matches_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        let mut written = BTreeMap::new();
        for entry in fs::read_dir(folder).expect("deploy/crds exists") {
            let path = entry.expect("deploy/crds can be listed").path();
            let name = path
                .file_name()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned();
            written.insert(name, fs::read_to_string(path).expect("manifests are text"));
        }
        for manifest in manifests().expect("definitions can be written") {
            let text = written.remove(&manifest.file_name).unwrap_or_default();
            assert_eq!(
                text, manifest.text,
                "deploy/crds/{} is stale: run make manifests",
                manifest.file_name
            );
        }
        assert_eq!(
            written.into_keys().collect::<Vec<_>>(),
            Vec::<String>::new(),
            "nothing generates these files"
        );
    }

    #[test]
    fn no_bare_word_of_a_manifest_is_a_boolean_to_an_old_reader_of_yaml() {
        for manifest in manifests().expect("definitions can be written") {
            for line in manifest.text.lines() {
                let last = line.rsplit(' ').next().unwrap_or_default().to_lowercase();
                assert!(
                    !["on", "off", "yes", "no", "y", "n"].contains(&last.as_str()),
                    "{}: {line}",
                    manifest.file_name
                );
            }
        }
    }
}
