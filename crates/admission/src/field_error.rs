//! Errors of single fields, with the texts of the Kubernetes API.
//!
//! Source: `k8s.io/apimachinery/pkg/util/validation/field` and `NewInvalid` of
//! `k8s.io/apimachinery/pkg/api/errors`.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::review::GroupKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    reason: &'static str,
    field: String,
    message: String,
}

impl FieldError {
    /// A missing value.
    pub(crate) fn required(field: String, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, "Required value", detail)
    }

    /// An invalid value. `value` is printed as it is; a string must be quoted already.
    pub(crate) fn invalid(field: String, value: impl Display, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            &format!("Invalid value: {value}"),
            detail,
        )
    }

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

    /// A value that is not allowed here.
    pub(crate) fn forbidden(field: String, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, "Forbidden", detail)
    }

    /// A list with more than `max` items.
    pub(crate) fn too_many(field: String, count: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        Self::new(
            "FieldValueTooMany",
            field,
            &format!("Too many: {count}"),
            &detail,
        )
    }

    /// An object that cannot be parsed.
    pub(crate) fn internal(detail: &str) -> Self {
        Self::new("InternalError", ".".to_owned(), "Internal error", detail)
    }

    fn new(reason: &'static str, field: String, kind: &str, detail: &str) -> Self {
        let message = if detail.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}: {detail}")
        };
        Self {
            reason,
            field,
            message,
        }
    }

    fn text(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }
}

/// The `Status` of a refusal; `None` without errors.
pub(crate) fn status(kind: &GroupKind<'_>, name: &str, errors: &[FieldError]) -> Option<Value> {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(FieldError::text) {
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
    let cause = |error: &FieldError| json!({"reason": error.reason, "message": error.message, "field": error.field});
    let causes: Vec<Value> = errors.iter().map(cause).collect();
    Some(json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("{qualified} {name:?} is invalid: {all}"),
        "reason": "Invalid",
        "details": {"name": name, "group": group, "kind": kind, "causes": causes},
        "code": 422,
    }))
}
