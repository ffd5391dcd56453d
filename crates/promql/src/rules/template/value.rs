//! Values of templates.

use std::collections::BTreeMap;
use std::fmt;

/// Value, formatted as in Go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rules) enum Value {
    Text(String),
    Number(i64),
    Bool(bool),
    List(Vec<String>),
    Map(BTreeMap<String, String>),
    /// Missing value of a map.
    Nothing,
}

impl Value {
    /// Truth of a value: false if empty, zero or false.
    pub(super) fn holds(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::Number(number) => *number != 0,
            Self::Bool(bool) => *bool,
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Nothing => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bool(bool) => write!(f, "{bool}"),
            Self::Nothing => f.write_str("<no value>"),
            Self::List(list) => write!(f, "[{}]", list.join(" ")),
            Self::Map(map) => {
                let pairs: Vec<String> = map
                    .iter()
                    .map(|(name, text)| format!("{name}:{text}"))
                    .collect();
                write!(f, "map[{}]", pairs.join(" "))
            }
        }
    }
}
