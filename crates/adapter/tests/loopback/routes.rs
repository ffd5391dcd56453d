//! Requests that are forwarded to other providers: identity, timeouts, failures and loops.

use anyhow::{bail, ensure};
use futures::future::{join, join_all};
use serde_json::{Value, json};
use testing::{Pace, eventually};

use crate::fixture::{Fixture, QUEUE};
use crate::provider::{Behaviour, Provider};

pub(crate) const HPA: &str = "X-Remote-User: hpa";

/// An upstream on the loopback interface.
fn upstream(
    name: &str,
    address: std::net::SocketAddr,
    authority: &std::path::Path,
    more: &str,
) -> String {
    let ca = authority.display();
    format!("{{name: {name}, url: 'https://{address}', serverName: localhost, caFile: {ca}{more}}}")
}

/// Makes this upstream named `another` the default one.
async fn set_default(fixture: &Fixture, upstream: &str) {
    let routes = format!("upstreams: [{upstream}]\ndefaultUpstream: another");
    fixture.set_routes(&routes).await.unwrap();
}

async fn forward_all(fixture: &Fixture, provider: &Provider, more: &str) {
    let authority = fixture.write("provider.crt", &provider.authority.pem());
    let upstream = upstream("another", provider.address, &authority, more);
    set_default(fixture, &upstream).await;
}

/// Starts an adapter with a provider as its default upstream.
async fn forwarding(does: Behaviour, more: &str) -> (Fixture, Provider) {
    let (fixture, provider) = (Fixture::new(&[]).await, Provider::start(does).await);
    forward_all(&fixture, &provider, more).await;
    (fixture, provider)
}

/// Checks the status code, and the value or the message of a response.
async fn check(fixture: &Fixture, metric: &str, expected: (u16, &str)) {
    let (code, text) = ask(fixture, &path(metric)).await;
    assert_eq!((code, text.as_str()), expected);
}

fn path(metric: &str) -> String {
    QUEUE.replace("queue", metric)
}

const NO_VALUE: &str = "the provider another has no value:";

fn no_value(why: &str) -> String {
    format!("{NO_VALUE} {why}")
}

const CIRCUIT_OPEN: &str = "its circuit is open for some seconds after repeated failures";

/// Returns the status code and the value or the message of a response.
pub(crate) async fn ask(fixture: &Fixture, path: &str) -> (u16, String) {
    let (code, body) = fixture.proxy().await.get(path, &[HPA]).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let pointer = if code == 200 {
        "/items/0/value"
    } else {
        "/message"
    };
    let text = body.pointer(pointer).and_then(Value::as_str);
    (code, text.unwrap_or_else(|| panic!("{body}")).to_owned())
}

pub(crate) async fn becomes(fixture: &Fixture, path: &str, expected: (u16, &str)) {
    let what = format!("the answer is {expected:?}");
    let asking = eventually(what, Pace::WITHIN, async || {
        let (code, text) = ask(fixture, path).await;
        ensure!((code, text.as_str()) == expected, "{code} {text}");
        Ok(())
    });
    asking.await.unwrap();
}

#[tokio::test]
async fn a_request_is_forwarded_with_the_adapters_identity() {
    let (fixture, provider) = forwarding(Behaviour::Returns(42), "").await;
    let authority = fixture.write("provider.crt", &provider.authority.pem());
    let upstream = upstream("keda", provider.address, &authority, "");
    let routes = format!("upstreams: [{upstream}]");
    fixture.set_routes(&routes).await.unwrap();
    let path = format!("{QUEUE}?labelSelector=scaledobject.keda.sh%2Fname%3Dorders");
    let headers = [HPA, "Authorization: Bearer mine"];
    let (code, body) = fixture.proxy().await.get(&path, &headers).await;
    assert_eq!(code, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["items"][0]["value"], "42");
    assert_eq!(body["items"][0]["timestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(body["items"][0]["metricLabels"], json!({"of": "another"}));
    let asked = provider.take_requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].uri.ends_with(&path), "{}", asked[0].uri);
    let headers = &asked[0].headers;
    assert_eq!(headers["authorization"], "Bearer token-of-hpa");
    assert!(
        headers["x-metrics-hop"]
            .as_bytes()
            .starts_with(b"plimsoll/")
    );
    assert!(!headers.contains_key("x-remote-user"));
    // Without the selector no route matches.
    assert_eq!(ask(&fixture, QUEUE).await.0, 404);
    assert_eq!(provider.take_requests().len(), 0);
    fixture.check_metrics(
        r#"plimsoll_adapter_route_requests_total{outcome="answered",route="keda",upstream="keda"} 1"#,
    );
}

