//! Limits proportional to requests, and integer arithmetic for proportions: millicores of CPU,
//! bytes of memory, rounded down.
//!
//! Amounts beyond 64 bits count as zero, as upstream. Source: upstream
//! `pkg/utils/vpa/limit_and_request_scaling.go`.

use model::{Quantity, ResourceList, ResourceName};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProportionalLimits {
    /// Limits of CPU and memory that can be computed.
    pub limits: ResourceList,
    /// Reasons for missing or inexact limits.
    pub notes: Vec<String>,
}

/// Limits of CPU and memory in their current proportion to requests. `default_limits` are the
/// namespace's defaults for containers without limits.
pub fn proportional_limits(
    limits: &ResourceList,
    requests: &ResourceList,
    recommended: &ResourceList,
    default_limits: Option<&ResourceList>,
) -> ProportionalLimits {
    let mut result = ProportionalLimits::default();
    let mut notes = Vec::new();
    for resource in [ResourceName::Cpu, ResourceName::Memory] {
        let default = default_limits.and_then(|default| default.get(&resource));
        let [limit, request, recommended] =
            [limits, requests, recommended].map(|list| list.get(&resource));
        let (limit, note) = proportional_limit(&resource, limit, request, recommended, default);
        notes.extend(note.map(|note| (resource.clone(), note)));
        if let Some(limit) = limit {
            result.limits.insert(resource, limit);
        }
    }
    if !result.limits.is_empty() {
        let notes = notes.into_iter();
        result.notes = notes
            .map(|(resource, note)| format!("{resource}: {note}"))
            .collect();
    }
    result
}

/// One limit and its note.
pub(super) fn proportional_limit(
    resource: &ResourceName,
    limit: Option<&Quantity>,
    request: Option<&Quantity>,
    recommended: Option<&Quantity>,
    default: Option<&Quantity>,
) -> (Option<Quantity>, Option<&'static str>) {
    let Some(limit) = present(limit).or(present(default)) else {
        return (None, Some("limit NOT set since originalLimit is nil or 0"));
    };
    let Some(recommended) = present(recommended) else {
        let note = "limit NOT set since recommendedRequest is nil or 0";
        return (None, Some(note));
    };
    // A limit without a request implies an equal request.
    let Some(request) = present(request).filter(|request| milli(request) != milli(limit)) else {
        return (Some(recommended.clone()), None);
    };
    match scale(resource, limit, recommended, request, Rounding::Down) {
        Some(scaled) => (Some(scaled), None),
        None => (
            Some(from_amount(resource, i64::MAX, limit)),
            Some("failed to keep limit to request ratio; capping limit to int64"),
        ),
    }
}

/// The request whose proportional limit is `bound`; `None` without a bound or a proportion.
pub(super) fn request_at(
    resource: &ResourceName,
    bound: &Quantity,
    limit: Option<&Quantity>,
    request: Option<&Quantity>,
    default: Option<&Quantity>,
) -> Option<Quantity> {
    let limit = present(limit).or(present(default))?;
    let Some(request) = present(request) else {
        return Some(bound.clone());
    };
    let scaled = scale(resource, bound, request, limit, Rounding::Down);
    scaled.or_else(|| Some(from_amount(resource, i64::MAX, bound)))
}

/// Rounding of fractions of a millicore or byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Down,
    Up,
}

/// `quantity * numerator / denominator` in the format of `quantity`; `None` beyond 64 bits, or for
/// a denominator of zero.
pub(super) fn scale(
    resource: &ResourceName,
    quantity: &Quantity,
    numerator: &Quantity,
    denominator: &Quantity,
    rounding: Rounding,
) -> Option<Quantity> {
    let [value, numerator, denominator] =
        [quantity, numerator, denominator].map(|quantity| i128::from(amount(resource, quantity)));
    let product = value.checked_mul(numerator)?;
    let whole = product.checked_div_euclid(denominator)?;
    let has_rest = product.checked_rem_euclid(denominator)? != 0;
    let rounded = if has_rest && rounding == Rounding::Up {
        whole.checked_add(1)?
    } else {
        whole
    };
    Some(from_amount(
        resource,
        i64::try_from(rounded).ok()?,
        quantity,
    ))
}

/// Millicores of CPU, whole units of other resources.
fn amount(resource: &ResourceName, quantity: &Quantity) -> i64 {
    if *resource == ResourceName::Cpu {
        milli(quantity)
    } else {
        units(quantity)
    }
}

fn from_amount(resource: &ResourceName, amount: i64, like: &Quantity) -> Quantity {
    if *resource == ResourceName::Cpu {
        Quantity::from_thousandths(amount, like.format())
    } else {
        Quantity::from_units(amount, like.format())
    }
}

fn present(quantity: Option<&Quantity>) -> Option<&Quantity> {
    quantity.filter(|quantity| units(quantity) != 0)
}

/// Saturates amounts beyond 64 bits.
fn milli(quantity: &Quantity) -> i64 {
    match quantity.milli_value() {
        i64::MAX if *quantity > Quantity::from_milli(i64::MAX) => 0,
        milli => milli,
    }
}

fn units(quantity: &Quantity) -> i64 {
    match quantity.value() {
        i64::MAX if *quantity > Quantity::from_bytes(i64::MAX) => 0,
        units => units,
    }
}
