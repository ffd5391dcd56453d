//! Limits of resized pods whose VPA object has a limit mode.

use rollout::SkipReason;
use serde_json::json;

use super::{Requested, all_requested, annotations, evict, fixture, requested_as};
use crate::fixture::{Fixture, requests};

/// A pod of 100m and 100 MiB with a CPU limit of 300m, and a target of one core and 100 MiB.
fn with_mode(update_mode: &str, limit_mode: &str) -> Fixture {
    let mut fixture = fixture(update_mode, 1);
    fixture.annotate("web", "plimsoll.dev/limit-mode", limit_mode);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": requests("100m", "100Mi"), "limits": {"cpu": "300m"}});
    });
    fixture
}

/// Expects limits and annotation of the resize.
fn check(limit_mode: &str, limits: &[(&str, &str)], text: Option<&str>) {
    let plan = with_mode("InPlace", limit_mode).first_pass();
    let requests = [("requests/cpu", "1"), ("requests/memory", "100Mi")];
    let expected: Requested = requested_as(&[&requests, limits].concat());
    assert_eq!(all_requested(&plan), [expected], "{limit_mode}");
    let found = annotations(&plan.actions[0]).get("plimsoll.dev/limits");
    let found = found.and_then(|text| text.as_deref());
    assert_eq!(found, text, "{limit_mode}");
}

#[test]
fn a_resize_sets_the_limits_of_the_mode() {
    check("proportional", &[("limits/cpu", "3")], None);
    check("cpu=equal", &[("limits/cpu", "1")], Some("app: cpu=1"));
    check(
        "request-plus:20%",
        &[("limits/cpu", "1200m"), ("limits/memory", "120Mi")],
        Some("app: cpu=1200m, memory=120Mi"),
    );
}

#[test]
fn a_limit_is_not_removed_in_place() {
    check("cpu=none", &[("limits/cpu", "3")], Some("app: cpu=3"));
}

#[test]
fn a_mode_that_changes_the_quality_of_service_class_needs_another_pod() {
    let fixture = with_mode("InPlaceOrRecreate", "equal");
    assert_eq!(all_requested(&fixture.first_pass()), [evict()]);
    let fixture = with_mode("InPlace", "equal");
    let plan = fixture.first_pass();
    assert_eq!(all_requested(&plan), [] as [Requested; 0]);
    let reasons: Vec<_> = plan.skips.iter().map(|skip| skip.reason).collect();
    assert_eq!(reasons, [SkipReason::QosClass]);
}
