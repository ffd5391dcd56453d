//! Selectors: requirements on labels that must all match.
//!
//! Source: `labels.Selector` and `metav1.LabelSelectorAsSelector` in `k8s.io/apimachinery`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::Labels;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requirement {
    In(String, BTreeSet<String>),
    /// The label is missing or has none of the values.
    NotIn(String, BTreeSet<String>),
    Exists(String),
    DoesNotExist(String),
    GreaterThan(String, i64),
    LessThan(String, i64),
}

impl Requirement {
    pub fn key(&self) -> &str {
        match self {
            Self::In(key, _)
            | Self::NotIn(key, _)
            | Self::Exists(key)
            | Self::DoesNotExist(key)
            | Self::GreaterThan(key, _)
            | Self::LessThan(key, _) => key,
        }
    }

    pub(crate) fn holds<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let number = |key: &str| label(key)?.parse::<i64>().ok();
        match self {
            Self::In(key, values) => label(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => label(key).is_some(),
            Self::DoesNotExist(key) => label(key).is_none(),
            Self::GreaterThan(key, than) => number(key).is_some_and(|value| value > *than),
            Self::LessThan(key, than) => number(key).is_some_and(|value| value < *than),
        }
    }
}

/// Requirements that must all match. Equal selectors are equal values, independent of the order in
/// which they were written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector(Option<Vec<Requirement>>);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseSelectorError {
    /// Invalid requirement: none of `key`, `!key`, `key=value`, `key!=value`, `key in (values)`,
    /// `key notin (values)`, `key>number`, `key<number`.
    #[error("unable to parse selector requirement {0:?}")]
    Requirement(String),
    /// Match expression with an unknown operator, or without the required values.
    #[error(
        "invalid match expression for label {key:?}: operator {operator:?} with {values} values"
    )]
    Expression {
        key: String,
        operator: String,
        values: usize,
    },
}

impl Selector {
    pub const fn everything() -> Self {
        Self(Some(Vec::new()))
    }

    pub const fn nothing() -> Self {
        Self(None)
    }

    /// Selects objects that meet every requirement.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key().cmp(b.key()).then_with(|| a.cmp(b)));
        requirements.dedup();
        Self(Some(requirements))
    }

    /// Selects the objects with all of these labels (`matchLabels`).
    pub fn match_labels<K: Into<String>, V: Into<String>>(
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self::new(
            labels
                .into_iter()
                .map(|(key, value)| Requirement::In(key.into(), [value.into()].into())),
        )
    }

    /// Selects the objects of this selector that also meet `requirement`.
    #[must_use]
    pub fn and(self, requirement: Requirement) -> Self {
        match self.0 {
            Some(requirements) => Self::new(requirements.into_iter().chain([requirement])),
            None => Self::nothing(),
        }
    }

    /// Converts an API object's selector. Expressions are key, operator (`In`, `NotIn`, `Exists`,
    /// `DoesNotExist`) and values.
    pub fn from_parts(
        labels: &BTreeMap<String, String>,
        expressions: impl IntoIterator<Item = (String, String, Vec<String>)>,
    ) -> Result<Self, ParseSelectorError> {
        let equal = labels
            .iter()
            .map(|(key, value)| Ok(Requirement::In(key.clone(), [value.clone()].into())));
        let expressions = expressions
            .into_iter()
            .map(|(key, operator, values)| expression(key, &operator, values));
        Ok(Self::new(
            equal.chain(expressions).collect::<Result<Vec<_>, _>>()?,
        ))
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_where(|key| labels.get(key))
    }

    /// Whether it selects an object whose label values `label` returns.
    pub fn matches_where<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.as_ref().is_some_and(|requirements| {
            requirements
                .iter()
                .all(|requirement| requirement.holds(&label))
        })
    }

    pub fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// The requirements in order of their keys; empty for both "everything" and "nothing".
    pub fn requirements(&self) -> &[Requirement] {
        self.0.as_deref().unwrap_or_default()
    }
}

