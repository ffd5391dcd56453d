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

/// Makes the provider the default upstream.
async fn forward_all(fixture: &Fixture, provider: &Provider, more: &str) {
    let authority = fixture.write("provider.crt", &provider.authority.pem());
    let upstream = upstream("another", provider.address, &authority, more);
    fixture
        .set_routes(&format!(
            "upstreams: [{upstream}]\ndefaultUpstream: another"
        ))
        .await
        .unwrap();
}

/// Returns the status code and the value or the message of a response.
pub(crate) async fn ask(fixture: &Fixture, path: &str) -> (u16, String) {
    let (code, body) = fixture.proxy().await.get(path, &[HPA]).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let text = if code == 200 {
        &body["items"][0]["value"]
    } else {
        &body["message"]
    };
    (
        code,
        text.as_str().unwrap_or_else(|| panic!("{body}")).to_owned(),
    )
}

pub(crate) async fn becomes(fixture: &Fixture, path: &str, expected: (u16, &str)) {
    let asking = eventually(
        format!("the answer is {expected:?}"),
        Pace::WITHIN,
        async || {
            let (code, text) = ask(fixture, path).await;
            ensure!((code, text.as_str()) == expected, "{code} {text}");
            Ok(())
        },
    );
    asking.await.unwrap();
}

#[tokio::test]
async fn a_request_is_forwarded_with_the_adapters_identity() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Returns(42)).await,
    );
    let authority = fixture.write("provider.crt", &provider.authority.pem());
    let upstream = upstream("keda", provider.address, &authority, "");
    fixture
        .set_routes(&format!("upstreams: [{upstream}]"))
        .await
        .unwrap();
    let path = format!("{QUEUE}?labelSelector=scaledobject.keda.sh%2Fname%3Dorders");
    let (code, body) = fixture
        .proxy()
        .await
        .get(&path, &[HPA, "Authorization: Bearer mine"])
        .await;
    assert_eq!(code, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["items"][0]["value"], "42");
    assert_eq!(body["items"][0]["timestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(body["items"][0]["metricLabels"], json!({"of": "another"}));
    let asked = provider.take_requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].uri.ends_with(&path), "{}", asked[0].uri);
    assert_eq!(asked[0].headers["authorization"], "Bearer token-of-hpa");
    assert!(
        asked[0].headers["x-metrics-hop"]
            .to_str()
            .unwrap()
            .starts_with("plimsoll/")
    );
    assert!(!asked[0].headers.contains_key("x-remote-user"));
    // Without the selector no route matches.
    assert_eq!(ask(&fixture, QUEUE).await.0, 404);
    assert_eq!(provider.take_requests().len(), 0);
    let metrics = fixture.metrics();
    let line = r#"plimsoll_adapter_route_requests_total{outcome="answered",route="keda",upstream="keda"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn an_unauthorized_caller_gets_no_metric_of_another_provider() {
    for mode in ["sar", "sar-wildcard", "trust-front-proxy"] {
        let fixture = Fixture::new(&[&format!("--authorization-mode={mode}")]).await;
        let provider = Provider::start(Behaviour::Returns(42)).await;
        forward_all(&fixture, &provider, "").await;
        assert_eq!(
            fixture.proxy().await.queue(&["X-Remote-User: jane"]).await,
            403,
            "{mode}"
        );
        assert_eq!(provider.take_requests().len(), 0, "{mode}");
        assert_eq!(ask(&fixture, QUEUE).await, (200, "42".to_owned()), "{mode}");
    }
}

