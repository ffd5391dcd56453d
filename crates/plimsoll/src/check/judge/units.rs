//! Units of bounds.

use crate::check::facts::Facts;
use crate::check::finding::{Finding, Findings};
use crate::output::first_names;

/// Most bounds in a message.
const MAX_SHOWN: usize = 5;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::new("objects");
    let check = ("units", "minAllowed and maxAllowed have usual amounts");
    if let Some(slips) = findings.read(check, &facts.unit_slips) {
        if slips.is_empty() {
            findings.ok(check, "");
        } else {
            findings.warn(check, first_names(slips, MAX_SHOWN), "Correct the units");
        }
    }
    findings.list
}
