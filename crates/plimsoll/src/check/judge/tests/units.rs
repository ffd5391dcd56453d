//! Units of bounds.

use super::*;

#[test]
fn slips_of_units_are_a_warning_with_the_first_of_them() {
    let slips = (0..7).map(|number| format!("VerticalPodAutoscaler shop/{number}: slip"));
    let slips: Vec<String> = slips.collect();
    let message = "VerticalPodAutoscaler shop/0: slip, ";
    let planted = slips.clone();
    check(
        move |facts| facts.unit_slips = Ok(planted),
        Status::Warning,
        "units",
        message,
    );
    let more = "shop/4: slip and 2 more";
    check(
        move |facts| facts.unit_slips = Ok(slips),
        Status::Warning,
        "units",
        more,
    );
}
