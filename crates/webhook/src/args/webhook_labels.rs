//! Parsing and validation of the flag `--webhook-labels`.
//!
//! Source: upstream `convertLabelsToMap`.

use std::collections::BTreeMap;

use anyhow::ensure;
use model::{is_label_name, is_label_value};

/// Parses `name:value,name:value`, with optional blanks and quotes around. Any other format means
/// no labels, as upstream. Labels that the API server would refuse are an error.
pub(super) fn labels(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let bare = text.trim().trim_matches('"').trim();
    if bare.is_empty() {
        return Ok(BTreeMap::new());
    }
    let labels: Option<BTreeMap<_, _>> = bare.split(',').map(pair).collect();
    let Some(labels) = labels else {
        tracing::warn!(
            "--webhook-labels={text} does not have the format name:value,name:value; setting no labels"
        );
        return Ok(BTreeMap::new());
    };
    for (name, value) in &labels {
        ensure!(
            is_label_name(name),
            "--webhook-labels={text}: {name:?} is not a valid label name"
        );
        ensure!(
            is_label_value(value),
            "--webhook-labels={text}: {value:?} is not a valid label value"
        );
    }
    Ok(labels)
}

fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects these labels; `None` for an error.
    fn check(text: &str, expected: Option<&[(&str, &str)]>) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let expected = expected.map(|labels| labels.iter().map(owned).collect());
        assert_eq!(labels(text).ok(), expected, "{text:?}");
    }

    #[test]
    fn blanks_and_quotes_are_trimmed() {
        check("a:b,c:d", Some(&[("a", "b"), ("c", "d")]));
        check("a:b, c : d ", Some(&[("a", "b"), ("c", "d")]));
        check("\"a:b,c:d\"", Some(&[("a", "b"), ("c", "d")]));
        check("a.b/c:true", Some(&[("a.b/c", "true")]));
        check("a:", Some(&[("a", "")]));
    }

    #[test]
    fn other_formats_mean_no_labels() {
        for text in ["", "a", "a:b,c", "a:b,:c", "\"\""] {
            check(text, Some(&[]));
        }
    }

    #[test]
    fn labels_that_the_api_server_would_refuse_are_errors() {
        let long = "a".repeat(64);
        let long_prefix = "a.".repeat(127) + "a";
        let too_long = [
            format!("{long}:b"),
            format!("a:{long}"),
            format!("{long_prefix}/b:c"),
        ];
        let invalid = "a b:c;a:b c;\"a\":\"b\";-a:b;a:b:c;/a:b;a/:b;A.b/c:d;a..b/c:d;a/b/c:d";
        for text in invalid
            .split(';')
            .chain(too_long.iter().map(String::as_str))
        {
            check(text, None);
        }
    }
}
