//! What KEDA made is asked of its operator: with which certificates, and what happens when it has
//! no value, hangs, dies and comes back.

use serde_json::{Value, json};
use tonic::Code;

use crate::authority::Authority;
use crate::operator::{Operator, Replies};
use crate::providers::{HPA, ask, ask_until_it_rests, becomes};
use crate::stage::{QUEUE, Stage};

const SELECTOR: &str = "?labelSelector=scaledobject.keda.sh%2Fname%3Dorders";
const NO_VALUE: &str = "the provider keda gives no metric:";

fn path() -> String {
    format!("{QUEUE}{SELECTOR}")
}

/// Of a metric of which nothing was ever heard.
fn unheard() -> String {
    path().replace("queue", "unheard")
}

/// Has the adapter show a certificate of these clients, and believe a server of these.
fn certificates(stage: &Stage, clients: &Authority, servers: &Authority) {
    let own = clients.client("plimsoll-adapter");
    for (name, text) in [
        ("keda.crt", servers.pem()),
        ("own.crt", own.pem.0),
        ("own.key", own.pem.1),
    ] {
        stage.write(name, &text);
    }
}

async fn leave(stage: &Stage, operator: &Operator, more: &str) {
    let address = operator.door.address;
    let files = "caFile: keda.crt, certFile: own.crt, keyFile: own.key";
    let name = "serverName: localhost";
    let text = format!(
        "upstreams: [{{name: keda, kind: keda-grpc, url: 'https://{address}', {name}, {files}{more}}}]"
    );
    stage.leave(&text).await.unwrap();
}

async fn both(replies: Replies, more: &str) -> (Stage, Operator) {
    let (stage, operator) = (Stage::new(&[]).await, Operator::start(replies).await);
    certificates(&stage, &operator.authority, &operator.authority);
    leave(&stage, &operator, more).await;
    (stage, operator)
}

async fn check_refused(stage: &Stage, expected: u16, says: &str) {
    let (code, message) = ask(stage, &unheard()).await;
    assert!(
        code == expected && message.contains(says),
        "{code} {message}\ninstead of {says}"
    );
}

