//! Quantities whose unit is probably a slip.

use crate::{Quantity, ResourceName};

/// Whole cores from which a quantity of CPU counts as a slip. `250` for `250m` is frequent.
const MANY_CORES: i64 = 100;
/// Bytes below which a quantity of memory counts as a slip: less than any container needs.
const LEAST_BYTES: i64 = 1 << 20;

/// Returns a sentence about a quantity that is probably a slip: CPU in cores instead of millicores,
/// such as `250`, and memory in bytes or thousandths of bytes, such as `512` or `512m`. `None` for
/// other quantities, zero and negative ones among them.
pub fn unit_slip(resource: &ResourceName, quantity: &Quantity) -> Option<String> {
    let (is_slip, unit, hint) = match resource {
        ResourceName::Cpu => (
            quantity.value() >= MANY_CORES,
            "cores",
            "millicores have the suffix m",
        ),
        ResourceName::Memory => (
            quantity.value() > 0 && quantity.value() < LEAST_BYTES,
            "bytes",
            "mebibytes have the suffix Mi",
        ),
        ResourceName::Other(_) => return None,
    };
    let amount = quantity.to_f64();
    is_slip.then(|| format!("\"{quantity}\" is {amount} {unit}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resource: &str, quantity: &str, expected: Option<&str>) {
        let quantity: Quantity = quantity.parse().expect("a quantity");
        let found = unit_slip(&resource.into(), &quantity);
        assert_eq!(found.as_deref(), expected, "{resource} {quantity}");
    }

    #[test]
    fn slips_of_units_are_found() {
        let cores = r#""250" is 250 cores; millicores have the suffix m"#;
        check("cpu", "250", Some(cores));
        check("cpu", "250m", None);
        check("cpu", "64", None);
        check("cpu", "0", None);
        check("cpu", "-250", None);
        let bytes = r#""512" is 512 bytes; mebibytes have the suffix Mi"#;
        check("memory", "512", Some(bytes));
        let thousandths = r#""512m" is 0.512 bytes; mebibytes have the suffix Mi"#;
        check("memory", "512m", Some(thousandths));
        check("memory", "512Mi", None);
        check("memory", "1Mi", None);
        // As some tools write 0.1Gi.
        check("memory", "107374182400m", None);
        check("memory", "0", None);
        check("memory", "-1", None);
        check("nvidia.com/gpu", "250", None);
    }
}
