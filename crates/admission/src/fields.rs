//! What is wrong with single fields, in the words and the form of the Kubernetes API.
//!
//! Source: `k8s.io/apimachinery/pkg/util/validation/field` and `NewInvalid` of
//! `k8s.io/apimachinery/pkg/api/errors`.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::review::GroupKind;

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    cause: &'static str,
    field: String,
    body: String,
}

impl Problem {
    /// A value is missing.
    pub(crate) fn required(field: String, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, "Required value", detail)
    }

    /// A value makes no sense. `value` is shown as it is: texts come in quotes.
    pub(crate) fn invalid(field: String, value: impl Display, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            &format!("Invalid value: {value}"),
            detail,
        )
    }

    /// A value is none of those that there are.
    pub(crate) fn unsupported(field: String, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(
            "FieldValueNotSupported",
            field,
            &format!("Unsupported value: {value:?}"),
            &detail,
        )
    }

    /// A value is not accepted here and now.
    pub(crate) fn forbidden(field: String, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, "Forbidden", detail)
    }

    /// A list is too long.
    pub(crate) fn too_many(field: String, count: usize, most: usize) -> Self {
        let items = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {items}");
        Self::new(
            "FieldValueTooMany",
            field,
            &format!("Too many: {count}"),
            &detail,
        )
    }

    /// The object cannot be read.
    pub(crate) fn unreadable(reason: &str) -> Self {
        Self::new("InternalError", ".".to_owned(), "Internal error", reason)
    }

    fn new(cause: &'static str, field: String, what: &str, detail: &str) -> Self {
        let body = if detail.is_empty() {
            what.to_owned()
        } else {
            format!("{what}: {detail}")
        };
        Self { cause, field, body }
    }

    fn text(&self) -> String {
        format!("{}: {}", self.field, self.body)
    }
}

/// The status with which the API server refuses an object; none if there is no problem.
pub(crate) fn status(kind: &GroupKind<'_>, name: &str, problems: &[Problem]) -> Option<Value> {
    let mut texts: Vec<String> = Vec::new();
    for text in problems.iter().map(Problem::text) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let all = match texts.as_slice() {
        [] => return None,
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let (group, kind) = (
        kind.group.as_deref().unwrap_or_default(),
        kind.kind.as_deref().unwrap_or_default(),
    );
    let qualified = if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{group}")
    };
    let causes: Vec<Value> = problems
        .iter()
        .map(|problem| json!({"reason": problem.cause, "message": problem.body, "field": problem.field}))
        .collect();
    Some(json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("{qualified} {name:?} is invalid: {all}"),
        "reason": "Invalid",
        "details": {"name": name, "group": group, "kind": kind, "causes": causes},
        "code": 422,
    }))
}
