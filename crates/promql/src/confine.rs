//! Restricts an expression to the series with one value of a label, such as those of one namespace,
//! or to the series of some matchers, such as those of one cluster.
//!
//! The expression is parsed and rewritten with more matchers in each selector. Only recognised
//! tokens are written, and anything outside this grammar is rejected, so that a store with language
//! extensions reads no other series either.
//!
//! ```text
//! expression := operand { operator [modifiers] operand }
//! modifiers  := ["bool"] [("on" | "ignoring") labels [("group_left" | "group_right") [labels]]]
//! operand    := { "+" | "-" } primary { suffix }
//! primary    := number | string | "(" expression ")" | selector | function "(" [arguments] ")"
//!             | aggregation [grouping] "(" arguments ")" [grouping]
//! grouping   := ("by" | "without") labels
//! selector   := name ["{" matchers "}"] | "{" matchers "}"
//! suffix     := "[" duration [":" [duration]] "]" | "offset" ["-"] duration
//!             | "@" (["-"] number | ("start" | "end") "(" ")")
//! ```
//!
//! The store checks types and precedence. Every function in the list reads only what its arguments
//! select, unlike `info`. Sources: <https://prometheus.io/docs/prometheus/latest/querying/basics/>
//! and Prometheus' `promql/parser/generated_parser.y`.

mod tokens;

use std::borrow::Cow;

use super::query::{is_label_name, matcher};
pub(crate) use tokens::{Token, tokens};

const MAX_DEPTH: usize = 50;
const OPERATORS: &[&str] = &[
    "+", "-", "*", "/", "%", "^", "==", "!=", ">", "<", ">=", "<=",
];
const OPERATOR_NAMES: &[&str] = &["and", "or", "unless", "atan2"];
const MATCH_OPERATORS: &[&str] = &["=", "!=", "=~", "!~"];
/// Names with another meaning in the position of a metric.
#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "and", "or", "unless", "atan2", "bool", "on", "ignoring", "group_left", "group_right", "by", "without", "offset",
    "start", "end",
];
#[rustfmt::skip]
const AGGREGATIONS: &[&str] = &[
    "sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile",
    "limitk", "limit_ratio",
];
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "abs", "absent", "absent_over_time", "acos", "acosh", "asin", "asinh", "atan", "atanh", "avg_over_time", "ceil", "changes", "clamp",
    "clamp_max", "clamp_min", "cos", "cosh", "count_over_time", "day_of_month", "day_of_week", "day_of_year", "days_in_month", "deg",
    "delta", "deriv", "double_exponential_smoothing", "exp", "first_over_time", "floor", "histogram_avg", "histogram_count",
    "histogram_fraction", "histogram_quantile", "histogram_quantiles", "histogram_stddev", "histogram_stdvar", "histogram_sum",
    "holt_winters", "hour", "idelta", "increase", "irate", "label_join", "label_replace", "last_over_time", "ln", "log10", "log2",
    "mad_over_time", "max_over_time", "min_over_time", "minute", "month", "pi", "predict_linear", "present_over_time",
    "quantile_over_time", "rad", "rate", "resets", "round", "scalar", "sgn", "sin", "sinh", "sort", "sort_by_label",
    "sort_by_label_desc", "sort_desc", "sqrt", "stddev_over_time", "stdvar_over_time", "sum_over_time", "tan", "tanh", "time",
    "timestamp", "ts_of_first_over_time", "ts_of_last_over_time", "ts_of_max_over_time", "ts_of_min_over_time", "vector", "year",
];

/// Error in an expression that cannot be restricted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("character {at}: {why}")]
pub struct ConfineError {
    at: usize,
    why: String,
}

impl ConfineError {
    pub(crate) fn new(before: usize, why: impl Into<String>) -> Self {
        Self {
            at: before + 1,
            why: why.into(),
        }
    }
}

/// Restricts the expression to series whose `label` has this value.
pub fn confine(expression: &str, label: &str, value: &str) -> Result<String, ConfineError> {
    add(expression, &[matcher(label, "=", value)])
}

/// Adds matchers to every selector that does not have them.
pub(crate) fn add(expression: &str, matchers: &[String]) -> Result<String, ConfineError> {
    let mut parser = Parser::new(expression, matchers)?;
    parser.expression()?;
    match parser.tokens.get(parser.next) {
        None => Ok(parser.written),
        Some(_) => Err(parser.expected("an operator")),
    }
}

/// Parses matchers that are separated by commas, as between braces.
pub(crate) fn matchers(text: &str) -> Result<Vec<Matcher<'_>>, ConfineError> {
    let mut parser = Parser::new(text, &[])?;
    let mut matchers = Vec::new();
    while parser.next < parser.tokens.len() {
        matchers.push(parser.matcher()?);
        if parser.next < parser.tokens.len() {
            parser.sign(",")?;
        }
    }
    Ok(matchers)
}

