//! Label matchers that restrict all queries to the series of one cluster, in a store of several.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use regex::Regex;

use super::confine::{ConfineError, add, matchers};

/// Matchers that every selector of every query gets, such as `cluster="prod-17"`. None by default.
///
/// A selector with another matcher of the same label keeps it: both must match, so that a query for
/// another cluster finds nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matchers {
    texts: Vec<String>,
    labels: BTreeSet<String>,
}

impl Matchers {
    /// The query with the matchers. An error if the query is outside the grammar of
    /// [`confine`](crate::confine()); without matchers, all queries are unchanged.
    pub fn add_to<'a>(&self, query: &'a str) -> Result<Cow<'a, str>, ConfineError> {
        if self.texts.is_empty() {
            return Ok(Cow::Borrowed(query));
        }
        add(query, &self.texts).map(Cow::Owned)
    }

    /// Whether one of the matchers is for this label.
    pub fn names(&self, label: &str) -> bool {
        self.labels.contains(label)
    }
}

/// Parses matchers as between the braces of a selector.
impl FromStr for Matchers {
    type Err = ConfineError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parsed = Self::default();
        for matcher in matchers(text)? {
            if matcher.label == "__name__" {
                return Err(ConfineError::new(
                    matcher.at,
                    "__name__ is the name of a metric, which selectors have already",
                ));
            }
            if matcher.operator.contains('~') && !is_regex(&matcher.value) {
                let why = format!("{} is not a regular expression", matcher.value);
                return Err(ConfineError::new(matcher.at, why));
            }
            parsed.labels.insert(matcher.label.to_owned());
            parsed.texts.push(matcher.text());
        }
        Ok(parsed)
    }
}

/// Whether a quoted string has a regular expression.
fn is_regex(quoted: &str) -> bool {
    let mut letters = quoted[1..quoted.len() - 1].chars();
    let mut regex = String::with_capacity(quoted.len());
    while let Some(letter) = letters.next() {
        let is_escape = letter == '\\';
        regex.extend(if is_escape {
            letters.next()
        } else {
            Some(letter)
        });
    }
    Regex::new(&regex).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: the query `up{a="b"} / rate(c[5m])` with them, or a part of the error.
    fn check(text: &str, expected: Result<&str, &str>) {
        match (text.parse::<Matchers>(), expected) {
            (Ok(matchers), Ok(expected)) => {
                let found = matchers.add_to(r#"up{a="b"} / rate(c[5m])"#);
                assert_eq!(found.as_deref(), Ok(expected), "{text}");
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{text}: {error}");
            }
            (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn every_selector_gets_them() {
        check("", Ok(r#"up{a="b"} / rate(c[5m])"#));
        check(
            r#"cluster="prod-17""#,
            Ok(r#"up{a="b",cluster="prod-17"} / rate(c{cluster="prod-17"}[5m])"#),
        );
        check(
            r#" cluster =~ `eu-\d+`, env!="dev", "#,
            Ok(
                r#"up{a="b",cluster=~"eu-\\d+",env!="dev"} / rate(c{cluster=~"eu-\\d+",env!="dev"}[5m])"#,
            ),
        );
    }

    #[test]
    fn slips_are_named_with_their_place() {
        for (text, why) in [
            ("prod-17", "character 5: expected =, !=, =~ or !~"),
            ("cluster=prod", "character 9: expected a string, found prod"),
            (
                r#"{cluster="a"}"#,
                "character 1: expected the name of a label",
            ),
            (
                r#"cluster="a" env="b""#,
                "character 13: expected ,, found env",
            ),
            (
                r#"cluster="a",,"#,
                "character 13: expected the name of a label",
            ),
            (r#"cluster="a"} or up{a="b""#, "character 12: expected ,"),
            (
                r#"a="b",cluster=~"(""#,
                r#"character 7: "(" is not a regular"#,
            ),
            (r#"__name__="up""#, "character 1: __name__ is the name"),
            (r#"cluster="a"#, "the string does not end"),
        ] {
            check(text, Err(why));
        }
    }

    #[test]
    fn a_query_for_another_cluster_keeps_both_matchers() {
        let matchers: Matchers = r#"cluster="a""#.parse().expect("a matcher");
        for (query, expected) in [
            (r#"up{cluster="b"}"#, r#"up{cluster="b",cluster="a"}"#),
            (r#"up{cluster=~".*"}"#, r#"up{cluster=~".*",cluster="a"}"#),
            (r#"up{cluster="a"}"#, r#"up{cluster="a"}"#),
        ] {
            assert_eq!(matchers.add_to(query).as_deref(), Ok(expected));
        }
        let reads_others = matchers.add_to("info(up)").expect_err("not in the grammar");
        assert!(reads_others.to_string().contains("the function info"));
        assert!(Matchers::default().add_to("info(up)").is_ok());
    }
}
