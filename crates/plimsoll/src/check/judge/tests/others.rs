//! Other autoscalers.

use view::{AutoscalerRole, OtherAutoscaler};

use super::*;

#[test]
fn other_autoscalers_are_named_unless_they_are_scaled_to_zero() {
    let other =
        |image: &'static str, replicas| move |facts: &mut Facts| add_other(facts, image, replicas);
    check(
        other("vpa-updater", 1),
        Status::Error,
        "other-vpa",
        "other/vpa-updater",
    );
    check(other("craned", 1), Status::Error, "crane", "other/craned");
    check(
        other("goldilocks", 1),
        Status::Warning,
        "goldilocks",
        "other/goldilocks",
    );
    let sign = |facts: &mut Facts| {
        let (role, sign) = (
            AutoscalerRole::Updater,
            "the Lease a/vpa-updater of b".to_owned(),
        );
        facts.signs = Ok(vec![OtherAutoscaler { role, sign }]);
    };
    check(
        sign,
        Status::Error,
        "other-vpa",
        "the Lease a/vpa-updater of b",
    );
    check_in(Extent::Installed, other("vpa-updater", 0), &[]);
    check_in(Extent::Installed, other("keda", 1), &[]);
}