pub(crate) struct Matcher<'a> {
    pub(crate) label: &'a str,
    pub(crate) operator: &'static str,
    /// Value in its quotes.
    pub(crate) value: Cow<'a, str>,
    /// Byte at which it begins.
    pub(crate) at: usize,
}

impl Matcher<'_> {
    pub(crate) fn text(&self) -> String {
        format!("{}{}{}", self.label, self.operator, self.value)
    }
}

struct Parser<'a> {
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
    end: usize,
    /// Matchers added to each selector.
    added: &'a [String],
    depth: usize,
    written: String,
}

type Parsed<T = ()> = Result<T, ConfineError>;

impl<'a> Parser<'a> {
    fn new(text: &'a str, added: &'a [String]) -> Parsed<Self> {
        Ok(Self {
            tokens: tokens(text)?,
            next: 0,
            end: text.len(),
            added,
            depth: 0,
            written: String::with_capacity(text.len() + 64),
        })
    }

    fn expression(&mut self) -> Parsed {
        self.operand()?;
        while let Some(operator) = self.operator() {
            self.write(&[" ", &operator, " "]);
            self.modifiers()?;
            self.operand()?;
        }
        Ok(())
    }

    fn operator(&mut self) -> Option<String> {
        self.take_sign(OPERATORS)
            .map(str::to_owned)
            .or_else(|| self.take_keyword(OPERATOR_NAMES))
    }

    fn modifiers(&mut self) -> Parsed {
        if self.take_keyword(&["bool"]).is_some() {
            self.write(&["bool "]);
        }
        let Some(matching) = self.take_keyword(&["on", "ignoring"]) else {
            return Ok(());
        };
        self.write(&[&matching, " "]);
        self.labels()?;
        self.write(&[" "]);
        if let Some(group) = self.take_keyword(&["group_left", "group_right"]) {
            self.write(&[&group, " "]);
            if self.is_sign("(") {
                self.labels()?;
                self.write(&[" "]);
            }
        }
        Ok(())
    }

    fn operand(&mut self) -> Parsed {
        while let Some(sign) = self.take_sign(&["+", "-"]) {
            self.write(&[sign]);
        }
        self.primary()?;
        while self.suffix()? {}
        Ok(())
    }

    fn primary(&mut self) -> Parsed {
        let Some((at, token)) = self.tokens.get(self.next).cloned() else {
            return Err(self.expected("an operand"));
        };
        match token {
            Token::Number(text) => self.take_and_write(text),
            Token::Text(text) => self.take_and_write(&text),
            Token::Sign("(") => return self.within(Self::expression),
            Token::Sign("{") => return self.selector(""),
            Token::Sign(_) => return Err(self.expected("an operand")),
            Token::Name(name) => {
                let lower = name.to_ascii_lowercase();
                self.next += 1;
                if matches!(lower.as_str(), "inf" | "nan") {
                    self.write(&[name]);
                } else if AGGREGATIONS.contains(&lower.as_str()) {
                    return self.aggregation(&lower);
                } else if KEYWORDS.contains(&lower.as_str()) {
                    return Err(ConfineError::new(
                        at,
                        format!("{lower} is a keyword, not the name of a metric"),
                    ));
                } else if self.is_sign("(") {
                    if !FUNCTIONS.contains(&name) {
                        return Err(ConfineError::new(
                            at,
                            format!("the function {} cannot be confined", in_short(name)),
                        ));
                    }
                    self.write(&[name]);
                    return self.within(|parser| {
                        if parser.is_sign(")") {
                            Ok(())
                        } else {
                            parser.arguments()
                        }
                    });
                } else {
                    return self.selector(name);
                }
            }
        }
        Ok(())
    }

    fn aggregation(&mut self, name: &str) -> Parsed {
        self.write(&[name]);
        let is_grouped = self.grouping()?;
        self.within(Self::arguments)?;
        if !is_grouped {
            self.grouping()?;
        }
        Ok(())
    }

    fn grouping(&mut self) -> Parsed<bool> {
        let Some(grouping) = self.take_keyword(&["by", "without"]) else {
            return Ok(false);
        };
        self.write(&[" ", &grouping, " "]);
        self.labels()?;
        Ok(true)
    }

    fn arguments(&mut self) -> Parsed {
        self.expression()?;
        while self.take_sign(&[","]).is_some() {
            self.write(&[", "]);
            self.expression()?;
        }
        Ok(())
    }

