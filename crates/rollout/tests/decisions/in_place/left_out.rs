//! Pods that were sized by a resource which the recommendation leaves out, since an HPA scales by it.

use serde_json::json;

use super::{Requested, all_requested, evict, fixture, requested_as};
use crate::fixture::Fixture;

/// The annotation of a pod that the webhook has sized, and that of one resized in place.
const SIZED: (&str, &str) = (
    "vpaUpdates",
    "Pod resources updated by web: container 0: cpu request, memory request, cpu limit",
);
const RESIZED: (&str, &str) = ("vpaInPlaceUpdated", "true");

/// A pod of 25m with this annotation, and a recommendation that leaves CPU out for this reason. The
/// template has 500m.
fn left_out(mode: &str, (annotation, value): (&str, &str), reason: &str) -> Fixture {
    let mut fixture = fixture(mode, 1);
    let resources = json!({"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1"}});
    fixture.set_template("web", &resources);
    fixture.pod_with("web", "web-0", &json!({}), |pod| {
        Fixture::reviewed(pod);
        pod["metadata"]["annotations"][annotation] = json!(value);
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "25m", "memory": "100Mi"}, "limits": {"cpu": "50m"}});
    });
    fixture.edit_vpa("web", |object| {
        let memory = json!({"memory": "100Mi"});
        let container = json!({
            "containerName": "app", "target": memory, "lowerBound": memory, "upperBound": memory,
        });
        let condition = json!({"type": "ConflictsWithHPA", "status": "True", "reason": reason});
        object["status"] = json!({
            "recommendation": {"containerRecommendations": [container]},
            "conditions": [condition],
        });
    });
    fixture
}

fn check(fixture: &Fixture, expected: &[Requested], when: &str) {
    assert_eq!(all_requested(&fixture.first_pass()), expected, "{when}");
}

#[test]
fn a_resource_that_an_hpa_scales_by_is_that_of_the_template_again() {
    let back = requested_as(&[
        ("requests/cpu", "500m"),
        ("requests/memory", "100Mi"),
        ("limits/cpu", "1"),
    ]);
    for mode in ["InPlaceOrRecreate", "InPlace"] {
        let fixture = left_out(mode, SIZED, "ResourceLeftOut");
        check(&fixture, std::slice::from_ref(&back), mode);
    }
    check(
        &left_out("Recreate", SIZED, "ResourceLeftOut"),
        &[evict()],
        "its replacement has the template's",
    );
    let resized = left_out("InPlace", RESIZED, "ResourceLeftOut");
    check(&resized, &[back], "it was resized in place");
}

#[test]
fn a_resource_that_an_hpa_scales_by_stays_where_an_act_would_be_wrong() {
    let sized_by_memory = (
        "vpaUpdates",
        "Pod resources updated by web: container 0: memory request",
    );
    for (annotation, reason) in [
        (sized_by_memory, "ResourceLeftOut"),
        (SIZED, "ResourceSized"),
        (SIZED, "ScalePointPending"),
    ] {
        let fixture = left_out("InPlaceOrRecreate", annotation, reason);
        check(&fixture, &[], &format!("{annotation:?} {reason}"));
    }
    for policy in [
        json!({"controlledResources": ["memory"]}),
        json!({"maxAllowed": {"cpu": "400m"}}),
        json!({"minAllowed": {"cpu": "600m"}}),
    ] {
        let mut policy = policy;
        policy["containerName"] = json!("app");
        let mut fixture = left_out("InPlaceOrRecreate", SIZED, "ResourceLeftOut");
        fixture.edit_vpa("web", |object| {
            object["spec"]["resourcePolicy"] = json!({"containerPolicies": [policy]});
        });
        check(&fixture, &[], &policy.to_string());
    }
}
