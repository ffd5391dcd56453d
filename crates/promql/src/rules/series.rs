//! Series name and label matchers of a series query. The name is before the braces or a matcher on
//! `__name__`.

use regex::{Regex, escape};

use super::metric_name::regex;
use crate::confine::{Token, tokens};
use crate::{is_label_name, matcher};

const NAME: &str = "__name__";

#[derive(Debug, Default)]
pub(super) struct SeriesQuery {
    /// The only possible name, if any.
    pub(super) exact: Option<String>,
    /// Expressions for the name, each with whether it must match.
    names: Vec<(Regex, bool)>,
    /// Matchers on other labels.
    pub(super) matchers: Vec<String>,
}

/// Label, operator, value.
type Condition<'a> = (&'a str, &'static str, String);

impl SeriesQuery {
    /// Parses a query; `None` unless it has the form `name{label="value",..}`.
    pub(super) fn read(query: &str) -> Option<Self> {
        let (name, rest) = word(query.trim());
        let exact = (!name.is_empty()).then(|| name.to_owned());
        let mut series = Self {
            exact,
            ..Self::default()
        };
        if rest.is_empty() {
            return Some(series);
        }
        for (label, operator, value) in conditions(rest.strip_prefix('{')?.strip_suffix('}')?)? {
            match (label, operator) {
                (NAME, "=") => series.exact = Some(value),
                (NAME, _) => {
                    let is_text = operator == "!=";
                    let value = if is_text { escape(&value) } else { value };
                    let whole = regex(&format!("^(?s:{value})$")).ok()?;
                    series.names.push((whole, operator == "=~"));
                }
                _ => series.matchers.push(matcher(label, operator, &value)),
            }
        }
        Some(series)
    }

    pub(super) fn includes(&self, name: &str) -> bool {
        let mut names = self.names.iter();
        self.exact.as_ref().is_none_or(|exact| exact == name)
            && names.all(|(expression, is)| expression.is_match(name) == *is)
    }
}

/// Parses matchers as between braces, such as `cluster="a",container!=""`; `None` if invalid.
pub fn read_matchers(text: &str) -> Option<Vec<String>> {
    let all = conditions(text)?.into_iter();
    Some(
        all.map(|(label, operator, value)| matcher(label, operator, &value))
            .collect(),
    )
}

fn conditions(text: &str) -> Option<Vec<Condition<'_>>> {
    let tokens = tokens(text).ok()?;
    let (mut all, mut rest) = (Vec::new(), tokens.as_slice());
    while let [
        (_, Token::Name(label)),
        (_, Token::Sign(operator @ ("=" | "!=" | "=~" | "!~"))),
        (_, Token::Text(value)),
        after @ ..,
    ] = rest
    {
        let label = Some(*label).filter(|label| is_label_name(label))?;
        all.push((label, *operator, unquoted(value)?));
        rest = match after {
            [(_, Token::Sign(",")), next @ ..] => next,
            [] => after,
            _ => return None,
        };
    }
    rest.is_empty().then_some(all)
}

/// A possible name at the start, and the rest.
fn word(text: &str) -> (&str, &str) {
    let end =
        text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':');
    let (word, after) = text.split_at(end.unwrap_or(text.len()));
    (word, after.trim_start())
}

/// The content of a quoted text. Supports escapes of quotes, backslash and newline only.
fn unquoted(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut letters = text.get(1..text.len() - 1)?.chars();
    while let Some(letter) = letters.next() {
        value.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                letter @ ('\\' | '"' | '\'') => letter,
                _ => return None,
            },
            letter => letter,
        });
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: [&str; 3] = ["up", "container_cpu_seconds_total", "http_requests_total"];

    /// `expected`: the matching names of a list, and the matchers on other labels; `None` if the
    /// query is invalid.
    fn check(query: &str, expected: Option<(&[&str], &str)>) {
        let read = SeriesQuery::read(query);
        let found = read.as_ref().map(|series| {
            let names: Vec<_> = SOME
                .into_iter()
                .filter(|name| series.includes(name))
                .collect();
            (names, series.matchers.join(","))
        });
        assert_eq!(
            found,
            expected.map(|(names, matchers)| (names.to_vec(), matchers.to_owned())),
            "{query}"
        );
    }

    #[test]
    fn a_query_names_its_series() {
        check("up", Some((&["up"], "")));
        check(
            " up { namespace != \"\" , pod=~'a.*' , } ",
            Some((&["up"], r#"namespace!="",pod=~"a.*""#)),
        );
        check(r#"{__name__="up",x="}"}"#, Some((&["up"], r#"x="}""#)));
        check(
            r#"{namespace!="",__name__!="up"}"#,
            Some((&SOME[1..], r#"namespace!="""#)),
        );
        check(
            r#"{__name__=~"^container_.*",container!="POD"}"#,
            Some((&SOME[1..2], r#"container!="POD""#)),
        );
        check(
            "{__name__=~`.*_total`,__name__!~`container_.*`}",
            Some((&SOME[2..], "")),
        );
        check(
            r#"{namespace="a\"b"}"#,
            Some((&SOME, r#"namespace="a\"b""#)),
        );
        check("{__name__=~\"total\"}", Some((&[], "")));
        for odd in [
            "up{",
            "up{a}",
            "up{a=b}",
            "up{a=\"b\"",
            "up{a=\"b\" c=\"d\"}",
            "up{=\"b\"}",
            "up{0a=\"b\"}",
            "up} or down",
            "up{a=\"b\"} or down{c=\"d\"}",
            "sum(up)",
            "{__name__=~\"(\"}",
            "up{a=\"\\x\"}",
        ] {
            check(odd, None);
        }
    }

    #[test]
    fn conditions_are_read_as_they_stand_between_braces() {
        let read = |text: &str| read_matchers(text).map(|matchers| matchers.join(","));
        assert_eq!(
            read(r#"cluster="a,b", container != '' "#).as_deref(),
            Some(r#"cluster="a,b",container!="""#)
        );
        assert_eq!(read("").as_deref(), Some(""));
        assert_eq!(read("cluster=a"), None);
        assert_eq!(read(r#"cluster="a"} or up{x="y""#), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(query in "([a-z_]{0,3}|__name__|[{}=~!,\"'`\\\\ äß]){0,20}") {
            if let Some(series) = SeriesQuery::read(&query) {
                let _ = series.includes("up");
            }
        }
    }
}
