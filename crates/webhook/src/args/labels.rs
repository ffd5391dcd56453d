//! Labels as a flag gives them, and whether the API server would take them.
//!
//! Source: upstream `convertLabelsToMap` for the text; for names and values
//! `k8s.io/apimachinery/pkg/util/validation`.

use std::collections::BTreeMap;

use anyhow::ensure;

/// The most characters of a name or a value, and of what stands before the slash of a name.
const MOST: usize = 63;
const MOST_PREFIX: usize = 253;

/// Reads name:value,name:value with blanks and quotes around. A text of another form means no
/// labels, as upstream; what the API server would refuse is an error.
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
            "--webhook-labels={text} is not of the form name:value,name:value; there will be none"
        );
        return Ok(BTreeMap::new());
    };
    for (name, value) in &labels {
        ensure!(
            is_name(name),
            "--webhook-labels={text}: {name:?} cannot be the name of a label"
        );
        ensure!(
            value.is_empty() || is_part(value),
            "--webhook-labels={text}: {value:?} cannot be the value of a label"
        );
    }
    Ok(labels)
}

fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

/// Whether this may name a label: a part, or a DNS subdomain, a slash and a part.
fn is_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_part(text),
        Some((prefix, part)) => {
            prefix.len() <= MOST_PREFIX && prefix.split('.').all(is_dns_label) && is_part(part)
        }
    }
}

fn is_part(text: &str) -> bool {
    text.len() <= MOST && is_made_of(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

fn is_dns_label(text: &str) -> bool {
    is_made_of(
        text,
        |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(),
        b"-",
    )
}

/// Whether a text begins and ends with such bytes, and has others of `inner` in between alone.
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

    /// `expected`: none where the program does not start.
    fn check(text: &str, expected: Option<&[(&str, &str)]>) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        assert_eq!(
            labels(text).ok(),
            expected.map(|labels| labels.iter().map(owned).collect()),
            "{text:?}"
        );
    }

    #[test]
    fn blanks_and_quotes_around_do_not_count() {
        check("a:b,c:d", Some(&[("a", "b"), ("c", "d")]));
        check("a:b, c : d ", Some(&[("a", "b"), ("c", "d")]));
        check("\"a:b,c:d\"", Some(&[("a", "b"), ("c", "d")]));
        check(
            "admissions.enforcer/disabled:true",
            Some(&[("admissions.enforcer/disabled", "true")]),
        );
        check("a:", Some(&[("a", "")]));
    }

    #[test]
    fn a_text_of_another_form_means_none() {
        for text in ["", "a", "a:b,c", "a:b,:c", "\"\""] {
            check(text, Some(&[]));
        }
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused_at_the_start() {
        let long = "a".repeat(MOST + 1);
        for text in [
            "a b:c",
            "a:b c",
            "\"a\":\"b\"",
            "-a:b",
            "a:b:c",
            "/a:b",
            "a/:b",
            "A.b/c:d",
            "a..b/c:d",
            "a/b/c:d",
            &format!("{long}:b"),
            &format!("a:{long}"),
            &format!("{}/b:c", "a.".repeat(127) + "a"),
        ] {
            check(text, None);
        }
    }
}
