//! Requests to KEDA's operator: certificates, missing values, timeouts and reconnections.

use serde_json::{Value, json};
use tonic::Code;

use crate::ca::Ca;
use crate::fixture::{Fixture, QUEUE};
use crate::operator::{Operator, Replies};
use crate::routes::{HPA, ask, becomes, request_until_the_circuit_opens};

const SELECTOR: &str = "?labelSelector=scaledobject.keda.sh%2Fname%3Dorders";
const NO_VALUE: &str = "the provider keda has no value:";

fn path() -> String {
    format!("{QUEUE}{SELECTOR}")
}

/// The error of a metric without a last response.
fn unheard() -> String {
    path().replace("queue", "unheard")
}

fn certificates(fixture: &Fixture, clients: &Ca, servers: &Ca) {
    let own = clients.client("plimsoll-adapter");
    for (name, text) in [
        ("keda.crt", servers.pem()),
        ("own.crt", own.pem.0),
        ("own.key", own.pem.1),
    ] {
        fixture.write(name, &text);
    }
}

async fn set_routes(fixture: &Fixture, operator: &Operator, more: &str) {
    let address = operator.door.address;
    let files = "caFile: keda.crt, certFile: own.crt, keyFile: own.key";
    let name = "serverName: localhost";
    let text = format!(
        "upstreams: [{{name: keda, kind: keda-grpc, url: 'https://{address}', {name}, {files}{more}}}]"
    );
    fixture.set_routes(&text).await.unwrap();
}

async fn both(replies: Replies, more: &str) -> (Fixture, Operator) {
    let (fixture, operator) = (Fixture::new(&[]).await, Operator::start(replies).await);
    certificates(&fixture, &operator.authority, &operator.authority);
    set_routes(&fixture, &operator, more).await;
    (fixture, operator)
}

async fn check_refused(fixture: &Fixture, expected: u16, says: &str) {
    let (code, message) = ask(fixture, &unheard()).await;
    assert!(
        code == expected && message.contains(says),
        "{code} {message}\ninstead of {says}"
    );
}

