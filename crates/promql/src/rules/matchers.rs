//! Label matchers from a client's selector. Values are escaped for quotes and regular expressions.
//!
//! | selector | matcher |
//! |---|---|
//! | `k=v`, `k in (v)` | `k="v"` |
//! | `k!=v`, `k notin (v)` | `k!="v"` |
//! | `k in (v,w)`, `k notin (v,w)` | `k=~"v\|w"`, `k!~"v\|w"` |
//! | `k`, `!k` | `k!=""`, `k=""` |
//!
//! Source: prometheus-adapter `pkg/naming/metrics_query.go`, `processQueryParts`. There, one value
//! of `in` is a regular expression.

use std::collections::BTreeMap;

use model::{Requirement, Selector};

use super::QueryError;
use crate::{is_label_name, literal, matcher};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Matchers {
    expressions: Vec<String>,
    values: BTreeMap<String, Vec<String>>,
    /// Whether any matcher is a regular expression.
    has_expressions: bool,
}

impl Matchers {
    pub(super) fn of(selector: &Selector) -> Result<Self, QueryError> {
        if selector.is_nothing() {
            return Err(QueryError::Nothing);
        }
        let mut matchers = Self::default();
        for requirement in selector.requirements() {
            let label = requirement.key();
            if !is_label_name(label) {
                return Err(QueryError::Wrong(format!(
                    "{label:?} is not the name of a label in Prometheus"
                )));
            }
            let (values, one, several) = match requirement {
                Requirement::In(_, values) => {
                    (values.iter().map(String::as_str).collect(), "=", "=~")
                }
                Requirement::NotIn(_, values) => {
                    (values.iter().map(String::as_str).collect(), "!=", "!~")
                }
                Requirement::Exists(_) => (vec![""], "!=", "!~"),
                Requirement::DoesNotExist(_) => (vec![""], "=", "=~"),
                Requirement::GreaterThan(..) | Requirement::LessThan(..) => {
                    return Err(QueryError::Wrong(format!(
                        "Prometheus cannot select labels by {requirement}"
                    )));
                }
            };
            matchers.add(label, &values, one, several);
        }
        Ok(matchers)
    }

