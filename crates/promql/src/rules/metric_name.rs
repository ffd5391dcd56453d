//! Names of metrics: a regular expression for the name of a series, and its replacement.
//!
//! The expressions of Go and of the crate `regex` have the same syntax, with the same meaning of
//! `$1`, `${1}` and `$name` in replacements. Source: prometheus-adapter
//! `pkg/naming/metric_namer.go`.

use regex::{Regex, RegexBuilder};

use super::file::{FilterText, NameText, RuleError};

/// Maximum size of a compiled expression.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Series of a rule and the names of their metrics.
#[derive(Debug)]
pub struct Naming {
    /// Expressions for the name of a series, each with whether it must match.
    filters: Vec<(Regex, bool)>,
    matches: Regex,
    becomes: String,
}

impl Naming {
    /// Parses the fields `name` and `seriesFilters` of the rule `at`.
    pub(super) fn read(
        at: &str,
        name: &NameText,
        filters: &[FilterText],
    ) -> Result<Self, RuleError> {
        let filters = filters.iter().enumerate().map(|(index, filter)| {
            let at = format!("{at}.seriesFilters[{index}]");
            match (filter.is.as_str(), filter.is_not.as_str()) {
                ("", "") => Err(RuleError::new(at, "one of is and isNot must be set")),
                (is, "") => Ok((expression(&format!("{at}.is"), is)?, true)),
                ("", is_not) => Ok((expression(&format!("{at}.isNot"), is_not)?, false)),
                _ => Err(RuleError::new(at, "is and isNot exclude each other")),
            }
        });
        let filters = filters.collect::<Result<_, _>>()?;
        let pattern = if name.matches.is_empty() {
            ".*"
        } else {
            &name.matches
        };
        let matches = expression(&format!("{at}.name.matches"), pattern)?;
        let becomes = match (name.becomes.as_str(), matches.captures_len() - 1) {
            ("", 0) => "$0",
            ("", 1) => "$1",
            ("", groups) => {
                let why = format!("must be set, since name.matches has {groups} groups");
                return Err(RuleError::new(format!("{at}.name.as"), why));
            }
            (becomes, _) => becomes,
        };
        let becomes = becomes.to_owned();
        Ok(Self {
            filters,
            matches,
            becomes,
        })
    }

    /// The series name behind a metric's name, if it can be determined: the expression is text
    /// around one group of anything, or the metric's name is the series name with text around it.
    pub(super) fn series(&self, metric: &str) -> Option<String> {
        let (before, group, after) = only_group(&self.becomes)?;
        let caught = metric.strip_prefix(before)?.strip_suffix(after)?;
        if group == "0" {
            return Some(caught.to_owned());
        }
        let pattern = self.matches.as_str();
        let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
        let pattern = pattern.strip_suffix('$').unwrap_or(pattern);
        let (first, last) = pattern
            .split_once("(.*)")
            .or_else(|| pattern.split_once("(.+)"))?;
        let is_text = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(&byte))
        };
        (group == "1" && is_text(first) && is_text(last)).then(|| format!("{first}{caught}{last}"))
    }

    /// The metric name of a series; `None` if the rule does not match it, or the result is invalid.
    pub fn name(&self, series: &str) -> Option<String> {
        let mut filters = self.filters.iter();
        let is_included = filters.all(|(expression, is)| expression.is_match(series) == *is);
        let captures = self.matches.captures(series).filter(|_| is_included)?;
        let mut name = String::new();
        captures.expand(&self.becomes, &mut name);
        is_metric_name(&name).then_some(name)
    }
}

/// Text before and after the only group in the replacement, and the group's number.
fn only_group(becomes: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = becomes.split_once('$')?;
    let (group, after) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}')?,
        // As in Go the longest name counts.
        None => rest.split_at(
            rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                .unwrap_or(rest.len()),
        ),
    };
    (!after.contains('$')).then_some((before, group, after))
}

/// Names are path segments. `status` and `finalize` of a namespace are subresources.
fn is_metric_name(name: &str) -> bool {
    !matches!(name, "" | "." | ".." | "*" | "status" | "finalize") && !name.contains(['/', '%'])
}

