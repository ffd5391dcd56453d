//! Recommendations capped by container policies and the global maximum.

use model::{Recommendation, ResourceList};
use serde::Deserialize;
use testing::vectors::each_case;

use crate::objects::VpaSpec;

#[derive(Deserialize)]
struct Case {
    vpa_spec: VpaSpec,
    recommendation: Recommendation,
    global_max_allowed: Option<ResourceList>,
    expect: serde_json::Value,
}

#[test]
fn vectors_capping_policy() {
    each_case("vpa/capping_policy", |index, mut case: Case| {
        let global_max = case.global_max_allowed.unwrap_or_default();
        sizing::cap(
            &mut case.recommendation,
            &case.vpa_spec.policies(),
            &global_max,
        );
        assert_eq!(
            serde_json::to_value(&case.recommendation).unwrap(),
            case.expect,
            "case {index}"
        );
    });
}