    /// Adds a matcher for one of these values.
    pub(super) fn one_of<'a>(&mut self, label: &str, values: impl IntoIterator<Item = &'a str>) {
        self.add(label, &values.into_iter().collect::<Vec<_>>(), "=", "=~");
    }

    /// Prepends matchers, which are not part of the values by name.
    pub(super) fn put_first<'a>(&mut self, expressions: impl IntoIterator<Item = &'a String>) {
        self.expressions
            .splice(0..0, expressions.into_iter().cloned());
    }

    /// Adds a regular expression for the whole value of a label, not part of the values by name.
    pub(super) fn like(&mut self, label: &str, expression: &str) {
        self.expressions.push(matcher(label, "=~", expression));
        self.has_expressions = true;
    }

    fn add(&mut self, label: &str, values: &[&str], one: &str, several: &str) {
        self.expressions.push(match values {
            [value] => matcher(label, one, value),
            values => {
                let alternatives: Vec<String> = values.iter().map(|value| literal(value)).collect();
                matcher(label, several, &alternatives.join("|"))
            }
        });
        self.values.insert(
            label.to_owned(),
            values.iter().map(|value| (*value).to_owned()).collect(),
        );
    }

    /// The matchers as written between the braces of a query.
    pub(super) fn text(&self) -> String {
        self.expressions.join(",")
    }

    /// The values by label name, several joined by `|`. They are not escaped, so only values
    /// without special characters are returned.
    pub(super) fn plain_values(&self) -> Result<BTreeMap<String, String>, QueryError> {
        if self.has_expressions {
            let why = "names of deleted pods cannot be part of the query of this metric";
            return Err(QueryError::Wrong(why.to_owned()));
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.:/-".contains(letter);
        let mut values = self.values.values().flatten();
        if let Some(value) = values.find(|value| !value.chars().all(is_plain)) {
            let why = format!("{value:?} cannot be part of the query of this metric");
            return Err(QueryError::Wrong(why));
        }
        let joined = self.values.iter();
        let joined = joined.map(|(label, values)| (label.clone(), values.join("|")));
        Ok(joined.collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(selector: &str, expected: &str) {
        let matchers = Matchers::of(&selector.parse().expect(selector));
        assert_eq!(matchers.expect(selector).text(), expected, "{selector}");
    }

    #[test]
    fn every_operator_has_its_matcher() {
        check("", "");
        check("foo=bar", r#"foo="bar""#);
        check("foo=bar,qux in (bar,baz)", r#"foo="bar",qux=~"bar|baz""#);
        check(
            "foo!=bar,qux notin (bar,baz)",
            r#"foo!="bar",qux!~"bar|baz""#,
        );
        check("foo,!qux", r#"foo!="",qux="""#);
        check("foo in (a.b,c)", r#"foo=~"a\\.b|c""#);
        check("foo in (a.b)", r#"foo="a.b""#);
    }

    #[test]
    fn labels_that_prometheus_cannot_have_are_refused() {
        let error = |selector: &str| Matchers::of(&selector.parse().expect(selector)).unwrap_err();
        for (selector, label) in [
            ("app.kubernetes.io/name=x", "app.kubernetes.io/name"),
            ("a-b=c", "a-b"),
            ("9=c", "9"),
        ] {
            let expected = format!("{label:?} is not the name of a label in Prometheus");
            assert_eq!(error(selector), QueryError::Wrong(expected));
        }
        for selector in ["a>1", "a<1"] {
            let expected = format!("Prometheus cannot select labels by {selector}");
            assert_eq!(error(selector), QueryError::Wrong(expected));
        }
        let nothing = Matchers::of(&Selector::nothing()).unwrap_err();
        assert_eq!(nothing, QueryError::Nothing);
    }

    #[test]
    fn values_by_name_are_handed_out_only_where_they_are_plain() {
        let of = |name: &str| {
            let mut matchers = Matchers::default();
            matchers.one_of("pod", [name]);
            matchers.plain_values().map(|values| values["pod"].clone())
        };
        assert_eq!(of("web-6d5f.x:y"), Ok("web-6d5f.x:y".to_owned()));
        for hostile in [
            "a\"} or up",
            "a'",
            "a`",
            "a\\",
            "a\nb",
            "a b",
            "a{",
            "a|b",
            "ä",
        ] {
            let error = QueryError::Wrong(format!(
                "{hostile:?} cannot be part of the query of this metric"
            ));
            assert_eq!(of(hostile), Err(error));
        }
    }

    /// Parses `label OPERATOR "value"` like Prometheus' scanner; returns the value and the rest.
    fn unquote(text: &str) -> Option<(String, &str)> {
        let start = text.find('"')? + 1;
        let mut value = String::new();
        let mut letters = text[start..].char_indices();
        while let Some((index, letter)) = letters.next() {
            match letter {
                '"' => return Some((value, &text[start + index + 1..])),
                '\n' => return None,
                '\\' => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter @ ('\\' | '"') => letter,
                    _ => return None,
                }),
                letter => value.push(letter),
            }
        }
        None
    }

    proptest! {
        #[test]
        fn a_value_cannot_leave_its_quotes(value in any::<String>()) {
            let mut matchers = Matchers::default();
            matchers.one_of("pod", [value.as_str()]);
            let text = matchers.text();
            prop_assert_eq!(unquote(&text), Some((value, "")));
        }

        #[test]
        fn of_several_values_exactly_these_match(values in proptest::collection::vec(any::<String>(), 2..4), other in any::<String>()) {
            let mut matchers = Matchers::default();
            matchers.one_of("pod", values.iter().map(String::as_str));
            let text = matchers.text();
            let (pattern, rest) = unquote(&text).expect("a quoted text");
            prop_assert_eq!(rest, "");
            // Prometheus anchors its matchers.
            let pattern = regex::Regex::new(&format!("^(?s:{pattern})$")).expect("an expression");
            for value in &values {
                prop_assert!(pattern.is_match(value));
            }
            prop_assert_eq!(pattern.is_match(&other), values.contains(&other));
        }
    }
}
