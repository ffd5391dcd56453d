//! Events, and the condition `Ready`.

use super::*;

fn ready(object: &Value) -> Value {
    let conditions = object["status"]["conditions"]
        .as_array()
        .expect("conditions");
    conditions
        .iter()
        .find(|condition| condition["type"] == "Ready")
        .expect("Ready")
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_once_and_again_after_another_one() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.server.keep_statuses();
    let mut argo = native(
        "mine",
        &json!({"managedFields": [{"manager": "argocd-controller"}]}),
    );
    fixture.server.put(NATIVE, &argo);
    for expected in [&["FailedUpdateHPA"] as &[&str], &[], &[]] {
        fixture.pass().await;
        assert_eq!(fixture.server.events(), expected);
        assert_eq!(
            ready(&fixture.server.get(EFFECTIVE, "php-apache"))["status"],
            "False"
        );
        tokio::time::advance(RETRY_INTERVAL).await;
    }
    argo["metadata"]["managedFields"] = json!([{"manager": "helm"}]);
    fixture.server.put(NATIVE, &argo);
    fixture.pass().await;
    assert_eq!(fixture.server.events(), ["FailedUpdateHPA"]);
}

#[tokio::test(start_paused = true)]
async fn an_adoption_is_reported_where_it_changed_something() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.server.keep_statuses();
    fixture.server.put(NATIVE, &native("mine", &json!({})));
    // An HPA that the watch has not seen as adopted is adopted again without a change.
    let view = fixture.server.view();
    fixture.pass().await;
    assert_eq!(fixture.server.events(), ["HPAAdopted"]);
    fixture.restart();
    fixture.pass_over(view).await;
    assert_eq!(fixture.server.events(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_reported_where_something_was_deleted() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.server.keep_statuses();
    fixture.pass().await;
    fixture.server.put(NATIVE, &native("mine", &json!({})));
    let view = fixture.server.view();
    fixture.pass().await;
    assert_eq!(fixture.server.events(), ["HPADeleted", "HPAAdopted"]);
    fixture.restart();
    fixture.pass_over(view).await;
    assert_eq!(fixture.server.events(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn messages_quote_a_limited_part_of_annotations() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.server.keep_statuses();
    let release = "r".repeat(40_000);
    fixture.server.put(
        NATIVE,
        &native(
            "mine",
            &json!({"annotations": {"meta.helm.sh/release-name": release}}),
        ),
    );
    fixture.pass().await;
    let message = ready(&fixture.server.get(EFFECTIVE, "php-apache"))["message"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(
        message.contains("rrr") && message.ends_with("to adopt it nevertheless"),
        "{message}"
    );
    assert!(message.len() < 500, "{}", message.len());

    let mut object = effective("Auto");
    object["spec"]["scaleTargetRef"]["name"] = json!("w".repeat(40_000));
    fixture.server.put(EFFECTIVE, &object);
    fixture.pass().await;
    let message = ready(&fixture.server.get(EFFECTIVE, "php-apache"))["message"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(message.len() <= 4000, "{}", message.len());
}
