//! Validity of label names and values.
//!
//! Source: `k8s.io/apimachinery/pkg/util/validation` (`IsQualifiedName`, `IsValidLabelValue`).

/// Maximum length of a name without prefix, and of a value, in bytes.
const MAX_LENGTH: usize = 63;
/// Maximum length of the prefix of a name, in bytes.
const MAX_PREFIX_LENGTH: usize = 253;

/// Whether the text is a valid label name: a part, or a DNS subdomain, a slash and a part.
pub fn is_label_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_part(text),
        Some((prefix, part)) => {
            prefix.len() <= MAX_PREFIX_LENGTH
                && prefix.split('.').all(is_dns_label)
                && is_part(part)
        }
    }
}

/// Whether the text is a valid label value, which may be empty.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_part(text)
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

    #[test]
    fn names_and_values_are_those_that_the_api_server_accepts() {
        let long = "a".repeat(MAX_LENGTH);
        let too_long = "a".repeat(MAX_LENGTH + 1);
        let prefix = "a.".repeat(126) + "a";
        let long_prefixes = [format!("{prefix}/{long}"), format!("a.{prefix}/b")];
        for (text, is_name, is_value) in [
            ("", false, true),
            ("pool", true, true),
            ("A_b.c-1", true, true),
            ("a.b/Pool", true, false),
            (long.as_str(), true, true),
            (too_long.as_str(), false, false),
            (long_prefixes[0].as_str(), true, false),
            (long_prefixes[1].as_str(), false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a b", false, false),
            ("/a", false, false),
            ("a/", false, false),
            ("A.b/c", false, false),
            ("a..b/c", false, false),
            ("a/b/c", false, false),
            ("é", false, false),
        ] {
            assert_eq!(is_label_name(text), is_name, "{text}");
            assert_eq!(is_label_value(text), is_value, "{text}");
        }
    }
}