#[tokio::test]
async fn while_a_provider_hangs_its_last_response_counts_and_then_the_circuit_opens() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Returns(1)).await,
    );
    forward_all(&fixture, &provider, ", timeout: 200ms, maxStale: 10m").await;
    assert_eq!(ask(&fixture, QUEUE).await, (200, "1".to_owned()));
    provider.set_behaviour(Behaviour::Hangs);
    let unheard = QUEUE.replace("queue", "unheard");
    becomes(
        &fixture,
        &unheard,
        (
            503,
            "the provider another has no value: no response within 200ms",
        ),
    )
    .await;
    let circuit_open = "the provider another has no value: its circuit is open for some seconds after repeated failures";
    request_until_the_circuit_opens(
        &fixture,
        |namespace| QUEUE.replace("shop", namespace),
        circuit_open,
    )
    .await;
    assert!(
        fixture
            .metrics()
            .contains(r#"plimsoll_adapter_upstream_circuit_open{upstream="another"} 1"#),
        "{}",
        fixture.metrics()
    );
    assert_eq!(ask(&fixture, QUEUE).await, (200, "1".to_owned()));
    let stood_in = r#"plimsoll_adapter_route_requests_total{outcome="stale",route="default",upstream="another"}"#;
    // A response is shared for a second; afterwards it replaces missing ones.
    let asking = eventually("the old answer stands in", Pace::WITHIN, async || {
        let metrics = fixture.metrics();
        if metrics.contains(stood_in) {
            return Ok(());
        }
        assert_eq!(ask(&fixture, QUEUE).await, (200, "1".to_owned()));
        bail!("{metrics}")
    });
    asking.await.unwrap();
    provider.set_behaviour(Behaviour::Returns(2));
    becomes(&fixture, QUEUE, (200, "2")).await;
    assert!(
        fixture
            .metrics()
            .contains(r#"plimsoll_adapter_upstream_circuit_open{upstream="another"} 0"#),
        "{}",
        fixture.metrics()
    );
}

#[tokio::test]
async fn errors_of_some_metrics_do_not_affect_others() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Refuses(500)).await,
    );
    forward_all(&fixture, &provider, ", timeout: 200ms").await;
    let broken = "the provider another has no value: it responded 500: none of that";
    for number in 0..10 {
        let path = QUEUE.replace("queue", &format!("broken{number}"));
        assert_eq!(
            ask(&fixture, &path).await,
            (503, broken.to_owned()),
            "{number}"
        );
    }
    assert_eq!(
        provider.take_requests().len(),
        10,
        "it is not left alone for that"
    );
    provider.set_behaviour(Behaviour::Hangs);
    for number in 0..8 {
        let path = QUEUE.replace("queue", &format!("late{number}"));
        let (code, message) = ask(&fixture, &path).await;
        assert!(
            code == 503 && message.ends_with("no response within 200ms"),
            "{number}: {code} {message}"
        );
    }
    provider.set_behaviour(Behaviour::Returns(1));
    assert_eq!(ask(&fixture, QUEUE).await, (200, "1".to_owned()));
    provider.set_behaviour(Behaviour::Refuses(503));
    let circuit_open = "the provider another has no value: its circuit is open for some seconds after repeated failures";
    becomes(
        &fixture,
        &QUEUE.replace("queue", "unheard"),
        (503, circuit_open),
    )
    .await;
}

#[tokio::test]
async fn slow_requests_of_one_namespace_take_no_place_of_the_autoscaler() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Returns(42)).await,
    );
    forward_all(&fixture, &provider, ", timeout: 1s").await;
    let tenant = ["X-Remote-User: reader"];
    let mut connections = Vec::new();
    for _ in 0..60 {
        let mut connection = fixture.proxy().await;
        // A connection without a request is closed after some seconds.
        assert_eq!(connection.queue(&tenant).await, 200);
        connections.push(connection);
    }
    provider.set_behaviour(Behaviour::Hangs);
    let slow = join_all(
        connections
            .iter_mut()
            .enumerate()
            .map(async |(number, connection)| {
                connection
                    .get(&QUEUE.replace("queue", &format!("slow{number}")), &tenant)
                    .await
                    .0
            }),
    );
    let asked = async {
        let waiting = eventually("the tenant's share is used up", Pace::WITHIN, async || {
            let (code, body) = fixture
                .proxy()
                .await
                .get(&QUEUE.replace("queue", "one-more"), &tenant)
                .await;
            ensure!(
                code == 429 || body.contains("too many requests at once"),
                "{code} {body}"
            );
            Ok(())
        });
        waiting.await.unwrap();
        provider.set_behaviour(Behaviour::Returns(42));
        (
            ask(&fixture, QUEUE).await,
            provider.set_behaviour(Behaviour::Hangs),
        )
    };
    let (codes, (answer, ())) = join(slow, asked).await;
    assert_eq!(answer, (200, "42".to_owned()));
    assert!(codes.contains(&429) && !codes.contains(&403), "{codes:?}");
}

