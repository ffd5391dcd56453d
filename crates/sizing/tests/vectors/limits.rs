//! Limits in proportion to requests.

use model::ResourceList;
use serde::Deserialize;
use sizing::proportional_limits;
use testing::vectors::each_row;

#[derive(Deserialize)]
struct Case {
    resources: Resources,
    recommended_request: Option<ResourceList>,
    default_limit: Option<ResourceList>,
    expect: Expected,
}

#[derive(Deserialize, Default)]
pub(crate) struct Resources {
    #[serde(default)]
    pub(crate) requests: ResourceList,
    #[serde(default)]
    pub(crate) limits: ResourceList,
}

#[derive(Deserialize)]
struct Expected {
    limits: Option<serde_json::Value>,
    notes: Vec<String>,
}

#[test]
fn vectors_limits() {
    each_row("vpa/limits", |index, case: Case| {
        let Resources { requests, limits } = &case.resources;
        let recommended = case.recommended_request.unwrap_or_default();
        let found =
            proportional_limits(limits, requests, &recommended, case.default_limit.as_ref());
        let limits =
            (!found.limits.is_empty()).then(|| serde_json::to_value(&found.limits).unwrap());
        assert_eq!(
            (limits, found.notes),
            (case.expect.limits, case.expect.notes),
            "case {index}"
        );
    });
}