    /// Parses the content of round brackets.
    fn within(&mut self, inner: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.sign("(")?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("brackets are nested deeper than {MAX_DEPTH}")));
        }
        self.write(&["("]);
        inner(self)?;
        self.sign(")")?;
        self.write(&[")"]);
        self.depth -= 1;
        Ok(())
    }

    fn labels(&mut self) -> Parsed {
        self.sign("(")?;
        self.write(&["("]);
        let mut separator = "";
        while !self.is_sign(")") {
            let label = self.label()?;
            self.write(&[separator, label]);
            separator = ",";
            if self.take_sign(&[","]).is_none() {
                break;
            }
        }
        self.sign(")")?;
        self.write(&[")"]);
        Ok(())
    }

    fn label(&mut self) -> Parsed<&'a str> {
        match self.tokens.get(self.next) {
            Some(&(_, Token::Name(name))) if is_label_name(name) => {
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.expected("the name of a label")),
        }
    }

    fn selector(&mut self, name: &str) -> Parsed {
        let mut matchers = Vec::new();
        if self.take_sign(&["{"]).is_some() {
            while !self.is_sign("}") {
                matchers.push(self.matcher()?.text());
                if !self.is_sign("}") {
                    self.sign(",")?;
                }
            }
            self.sign("}")?;
        }
        for added in self.added {
            if !matchers.contains(added) {
                matchers.push(added.clone());
            }
        }
        self.write(&[name, "{", &matchers.join(","), "}"]);
        Ok(())
    }

    fn matcher(&mut self) -> Parsed<Matcher<'a>> {
        let at = self.tokens.get(self.next).map_or(self.end, |(at, _)| *at);
        let label = self.label()?;
        let operator = self
            .take_sign(MATCH_OPERATORS)
            .ok_or_else(|| self.expected("=, !=, =~ or !~"))?;
        let Some((_, Token::Text(value))) = self.tokens.get(self.next).cloned() else {
            return Err(self.expected("a string"));
        };
        self.next += 1;
        Ok(Matcher {
            label,
            operator,
            value,
            at,
        })
    }

    /// Parses a suffix. Returns whether there was one.
    fn suffix(&mut self) -> Parsed<bool> {
        if self.take_sign(&["["]).is_some() {
            let range = self.number()?;
            self.write(&["[", range]);
            if self.take_sign(&[":"]).is_some() {
                let step = if self.is_sign("]") {
                    ""
                } else {
                    self.number()?
                };
                self.write(&[":", step]);
            }
            self.sign("]")?;
            self.write(&["]"]);
        } else if self.take_keyword(&["offset"]).is_some() {
            let sign = self.take_sign(&["-"]).unwrap_or_default();
            let offset = self.number()?;
            self.write(&[" offset ", sign, offset]);
        } else if self.take_sign(&["@"]).is_some() {
            if let Some(end) = self.take_keyword(&["start", "end"]) {
                self.sign("(")?;
                self.sign(")")?;
                self.write(&[" @ ", &end, "()"]);
            } else {
                let sign = self.take_sign(&["-"]).unwrap_or_default();
                let time = self.number()?;
                self.write(&[" @ ", sign, time]);
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn number(&mut self) -> Parsed<&'a str> {
        match self.tokens.get(self.next) {
            Some(&(_, Token::Number(text))) => {
                self.next += 1;
                Ok(text)
            }
            _ => Err(self.expected("a number or a duration")),
        }
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.next), Some((_, Token::Sign(found))) if *found == sign)
    }

    fn take_sign(&mut self, signs: &[&str]) -> Option<&'static str> {
        let Some(&(_, Token::Sign(found))) = self.tokens.get(self.next) else {
            return None;
        };
        let found = signs.contains(&found).then_some(found)?;
        self.next += 1;
        Some(found)
    }

    fn sign(&mut self, sign: &str) -> Parsed {
        self.take_sign(&[sign])
            .map(drop)
            .ok_or_else(|| self.expected(sign))
    }

    /// Keywords are case-insensitive.
    fn take_keyword(&mut self, keywords: &[&str]) -> Option<String> {
        let Some(&(_, Token::Name(name))) = self.tokens.get(self.next) else {
            return None;
        };
        let lower = name.to_ascii_lowercase();
        let found = keywords.contains(&lower.as_str()).then_some(lower)?;
        self.next += 1;
        Some(found)
    }

    fn take_and_write(&mut self, text: &str) {
        self.next += 1;
        self.write(&[text]);
    }

    fn write(&mut self, texts: &[&str]) {
        self.written.extend(texts.iter().copied());
    }

    fn expected(&self, what: &str) -> ConfineError {
        let found = match self.tokens.get(self.next) {
            None => "the end".to_owned(),
            Some((_, Token::Name(text) | Token::Number(text))) => in_short(text),
            Some((_, Token::Text(_))) => "a string".to_owned(),
            Some((_, Token::Sign(sign))) => (*sign).to_owned(),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    fn error(&self, why: String) -> ConfineError {
        ConfineError::new(
            self.tokens.get(self.next).map_or(self.end, |(at, _)| *at),
            why,
        )
    }
}

fn in_short(name: &str) -> String {
    name.chars().take(60).collect()
}

#[cfg(test)]
mod tests;