#[tokio::test]
async fn a_metric_of_a_scaled_object_is_asked_of_the_operator() {
    let (stage, operator) = both(Replies::With("1500m"), "").await;
    let (code, body) = stage.proxy().await.get(&path(), &[HPA]).await;
    assert_eq!(code, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let item = &body["items"][0];
    assert_eq!(
        (&item["value"], &item["timestamp"]),
        (&json!("1500m"), &json!("2026-01-01T00:00:00Z"))
    );
    assert_eq!(item["metricLabels"], json!({"of": "keda"}));
    assert_eq!(
        operator.asked(),
        [("orders".to_owned(), "shop".to_owned(), "queue".to_owned())]
    );
    let line = r#"plimsoll_adapter_route_requests_total{outcome="answered",route="keda",upstream="keda"} 1"#;
    assert!(stage.metrics().contains(line), "{}", stage.metrics());
    assert_eq!(
        stage
            .proxy()
            .await
            .get(&path(), &["X-Remote-User: nobody"])
            .await
            .0,
        403
    );
    assert_eq!(operator.asked(), []);
}

#[tokio::test]
async fn only_the_right_certificates_on_both_sides_will_do_and_new_ones_are_taken_up() {
    let (stage, operator) = (
        Stage::new(&[]).await,
        Operator::start(Replies::With("5")).await,
    );
    let stranger = Authority::new("strangers");
    certificates(&stage, &operator.authority, &stranger);
    leave(&stage, &operator, "").await;
    check_refused(&stage, 503, "no answer: the connection failed").await;
    certificates(&stage, &stranger, &operator.authority);
    stage.routes.reload().await.unwrap();
    check_refused(&stage, 503, "no answer").await;
    assert_eq!(operator.asked(), []);

    certificates(&stage, &operator.authority, &operator.authority);
    stage.routes.reload().await.unwrap();
    assert_eq!(ask(&stage, &path()).await, (200, "5".to_owned()));
    // Written by halves: the old ones go on.
    stage.write("own.crt", &stranger.pem());
    stage.routes.reload().await.unwrap();
    assert_eq!(ask(&stage, &unheard()).await, (200, "5".to_owned()));

    stage.write("own.key", "");
    leave(&stage, &operator, ", maxStale: 1m").await;
    let (code, message) = ask(&stage, &path().replace("queue", "unknown")).await;
    let public = format!("{NO_VALUE} its certificates or settings cannot be used");
    assert_eq!(
        (code, message),
        (503, public),
        "names of files are in the log alone"
    );
    assert!(
        !stage
            .metrics()
            .contains("plimsoll_adapter_upstream_circuit_open{"),
        "{}",
        stage.metrics()
    );
}

#[tokio::test]
async fn while_the_operator_hangs_its_last_word_stands_in_and_then_it_is_left_alone_until_it_is_back()
 {
    let (stage, operator) = both(Replies::With("1"), ", timeout: 200ms, maxStale: 10m").await;
    assert_eq!(ask(&stage, &path()).await, (200, "1".to_owned()));
    operator.now(Replies::Hangs);
    becomes(
        &stage,
        &unheard(),
        (503, &format!("{NO_VALUE} no answer within 200ms")),
    )
    .await;
    let resting = format!("{NO_VALUE} it has failed too often and is not asked for some seconds");
    ask_until_it_rests(
        &stage,
        |namespace| path().replace("/shop/", &format!("/{namespace}/")),
        &resting,
    )
    .await;
    assert!(
        stage
            .metrics()
            .contains(r#"plimsoll_adapter_upstream_circuit_open{upstream="keda"} 1"#),
        "{}",
        stage.metrics()
    );
    assert_eq!(ask(&stage, &path()).await, (200, "1".to_owned()));
    operator.now(Replies::With("2"));
    becomes(&stage, &path(), (200, "2")).await;
    assert!(
        stage
            .metrics()
            .contains(r#"plimsoll_adapter_upstream_circuit_open{upstream="keda"} 0"#),
        "{}",
        stage.metrics()
    );
}

#[tokio::test]
async fn an_operator_that_is_gone_is_found_again() {
    let (stage, operator) = both(Replies::With("3"), "").await;
    operator.door.is_open.send_replace(false);
    check_refused(&stage, 503, "no answer").await;
    operator.door.is_open.send_replace(true);
    assert_eq!(ask(&stage, &path()).await, (200, "3".to_owned()));
    operator.door.is_open.send_replace(false);
    check_refused(&stage, 503, "no answer").await;
    assert_eq!(
        ask(&stage, &path()).await,
        (200, "3".to_owned()),
        "its last word stands in"
    );
    operator.door.is_open.send_replace(true);
    becomes(&stage, &unheard(), (200, "3")).await;
}

#[tokio::test]
async fn odd_answers_are_no_numbers() {
    let (stage, operator) = both(Replies::With("NaN"), "").await;
    let unusable = "its answer cannot be used:";
    check_refused(&stage, 503, &format!("{unusable} a value is no quantity")).await;
    operator.now(Replies::WithMany(1001));
    check_refused(&stage, 503, &format!("{unusable} 1001 values")).await;
    operator.now(Replies::WithMany(50_000));
    check_refused(&stage, 503, "too large").await;
    operator.now(Replies::WithMany(0));
    check_refused(&stage, 404, "there are no values of the metric unheard").await;
    operator.now(Replies::With("-3"));
    assert_eq!(ask(&stage, &path()).await, (200, "0".to_owned()));
}

#[tokio::test]
async fn a_scaler_without_a_value_does_not_keep_others_from_theirs() {
    let why = "error when getting metric values: no such queue";
    let (stage, operator) = both(Replies::Refuses(Code::Unknown, why), "").await;
    for _ in 0..10 {
        check_refused(&stage, 503, &format!("{NO_VALUE} it has no value: {why}")).await;
    }
    assert_eq!(operator.asked().len(), 10, "it is not left alone for that");
    operator.now(Replies::Refuses(Code::NotFound, "no such ScaledObject"));
    check_refused(&stage, 404, "no such ScaledObject (asked of keda)").await;
    let several = SELECTOR.replace("%3Dorders", "+in+%28orders%2Ccarts%29");
    let (code, message) = ask(&stage, &format!("{QUEUE}{several}")).await;
    assert!(
        code == 400 && message.contains("which ScaledObject"),
        "{code} {message}"
    );
    assert_eq!(operator.asked().len(), 1);
}
