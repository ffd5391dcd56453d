//! Validation of a startup boost.

use super::Accepted;
use super::object::{CpuBoost, StartupBoost};
use super::policy::cpu_resolution;
use crate::field_error::FieldError;

const KINDS: [&str; 2] = ["Factor", "Quantity"];

pub(super) fn validate(
    boost: &StartupBoost,
    path: &str,
    accepted: &Accepted,
) -> Option<FieldError> {
    if !accepted.gates.cpu_startup_boost {
        let detail = "in order to use startupBoost, you must enable feature gate CPUStartupBoost in the admission-controller args";
        return Some(FieldError::forbidden(path.to_owned(), detail));
    }
    let CpuBoost {
        kind,
        factor,
        quantity,
    } = boost.cpu.as_ref()?;
    let field = |name: &str| format!("{path}.cpu.{name}");
    match (kind.as_deref().unwrap_or_default(), factor, quantity) {
        ("", _, _) => Some(FieldError::required(
            field("type"),
            "must be either Factor or Quantity",
        )),
        ("Factor", None, _) => Some(FieldError::required(
            field("factor"),
            "required when type is Factor",
        )),
        ("Factor", Some(factor), _) if *factor < 1 => Some(FieldError::invalid(
            field("factor"),
            factor,
            "must be >= 1 for type Factor",
        )),
        ("Factor", Some(_), _) => None,
        ("Quantity", _, None) => Some(FieldError::required(
            field("quantity"),
            "required when type is Quantity",
        )),
        ("Quantity", _, Some(quantity)) => cpu_resolution(field("quantity"), quantity),
        (other, _, _) => Some(FieldError::unsupported(field("type"), other, &KINDS)),
    }
}
