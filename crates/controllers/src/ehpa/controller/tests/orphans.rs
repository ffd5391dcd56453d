//! HPAs annotated with an EHPA that does not exist.

use super::*;
use api::ehpa::ADOPTED_BY;
use horizontal::ehpa::MAX_ATTEMPTS;

/// An HPA of another workload with the annotation of an adopter.
fn claimed(name: &str, adopted_by: &str) -> Value {
    let mut object = native(name, &json!({}));
    object["spec"]["scaleTargetRef"]["name"] = json!(name);
    object["metadata"]["annotations"] =
        json!({ADOPTED_BY: adopted_by, "plimsoll.dev/original-spec": object["spec"].to_string()});
    object
}

fn attempts(requests: &[String]) -> usize {
    requests
        .iter()
        .filter(|request| request.starts_with("PUT"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn rejected_orphans_come_last_within_their_budget_and_rarely() {
    let mut fixture = Fixture::new().effective("Auto");
    let hostile = 3 * MAX_ATTEMPTS;
    for number in 0..hostile {
        let name = format!("hostile-{number}");
        fixture.server.put(NATIVE, &claimed(&name, "gone/u0"));
        fixture.server.refuse(NATIVE, &name);
    }
    fixture.pass().await;
    let requests = fixture.server.requests();
    assert_eq!(attempts(&requests), MAX_ATTEMPTS);
    let made = requests
        .iter()
        .position(|request| *request == format!("POST {NATIVE}"))
        .expect("its autoscaler");
    let looked = requests
        .iter()
        .position(|request| *request == format!("GET {EFFECTIVE}/gone"))
        .expect("a look");
    assert!(made < looked, "{requests:?}");

    // A pass for another reason attempts no more of them, and none is made for them.
    let next = fixture.pass_over(fixture.server.view()).await;
    assert_eq!(attempts(&fixture.server.requests()), 0);
    assert!(next.is_some_and(|next| next > Instant::now()));
    // The others follow, and none is attempted twice.
    for expected in [MAX_ATTEMPTS, MAX_ATTEMPTS, 0] {
        tokio::time::advance(RETRY_INTERVAL).await;
        fixture.pass().await;
        assert_eq!(attempts(&fixture.server.requests()), expected);
    }
    tokio::time::advance(RESYNC_INTERVAL).await;
    fixture.pass().await;
    assert_eq!(attempts(&fixture.server.requests()), MAX_ATTEMPTS);
}

#[tokio::test(start_paused = true)]
async fn restored_orphans_do_not_use_the_budget() {
    let mut fixture = Fixture::new();
    for number in 0..3 * MAX_ATTEMPTS {
        fixture
            .server
            .put(NATIVE, &claimed(&format!("orphan-{number}"), "gone/u0"));
    }
    for expected in [MAX_ATTEMPTS, MAX_ATTEMPTS, MAX_ATTEMPTS, 0] {
        fixture.pass().await;
        assert_eq!(attempts(&fixture.server.requests()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_names_no_object_makes_no_request() {
    let mut fixture = Fixture::new();
    for (number, adopted_by) in [
        "a b/u0",
        "\u{7f}/u0",
        "../u0",
        &format!("{}/u0", "a".repeat(254)),
    ]
    .iter()
    .enumerate()
    {
        fixture
            .server
            .put(NATIVE, &claimed(&format!("orphan-{number}"), adopted_by));
    }
    fixture.pass().await;
    assert_eq!(fixture.server.requests(), Vec::<String>::new());
}