fn expression(
    key: String,
    operator: &str,
    values: Vec<String>,
) -> Result<Requirement, ParseSelectorError> {
    let count = values.len();
    let set = values.into_iter().collect();
    match (operator, count) {
        ("In", 1..) => Ok(Requirement::In(key, set)),
        ("NotIn", 1..) => Ok(Requirement::NotIn(key, set)),
        ("Exists", 0) => Ok(Requirement::Exists(key)),
        ("DoesNotExist", 0) => Ok(Requirement::DoesNotExist(key)),
        _ => Err(ParseSelectorError::Expression {
            key,
            operator: operator.to_owned(),
            values: count,
        }),
    }
}

impl FromStr for Selector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Ok(Self::everything());
        }
        Ok(Self::new(
            split_conditions(text)
                .map(condition)
                .collect::<Result<Vec<_>, _>>()?,
        ))
    }
}

/// Splits at commas outside parentheses.
fn split_conditions(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |c| {
        inside = c == '(' || (inside && c != ')');
        c == ',' && !inside
    })
}

fn condition(text: &str) -> Result<Requirement, ParseSelectorError> {
    let text = text.trim();
    let owned = |text: &str| text.trim().to_owned();
    let one = |value: &str| [owned(value)].into();
    let number = |than: &str| than.trim().parse().ok();
    let requirement = if let Some(values) = text.strip_suffix(')') {
        set_condition(values)
    } else if let Some((key, value)) = text.split_once("!=") {
        Some(Requirement::NotIn(owned(key), one(value)))
    } else if let Some((key, value)) = text.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        Some(Requirement::In(owned(key), one(value)))
    } else if let Some((key, than)) = text.split_once('>') {
        number(than).map(|than| Requirement::GreaterThan(owned(key), than))
    } else if let Some((key, than)) = text.split_once('<') {
        number(than).map(|than| Requirement::LessThan(owned(key), than))
    } else if let Some(key) = text.strip_prefix('!') {
        Some(Requirement::DoesNotExist(owned(key)))
    } else {
        Some(Requirement::Exists(text.to_owned()))
    };
    requirement
        .filter(is_well_formed)
        .ok_or_else(|| ParseSelectorError::Requirement(text.to_owned()))
}

/// Parses `key in (a, b` or `key notin (a, b`, without the closing parenthesis.
fn set_condition(text: &str) -> Option<Requirement> {
    let (head, values) = text.split_once('(')?;
    let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
    let values = values
        .split(',')
        .map(|value| value.trim().to_owned())
        .collect();
    match operator {
        "in" => Some(Requirement::In(key.trim().to_owned(), values)),
        "notin" => Some(Requirement::NotIn(key.trim().to_owned(), values)),
        _ => None,
    }
}

/// Keys must not be empty. Neither keys nor values may have characters of the selector language.
fn is_well_formed(requirement: &Requirement) -> bool {
    let plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
    };
    let values = match requirement {
        Requirement::In(_, values) | Requirement::NotIn(_, values) => Some(values),
        _ => None,
    };
    let key = requirement.key();
    !key.is_empty() && plain(key) && values.into_iter().flatten().all(|value| plain(value))
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |values: &BTreeSet<String>| {
            let values: Vec<_> = values.iter().map(String::as_str).collect();
            values.join(",")
        };
        match self {
            Self::In(key, values) if values.len() == 1 => write!(f, "{key}={}", joined(values)),
            Self::NotIn(key, values) if values.len() == 1 => write!(f, "{key}!={}", joined(values)),
            Self::In(key, values) => write!(f, "{key} in ({})", joined(values)),
            Self::NotIn(key, values) => write!(f, "{key} notin ({})", joined(values)),
            Self::Exists(key) => f.write_str(key),
            Self::DoesNotExist(key) => write!(f, "!{key}"),
            Self::GreaterThan(key, than) => write!(f, "{key}>{than}"),
            Self::LessThan(key, than) => write!(f, "{key}<{than}"),
        }
    }
}
