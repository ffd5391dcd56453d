//! YAML files of `--config`. Errors name the file and the field.

use std::fmt::Display;

use anyhow::Context as _;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer};
use serde_yaml_ng::Value;

/// Reads a file by `parse`. An empty name means the default.
pub fn read<T: Default>(
    file: &str,
    parse: impl FnOnce(&str) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if file.is_empty() {
        return Ok(T::default());
    }
    let read = || parse(&std::fs::read_to_string(file)?);
    read().with_context(|| format!("--config={file}"))
}

/// Parses the text of a file. An empty one means the default; a key that is given twice is refused.
pub fn parse<T: DeserializeOwned + Default>(text: &str) -> anyhow::Result<T> {
    // Refuses keys that are given twice, which a map does not.
    let value: Value = serde_yaml_ng::from_str(text)?;
    let parsed: Option<T> = serde_path_to_error::deserialize(value)?;
    Ok(parsed.unwrap_or_default())
}

/// Deserializes a text by `parse`.
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
        ] {
            if let Some(text) = text {
                std::fs::write(file, text).expect("a file");
            }
            let error = read::<Counts>(file, parse).expect_err(expected);
            let error = format!("{error:#}");
            assert!(error.starts_with(&format!("--config={file}: ")), "{error}");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn no_file_and_an_empty_one_are_the_default() {
        assert_eq!(read::<Counts>("", parse).expect("none"), Counts::new());
        for text in ["", "{}", "# nothing\n"] {
            assert_eq!(parse::<Counts>(text).expect(text), Counts::new());
        }
    }
}