fn expression(at: &str, text: &str) -> Result<Regex, RuleError> {
    regex(text).map_err(|error| {
        // The error has several lines, of which the last is the message.
        let error = error.to_string();
        let message = error.lines().last().unwrap_or_default();
        let message = message.trim_start_matches("error: ");
        RuleError::new(
            at,
            format!("{text:?} is not a regular expression: {message}"),
        )
    })
}

pub(super) fn regex(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(MAX_REGEX_BYTES).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each filter is `is` and `isNot`.
    fn naming(matches: &str, becomes: &str, filters: &[[&str; 2]]) -> Result<Naming, RuleError> {
        let name = NameText {
            matches: matches.to_owned(),
            becomes: becomes.to_owned(),
        };
        let filter = |[is, is_not]: &[&str; 2]| FilterText {
            is: (*is).to_owned(),
            is_not: (*is_not).to_owned(),
        };
        let filters: Vec<FilterText> = filters.iter().map(filter).collect();
        Naming::read("rules[0]", &name, &filters)
    }

    fn check(matches: &str, becomes: &str, series: &str, expected: Option<&str>) {
        let naming = naming(matches, becomes, &[]).expect(matches);
        let found = naming.name(series);
        assert_eq!(found.as_deref(), expected, "{matches} {becomes} {series}");
    }

    #[test]
    fn names_become_what_upstream_documents() {
        let seconds = "^container_(.*)_seconds_total$";
        let named = "^container_(?P<what>.*)_total$";
        let (requests, rate) = ("http_requests_total", Some("http_requests_per_second"));
        let (cpu, reads) = (
            "container_cpu_usage_seconds_total",
            "container_fs_reads_total",
        );
        for (matches, becomes, series, expected) in [
            ("", "", "http_requests", Some("http_requests")),
            ("", "cheesy_goodness", "cheddar", Some("cheesy_goodness")),
            ("^(.*)_total", "${1}_per_second", requests, rate),
            ("^(.*)_total$", "", requests, Some("http_requests")),
            ("^(.*)_total$", "", "http_requests", None),
            (seconds, "", cpu, Some("cpu_usage")),
            (named, "${what}_rate", reads, Some("fs_reads_rate")),
            ("^(.*)$", "$1_rate", "up", None),
            ("up", "${0}_$$", "up_x", Some("up_$")),
        ] {
            check(matches, becomes, series, expected);
        }
    }

    #[test]
    fn filters_say_which_series() {
        let total = "^container_(.*)_total$";
        let no_seconds = &[["", "^container_.*_seconds_total$"]][..];
        let both = &[["^a", ""], ["", "z$"]][..];
        for (matches, filters, series, expected) in [
            (
                total,
                no_seconds,
                "container_fs_reads_total",
                Some("fs_reads"),
            ),
            (total, no_seconds, "container_cpu_seconds_total", None),
            ("", both, "abc", Some("abc")),
            ("", both, "abz", None),
        ] {
            let naming = naming(matches, "", filters).expect(matches);
            assert_eq!(naming.name(series).as_deref(), expected, "{series}");
        }
    }

    #[test]
    fn what_is_no_segment_of_a_path_is_no_name() {
        for name in ["a/b", "status", "finalize", "*", "..", "a%2fb"] {
            check("", name, "up", None);
        }
    }

    #[test]
    fn errors_name_the_field() {
        let long = "(a{1000}){1000}";
        for (matches, filters, expected) in [
            (
                "(a)(b)",
                &[][..],
                "name.as: must be set, since name.matches has 2 groups",
            ),
            (
                "(",
                &[],
                "name.matches: \"(\" is not a regular expression: unclosed group",
            ),
            ("", &[["", ""]], "seriesFilters[0]: one of is and isNot"),
            (
                "",
                &[["a", ""], ["a", "b"]],
                "seriesFilters[1]: is and isNot exclude",
            ),
            ("", &[["a", ""], ["", "["]], "seriesFilters[1].isNot: "),
            (long, &[], "name.matches: "),
        ] {
            let error = naming(matches, "", filters).expect_err(matches).to_string();
            assert!(
                error.starts_with(&format!("rules[0].{expected}")),
                "{error}"
            );
        }
    }
}
