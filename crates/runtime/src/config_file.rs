//! Settings of `--config`, in YAML. Errors name the file and the field.

use std::fmt::Display;
use std::str::FromStr;

use anyhow::Context as _;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer};
use serde_yaml_ng::{Mapping, Value};

use crate::duration::{GoDuration, positive_duration};

/// The flag of the settings that no flag has.
#[derive(Debug, Clone, clap::Args)]
pub struct ConfigArgs {
    /// YAML file with settings, or the settings themselves in braces. Repeatable: of a setting that
    /// is given twice, the last value counts. docs/settings.md has the settings of each program.
    #[arg(long, value_name = "FILE")]
    pub config: Vec<String>,
}

impl ConfigArgs {
    /// Reads the settings. Those that the flag lacks are the `defaults`.
    pub fn read<T: DeserializeOwned>(&self, defaults: &str) -> anyhow::Result<T> {
        let read = || {
            let mut texts = vec![defaults.to_owned()];
            for source in self.config.iter().filter(|source| !source.is_empty()) {
                texts.push(if source.starts_with('{') {
                    source.clone()
                } else {
                    std::fs::read_to_string(source)?
                });
            }
            parse(&texts)
        };
        read().with_context(|| format!("--config={}", self.config.join(" ")))
    }
}

/// Parses texts, of which the later ones have precedence. A key that is twice in one text is refused.
pub fn parse<T: DeserializeOwned>(texts: &[impl AsRef<str>]) -> anyhow::Result<T> {
    let mut merged = Value::Mapping(Mapping::new());
    for text in texts {
        merge(&mut merged, serde_yaml_ng::from_str(text.as_ref())?);
    }
    Ok(serde_path_to_error::deserialize(merged)?)
}

/// Adds the fields of `other`, which replace equal ones.
fn merge(value: &mut Value, other: Value) {
    match (value, other) {
        (_, Value::Null) => (),
        (Value::Mapping(fields), Value::Mapping(others)) => {
            for (name, other) in others {
                merge(fields.entry(name).or_insert(Value::Null), other);
            }
        }
        (value, other) => *value = other,
    }
}

/// Deserializes an interval or a timeout.
pub fn interval<'de, D: Deserializer<'de>>(text: D) -> Result<GoDuration, D::Error> {
    parsed_by(positive_duration, text)
}

pub fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    text: D,
) -> Result<T, D::Error> {
    parsed_by(T::from_str, text)
}

pub fn parsed_by<'de, D: Deserializer<'de>, T, E: Display>(
    parse: impl FnOnce(&str) -> Result<T, E>,
    text: D,
) -> Result<T, D::Error> {
    parse(&String::deserialize(text)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Counts = BTreeMap<String, u8>;

    #[test]
    fn errors_name_the_file_and_the_field() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.yaml");
        let file = path.to_str().expect("text");
        for (text, expected) in [
            (None, "No such file"),
            (Some("{a: b}"), "a: invalid type"),
            (Some("{a: 1, a: 2}"), "duplicate entry with key \"a\""),
            (Some("{a"), "at line"),
            (Some("a"), "invalid type"),
        ] {
            if let Some(text) = text {
                std::fs::write(file, text).expect("a file");
            }
            let config = vec![file.to_owned()];
            let read = ConfigArgs { config }.read::<Counts>("{}");
            let error = format!("{:#}", read.expect_err(expected));
            assert!(error.starts_with(&format!("--config={file}: ")), "{error}");
            assert!(error.contains(expected), "{error}");
        }
    }

    fn check(sources: &[&str], expected: &[(&str, u8)]) {
        let config = sources.iter().map(|source| (*source).to_owned());
        let config = ConfigArgs {
            config: config.collect(),
        };
        let counts: Counts = config.read("{a: 1, b: 2}").expect("counts");
        let found: Vec<_> = counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(found, expected, "{sources:?}");
    }

    #[test]
    fn later_values_replace_earlier_ones_field_by_field() {
        for empty in [&[][..], &[""], &["{}"], &["{}", "{ # nothing\n}"]] {
            check(empty, &[("a", 1), ("b", 2)]);
        }
        let twice = ["{b: 3, c: 4}", "", "{c: 5}"];
        check(&twice, &[("a", 1), ("b", 3), ("c", 5)]);
        let texts = ["{a: {b: 1, c: [2, 3]}}", "{a: {c: [4], b: null}}"];
        let nested: Value = parse(&texts).expect("YAML");
        let expected: Value = serde_yaml_ng::from_str("{a: {b: 1, c: [4]}}").expect("YAML");
        assert_eq!(nested, expected);
    }
}