/// Requests metrics in new namespaces until the circuit is open.
pub(crate) async fn request_until_the_circuit_opens(
    fixture: &Fixture,
    path: impl Fn(&str) -> String,
    circuit_open: &str,
) {
    for number in 0..5 {
        assert_eq!(
            ask(fixture, &path(&format!("unheard{number}"))).await.0,
            503
        );
    }
    becomes(fixture, &path("unheard"), (503, circuit_open)).await;
}

#[tokio::test]
async fn a_lost_provider_is_tried_twice_and_reconnected() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::IsDead).await,
    );
    forward_all(&fixture, &provider, "").await;
    let (code, message) = ask(&fixture, QUEUE).await;
    let public = "the provider another has no value: no response: the connection failed";
    assert_eq!(
        (code, message.as_str()),
        (503, public),
        "addresses are in the log alone"
    );
    assert_eq!(provider.connections(), 2);
    provider.set_behaviour(Behaviour::Returns(3));
    assert_eq!(ask(&fixture, QUEUE).await, (200, "3".to_owned()));
    provider.set_behaviour(Behaviour::IsDead);
    // The last response replaces missing ones for thirty seconds.
    becomes(
        &fixture,
        &QUEUE.replace("queue", "unheard"),
        (503, &message),
    )
    .await;
    assert_eq!(ask(&fixture, QUEUE).await, (200, "3".to_owned()));
}

#[tokio::test]
async fn errors_of_an_invalid_upstream_do_not_name_files() {
    let fixture = Fixture::new(&[]).await;
    let missing = fixture.write("empty.crt", "");
    let upstream = upstream("another", "127.0.0.1:1".parse().unwrap(), &missing, "");
    fixture
        .set_routes(&format!(
            "upstreams: [{upstream}]\ndefaultUpstream: another"
        ))
        .await
        .unwrap();
    let public = "the provider another has no value: its certificates or settings are not valid";
    assert_eq!(ask(&fixture, QUEUE).await, (503, public.to_owned()));
}

#[tokio::test]
async fn the_last_response_expires() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Returns(3)).await,
    );
    forward_all(&fixture, &provider, ", maxStale: 0s").await;
    assert_eq!(ask(&fixture, QUEUE).await, (200, "3".to_owned()));
    provider.set_behaviour(Behaviour::Refuses(500));
    becomes(
        &fixture,
        QUEUE,
        (
            503,
            "the provider another has no value: it responded 500: none of that",
        ),
    )
    .await;
}

#[tokio::test]
async fn not_found_is_a_response() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Refuses(404)).await,
    );
    forward_all(&fixture, &provider, "").await;
    for _ in 0..10 {
        assert_eq!(
            ask(&fixture, QUEUE).await,
            (404, "none of that (from another)".to_owned())
        );
    }
    assert_eq!(
        provider.take_requests().len(),
        10,
        "it is not left alone for that"
    );
    provider.set_behaviour(Behaviour::Refuses(403));
    let refused = "the provider another has no value: it denies access to the adapter's service account (403): none of that";
    assert_eq!(ask(&fixture, QUEUE).await, (503, refused.to_owned()));
}

