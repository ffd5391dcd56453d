//! Objects as JSON, since our types may not accept each object that the API server accepts.

use serde_json::Value;

/// The items of a list; none of another value.
pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text; empty for another value.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn texts<'a, const N: usize>(value: &'a Value, fields: [&str; N]) -> [&'a str; N] {
    fields.map(|field| text(&value[field]))
}

#[cfg(test)]
pub(crate) mod tests;