#[tokio::test]
async fn an_unauthorized_caller_gets_no_metric_of_another_provider() {
    let fixture = Fixture::new(&[]).await;
    let provider = Provider::start(Behaviour::Returns(42)).await;
    forward_all(&fixture, &provider, "").await;
    let code = fixture.proxy().await.queue(&["X-Remote-User: jane"]).await;
    assert_eq!(code, 403);
    assert_eq!(provider.take_requests().len(), 0);
    assert_eq!(ask(&fixture, QUEUE).await, (200, "42".to_owned()));
}

#[tokio::test]
async fn while_a_provider_hangs_its_last_response_counts_and_then_the_circuit_opens() {
    let more = ", timeout: 200ms, maxStale: 10m";
    let (fixture, provider) = forwarding(Behaviour::Returns(1), more).await;
    check(&fixture, "queue", (200, "1")).await;
    provider.set_behaviour(Behaviour::Hangs);
    let late = no_value("no response within 200ms");
    becomes(&fixture, &path("unheard"), (503, &late)).await;
    let path_in = |namespace: &str| QUEUE.replace("shop", namespace);
    request_until_the_circuit_opens(&fixture, path_in, &no_value(CIRCUIT_OPEN)).await;
    fixture.check_metrics(r#"plimsoll_adapter_upstream_circuit_open{upstream="another"} 1"#);
    check(&fixture, "queue", (200, "1")).await;
    let stood_in = r#"plimsoll_adapter_route_requests_total{outcome="stale",route="default",upstream="another"}"#;
    // A response is shared for a second; afterwards it replaces missing ones.
    let asking = eventually("the old answer stands in", Pace::WITHIN, async || {
        let metrics = fixture.metrics();
        if metrics.contains(stood_in) {
            return Ok(());
        }
        check(&fixture, "queue", (200, "1")).await;
        bail!("{metrics}")
    });
    asking.await.unwrap();
    provider.set_behaviour(Behaviour::Returns(2));
    becomes(&fixture, QUEUE, (200, "2")).await;
    fixture.check_metrics(r#"plimsoll_adapter_upstream_circuit_open{upstream="another"} 0"#);
}

#[tokio::test]
async fn errors_of_some_metrics_do_not_affect_others() {
    let (fixture, provider) = forwarding(Behaviour::Refuses(500), ", timeout: 200ms").await;
    let broken = no_value("it responded 500: none of that");
    for number in 0..10 {
        check(&fixture, &format!("broken{number}"), (503, &broken)).await;
    }
    assert_eq!(provider.take_requests().len(), 10, "each was sent");
    provider.set_behaviour(Behaviour::Hangs);
    let late = no_value("no response within 200ms");
    for number in 0..8 {
        check(&fixture, &format!("late{number}"), (503, &late)).await;
    }
    provider.set_behaviour(Behaviour::Returns(1));
    check(&fixture, "queue", (200, "1")).await;
    provider.set_behaviour(Behaviour::Refuses(503));
    let circuit_open = no_value(CIRCUIT_OPEN);
    becomes(&fixture, &path("unheard"), (503, &circuit_open)).await;
}

#[tokio::test]
async fn slow_requests_of_one_namespace_take_no_place_of_the_autoscaler() {
    let (fixture, provider) = forwarding(Behaviour::Returns(42), ", timeout: 1s").await;
    let tenant = ["X-Remote-User: reader"];
    let mut connections = Vec::new();
    for _ in 0..60 {
        let mut connection = fixture.proxy().await;
        // A connection without a request is closed after some seconds.
        assert_eq!(connection.queue(&tenant).await, 200);
        connections.push(connection);
    }
    provider.set_behaviour(Behaviour::Hangs);
    let numbered = connections.iter_mut().enumerate();
    let slow = join_all(numbered.map(async |(number, connection)| {
        let path = path(&format!("slow{number}"));
        connection.get(&path, &tenant).await.0
    }));
    let asked = async {
        let waiting = eventually("the tenant's share is used up", Pace::WITHIN, async || {
            let mut proxy = fixture.proxy().await;
            let (code, body) = proxy.get(&path("one-more"), &tenant).await;
            ensure!(
                code == 429 || body.contains("too many requests at once"),
                "{code} {body}"
            );
            Ok(())
        });
        waiting.await.unwrap();
        provider.set_behaviour(Behaviour::Returns(42));
        check(&fixture, "queue", (200, "42")).await;
        provider.set_behaviour(Behaviour::Hangs);
    };
    let (codes, ()) = join(slow, asked).await;
    assert!(codes.contains(&429) && !codes.contains(&403), "{codes:?}");
}

/// Requests metrics in new namespaces until the circuit is open.
pub(crate) async fn request_until_the_circuit_opens(
    fixture: &Fixture,
    path: impl Fn(&str) -> String,
    circuit_open: &str,
) {
    for number in 0..5 {
        let (code, _) = ask(fixture, &path(&format!("unheard{number}"))).await;
        assert_eq!(code, 503);
    }
    becomes(fixture, &path("unheard"), (503, circuit_open)).await;
}

#[tokio::test]
async fn a_lost_provider_is_tried_twice_and_reconnected() {
    let (fixture, provider) = forwarding(Behaviour::IsDead, "").await;
    // Addresses are in the log only.
    let public = no_value("no response: the connection failed");
    check(&fixture, "queue", (503, &public)).await;
    assert_eq!(provider.connections(), 2);
    provider.set_behaviour(Behaviour::Returns(3));
    check(&fixture, "queue", (200, "3")).await;
    provider.set_behaviour(Behaviour::IsDead);
    // The last response replaces missing ones for thirty seconds.
    becomes(&fixture, &path("unheard"), (503, &public)).await;
    check(&fixture, "queue", (200, "3")).await;
}

#[tokio::test]
async fn errors_of_an_invalid_upstream_do_not_name_files() {
    let fixture = Fixture::new(&[]).await;
    let missing = fixture.write("empty.crt", "");
    let upstream = upstream("another", "127.0.0.1:1".parse().unwrap(), &missing, "");
    set_default(&fixture, &upstream).await;
    let public = no_value("its certificates or settings are not valid");
    check(&fixture, "queue", (503, &public)).await;
}

#[tokio::test]
async fn the_last_response_expires() {
    let (fixture, provider) = forwarding(Behaviour::Returns(3), ", maxStale: 0s").await;
    check(&fixture, "queue", (200, "3")).await;
    provider.set_behaviour(Behaviour::Refuses(500));
    let failed = no_value("it responded 500: none of that");
    becomes(&fixture, QUEUE, (503, &failed)).await;
}

#[tokio::test]
async fn not_found_is_a_response() {
    let (fixture, provider) = forwarding(Behaviour::Refuses(404), "").await;
    for _ in 0..10 {
        check(&fixture, "queue", (404, "none of that (from another)")).await;
    }
    assert_eq!(provider.take_requests().len(), 10, "each was sent");
    provider.set_behaviour(Behaviour::Refuses(403));
    let why = "it denies access to the adapter's service account (403): none of that";
    check(&fixture, "queue", (503, &no_value(why))).await;
}

#[tokio::test]
async fn identical_requests_are_sent_once() {
    let (fixture, provider) = forwarding(Behaviour::Hangs, "").await;
    let asking = join_all((0..10).map(|_| check(&fixture, "queue", (200, "7"))));
    let answering = async {
        let is_asked = async || {
            ensure!(!provider.take_requests().is_empty(), "it is not");
            Ok(())
        };
        let asked = eventually("the provider is asked", Pace::WITHIN, is_asked);
        asked.await.unwrap();
        provider.set_behaviour(Behaviour::Returns(7));
    };
    join(asking, answering).await;
    assert_eq!(provider.take_requests().len(), 0);
}

#[tokio::test]
async fn the_next_request_has_the_response_that_came_too_late() {
    let (fixture, provider) = forwarding(Behaviour::Hangs, "").await;
    let late = no_value("no response within 1.8s");
    check(&fixture, "queue", (503, &late)).await;
    // Answers the request that is still open.
    provider.set_behaviour(Behaviour::Returns(7));
    check(&fixture, "queue", (200, "7")).await;
    assert_eq!(provider.take_requests().len(), 1);
}

#[tokio::test]
async fn only_a_provider_with_a_valid_certificate_gets_requests() {
    let fixture = Fixture::new(&[]).await;
    let provider = Provider::start(Behaviour::Returns(5)).await;
    let failed = no_value("no response: the connection failed");
    let authority = fixture.write("provider.crt", &fixture.servers.pem());
    let wrong = upstream("another", provider.address, &authority, "");
    set_default(&fixture, &wrong).await;
    check(&fixture, "queue", (503, &failed)).await;
    assert_eq!(provider.take_requests().len(), 0);
    fixture.write("provider.crt", &provider.authority.pem());
    fixture.routes.reload().await.unwrap();
    check(&fixture, "queue", (200, "5")).await;
    let named = wrong.replace("serverName: localhost", "serverName: another.svc");
    set_default(&fixture, &named).await;
    check(&fixture, "unheard", (503, &failed)).await;
}

#[tokio::test]
async fn an_invalid_file_keeps_the_previous_one() {
    let (fixture, _provider) = forwarding(Behaviour::Returns(6), "").await;
    let routes = "routes: [{name: a, metrics: ['*'], upstream: absent}]";
    let error = fixture.set_routes(routes).await.unwrap_err();
    assert_eq!(error, "routes[0].upstream: there is no upstream \"absent\"");
    fixture.check_metrics("plimsoll_adapter_routes_config_last_reload_successful 0");
    check(&fixture, "queue", (200, "6")).await;
    fixture.set_routes("").await.unwrap();
    assert_eq!(ask(&fixture, QUEUE).await.0, 404);
}

#[tokio::test]
async fn two_adapters_that_forward_to_each_other_detect_the_loop() {
    let (one, two) = (Fixture::new(&[]).await, Fixture::new(&[]).await);
    for (own, other, name) in [(&one, &two, "two"), (&two, &one, "one")] {
        let authority = own.write("other.crt", &other.servers.pem());
        let upstream = upstream(name, other.address, &authority, "");
        let routes = format!("upstreams: [{upstream}]\ndefaultUpstream: {name}");
        own.set_routes(&routes).await.unwrap();
    }
    let (code, message) = ask(&one, QUEUE).await;
    assert_eq!(code, 404, "{message}");
    assert!(
        message.starts_with("the metric queue is forwarded to the provider two, but the request has passed this adapter before"),
        "{message}"
    );
    assert!(message.ends_with("(from one) (from two)"), "{message}");
    one.check_metrics(
        r#"plimsoll_adapter_route_requests_total{outcome="loop",route="default",upstream="two"} 1"#,
    );
    assert_eq!(two.api.tokens(), ["token-of-hpa"], "the own identity");
}