#[tokio::test]
async fn a_metric_of_a_scaled_object_is_requested_from_the_operator() {
    let (fixture, operator) = both(Replies::With("1500m"), "").await;
    let (code, body) = fixture.proxy().await.get(&path(), &[HPA]).await;
    assert_eq!(code, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let item = &body["items"][0];
    assert_eq!(item["value"], "1500m");
    assert_eq!(item["timestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(item["metricLabels"], json!({"of": "keda"}));
    let asked = ("orders".to_owned(), "shop".to_owned(), "queue".to_owned());
    assert_eq!(operator.take_requests(), [asked]);
    fixture.check_metrics(
        r#"plimsoll_adapter_route_requests_total{outcome="answered",route="keda",upstream="keda"} 1"#,
    );
    let jane = ["X-Remote-User: jane"];
    assert_eq!(fixture.proxy().await.get(&path(), &jane).await.0, 403);
    assert_eq!(operator.take_requests(), []);
}

#[tokio::test]
async fn both_sides_need_valid_certificates_and_new_ones_are_loaded() {
    let fixture = Fixture::new(&[]).await;
    let operator = Operator::start(Replies::With("5")).await;
    let stranger = Ca::new("strangers");
    certificates(&fixture, &operator.authority, &stranger);
    set_routes(&fixture, &operator, "").await;
    check_refused(&fixture, 503, "no response: the connection failed").await;
    certificates(&fixture, &stranger, &operator.authority);
    fixture.routes.reload().await.unwrap();
    check_refused(&fixture, 503, "no response").await;
    assert_eq!(operator.take_requests(), []);

    certificates(&fixture, &operator.authority, &operator.authority);
    fixture.routes.reload().await.unwrap();
    assert_eq!(ask(&fixture, &path()).await, (200, "5".to_owned()));
    // An incomplete write keeps the old files in use.
    fixture.write("own.crt", &stranger.pem());
    fixture.routes.reload().await.unwrap();
    assert_eq!(ask(&fixture, &unheard()).await, (200, "5".to_owned()));

    fixture.write("own.key", "");
    set_routes(&fixture, &operator, ", maxStale: 1m").await;
    let answer = ask(&fixture, &path().replace("queue", "unknown")).await;
    // Names of files are in the log only.
    let public = format!("{NO_VALUE} its certificates or settings are not valid");
    assert_eq!(answer, (503, public));
    let metrics = fixture.metrics();
    let circuit = "plimsoll_adapter_upstream_circuit_open{";
    assert!(!metrics.contains(circuit), "{metrics}");
}

#[tokio::test]
async fn while_the_operator_hangs_its_last_response_counts_and_then_the_circuit_opens() {
    let (fixture, operator) = both(Replies::With("1"), ", timeout: 200ms, maxStale: 10m").await;
    assert_eq!(ask(&fixture, &path()).await, (200, "1".to_owned()));
    operator.set_behaviour(Replies::Hangs);
    let late = format!("{NO_VALUE} no response within 200ms");
    becomes(&fixture, &unheard(), (503, &late)).await;
    let circuit_open =
        format!("{NO_VALUE} its circuit is open for some seconds after repeated failures");
    let path_in = |namespace: &str| path().replace("/shop/", &format!("/{namespace}/"));
    request_until_the_circuit_opens(&fixture, path_in, &circuit_open).await;
    fixture.check_metrics(r#"plimsoll_adapter_upstream_circuit_open{upstream="keda"} 1"#);
    assert_eq!(ask(&fixture, &path()).await, (200, "1".to_owned()));
    operator.set_behaviour(Replies::With("2"));
    becomes(&fixture, &path(), (200, "2")).await;
    fixture.check_metrics(r#"plimsoll_adapter_upstream_circuit_open{upstream="keda"} 0"#);
}

#[tokio::test]
async fn a_lost_operator_is_reconnected() {
    let (fixture, operator) = both(Replies::With("3"), "").await;
    operator.door.is_open.send_replace(false);
    check_refused(&fixture, 503, "no response").await;
    operator.door.is_open.send_replace(true);
    assert_eq!(ask(&fixture, &path()).await, (200, "3".to_owned()));
    operator.door.is_open.send_replace(false);
    check_refused(&fixture, 503, "no response").await;
    // The last response replaces the missing one.
    assert_eq!(ask(&fixture, &path()).await, (200, "3".to_owned()));
    operator.door.is_open.send_replace(true);
    becomes(&fixture, &unheard(), (200, "3")).await;
}

#[tokio::test]
async fn invalid_responses_have_no_value() {
    let (fixture, operator) = both(Replies::With("NaN"), "").await;
    let not_valid = |why: &str| format!("its response is not valid: {why}");
    let none = "there are no values of the metric unheard".to_owned();
    for (replies, code, why) in [
        (
            Replies::With("NaN"),
            503,
            not_valid("a value is not a quantity"),
        ),
        (Replies::WithMany(1001), 503, not_valid("1001 values")),
        (Replies::WithMany(50_000), 503, "too large".to_owned()),
        (Replies::WithMany(0), 404, none),
    ] {
        operator.set_behaviour(replies);
        check_refused(&fixture, code, &why).await;
    }
    operator.set_behaviour(Replies::With("-3"));
    assert_eq!(ask(&fixture, &path()).await, (200, "0".to_owned()));
}

#[tokio::test]
async fn a_failed_scaler_does_not_affect_other_metrics() {
    let why = "error when getting metric values: no such queue";
    let (fixture, operator) = both(Replies::Refuses(Code::Unknown, why), "").await;
    for _ in 0..10 {
        check_refused(&fixture, 503, &format!("{NO_VALUE} {why}")).await;
    }
    assert_eq!(operator.take_requests().len(), 10, "each was sent");
    operator.set_behaviour(Replies::Refuses(Code::NotFound, "no such ScaledObject"));
    check_refused(&fixture, 404, "no such ScaledObject (from keda)").await;
    let several = SELECTOR.replace("%3Dorders", "+in+%28orders%2Ccarts%29");
    let (code, message) = ask(&fixture, &format!("{QUEUE}{several}")).await;
    assert!(
        code == 400 && message.contains("does not name a ScaledObject"),
        "{code} {message}"
    );
    assert_eq!(operator.take_requests().len(), 1);
}
