//! Units of bounds.

use crate::check::facts::Facts;
use crate::check::finding::{Finding, Findings};

/// Most bounds in a message.
const MAX_SHOWN: usize = 5;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::new("objects");
    let check = ("units", "minAllowed and maxAllowed have usual amounts");
    if let Some(slips) = findings.read(check, &facts.unit_slips) {
        if slips.is_empty() {
            findings.ok(check, "");
        } else {
            let shown: Vec<&str> = slips.iter().take(MAX_SHOWN).map(String::as_str).collect();
            let more = slips.len() - shown.len();
            let more = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            let message = format!("{}{more}", shown.join(", "));
            findings.warn(check, message, "Correct the units");
        }
    }
    findings.list
}
