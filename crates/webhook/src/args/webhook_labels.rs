//! Parsing and validation of the flag `--webhook-labels`.
//!
//! Source: upstream `convertLabelsToMap` for the format; `k8s.io/apimachinery/pkg/util/validation`
//! for names and values.

use std::collections::BTreeMap;

use anyhow::ensure;

/// Maximum length of a name without prefix, and of a value.
const MAX_LENGTH: usize = 63;
/// Maximum length of the prefix of a name.
const MAX_PREFIX_LENGTH: usize = 253;

/// Parses `name:value,name:value`, with optional blanks and quotes around. Any other format means
/// no labels, as upstream. Labels that the API server would refuse are an error.
pub(super) fn labels(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let bare = text.trim().trim_matches('"').trim();
    if bare.is_empty() {
        return Ok(BTreeMap::new());
    }
    let Some(labels) = bare
        .split(',')
        .map(pair)
        .collect::<Option<BTreeMap<_, _>>>()
    else {
        tracing::warn!(
            "--webhook-labels={text} does not have the format name:value,name:value; setting no labels"
        );
        return Ok(BTreeMap::new());
    };
    for (name, value) in &labels {
        ensure!(
            is_name(name),
            "--webhook-labels={text}: {name:?} is not a valid label name"
        );
        ensure!(
            value.is_empty() || is_part(value),
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

/// Whether the text is a valid label name: a part, or a DNS subdomain, a slash and a part.
fn is_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_part(text),
        Some((prefix, part)) => {
            prefix.len() <= MAX_PREFIX_LENGTH
                && prefix.split('.').all(is_dns_label)
                && is_part(part)
        }
    }
}

fn is_part(text: &str) -> bool {
    text.len() <= MAX_LENGTH && is_made_of(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

fn is_dns_label(text: &str) -> bool {
    let is_outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_made_of(text, is_outer, b"-")
}

/// Whether a text begins and ends with `outer` bytes and has only these and `inner` in between.
fn is_made_of(text: &str, outer: impl Fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| outer(*first))
        && bytes.last().is_some_and(|last| outer(*last))
        && bytes
            .iter()
            .all(|byte| outer(*byte) || inner.contains(byte))
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
        let long = "a".repeat(MAX_LENGTH + 1);
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