#[tokio::test]
async fn identical_requests_are_sent_once() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Hangs).await,
    );
    forward_all(&fixture, &provider, "").await;
    let asking = futures::future::join_all((0..10).map(|_| ask(&fixture, QUEUE)));
    let answering = async {
        let is_asked = async || {
            ensure!(!provider.take_requests().is_empty(), "it is not");
            Ok(())
        };
        eventually("the provider is asked", Pace::WITHIN, is_asked)
            .await
            .unwrap();
        provider.set_behaviour(Behaviour::Returns(7));
    };
    let (answers, ()) = futures::future::join(asking, answering).await;
    assert!(
        answers
            .iter()
            .all(|answer| *answer == (200, "7".to_owned())),
        "{answers:?}"
    );
    assert_eq!(provider.take_requests().len(), 0);
}

#[tokio::test]
async fn only_a_provider_with_a_valid_certificate_gets_requests() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Returns(5)).await,
    );
    let authority = fixture.write("provider.crt", &fixture.servers.pem());
    let wrong = upstream("another", provider.address, &authority, "");
    fixture
        .set_routes(&format!("upstreams: [{wrong}]\ndefaultUpstream: another"))
        .await
        .unwrap();
    let (code, message) = ask(&fixture, QUEUE).await;
    assert_eq!(
        (code, message.as_str()),
        (
            503,
            "the provider another has no value: no response: the connection failed"
        )
    );
    assert_eq!(provider.take_requests().len(), 0);
    fixture.write("provider.crt", &provider.authority.pem());
    fixture.routes.reload().await.unwrap();
    assert_eq!(ask(&fixture, QUEUE).await, (200, "5".to_owned()));
    let named = wrong.replace("serverName: localhost", "serverName: another.svc");
    fixture
        .set_routes(&format!("upstreams: [{named}]\ndefaultUpstream: another"))
        .await
        .unwrap();
    let (code, message) = ask(&fixture, &QUEUE.replace("queue", "unheard")).await;
    assert_eq!(
        (code, message.as_str()),
        (
            503,
            "the provider another has no value: no response: the connection failed"
        )
    );
}

#[tokio::test]
async fn an_invalid_file_keeps_the_previous_one() {
    let (fixture, provider) = (
        Fixture::new(&[]).await,
        Provider::start(Behaviour::Returns(6)).await,
    );
    forward_all(&fixture, &provider, "").await;
    let error = fixture
        .set_routes("routes: [{name: a, metrics: ['*'], upstream: absent}]")
        .await
        .unwrap_err();
    assert_eq!(error, "routes[0].upstream: there is no upstream \"absent\"");
    assert!(
        fixture
            .metrics()
            .contains("plimsoll_adapter_routes_config_last_reload_successful 0"),
        "{}",
        fixture.metrics()
    );
    assert_eq!(ask(&fixture, QUEUE).await, (200, "6".to_owned()));
    fixture.set_routes("").await.unwrap();
    assert_eq!(ask(&fixture, QUEUE).await.0, 404);
}

#[tokio::test]
async fn two_adapters_that_forward_to_each_other_detect_the_loop() {
    let (one, two) = (Fixture::new(&[]).await, Fixture::new(&[]).await);
    for (own, other, name) in [(&one, &two, "two"), (&two, &one, "one")] {
        let authority = own.write("other.crt", &other.servers.pem());
        let upstream = upstream(name, other.address, &authority, "");
        own.set_routes(&format!("upstreams: [{upstream}]\ndefaultUpstream: {name}"))
            .await
            .unwrap();
    }
    let (code, message) = ask(&one, QUEUE).await;
    assert_eq!(code, 404, "{message}");
    assert!(
        message.starts_with("the metric queue is forwarded to the provider two, but the request has passed this adapter before"),
        "{message}"
    );
    assert!(message.ends_with("(from one) (from two)"), "{message}");
    let line =
        r#"plimsoll_adapter_route_requests_total{outcome="loop",route="default",upstream="two"} 1"#;
    assert!(one.metrics().contains(line), "{}", one.metrics());
    assert_eq!(
        two.api.tokens(),
        ["token-of-hpa"],
        "the other one asked who we are"
    );
}
