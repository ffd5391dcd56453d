//! What is left to other providers: in whose name they are asked, and what happens when they hang,
//! die, come back or ask us.

use anyhow::{bail, ensure};
use eventually::{Pace, eventually};
use futures::future::{join, join_all};
use serde_json::{Value, json};

use crate::provider::{Does, Provider};
use crate::stage::{QUEUE, Stage};

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

/// Leaves everything to the provider.
async fn leave_all(stage: &Stage, provider: &Provider, more: &str) {
    let authority = stage.write("provider.crt", &provider.authority.pem());
    let upstream = upstream("another", provider.address, &authority, more);
    stage
        .leave(&format!(
            "upstreams: [{upstream}]\ndefaultUpstream: another"
        ))
        .await
        .unwrap();
}

/// What the adapter says, as the value or the message.
pub(crate) async fn ask(stage: &Stage, path: &str) -> (u16, String) {
    let (code, body) = stage.proxy().await.get(path, &[HPA]).await;
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

pub(crate) async fn becomes(stage: &Stage, path: &str, expected: (u16, &str)) {
    let asking = eventually(
        format!("the answer is {expected:?}"),
        Pace::WITHIN,
        async || {
            let (code, text) = ask(stage, path).await;
            ensure!((code, text.as_str()) == expected, "{code} {text}");
            Ok(())
        },
    );
    asking.await.unwrap();
}

#[tokio::test]
async fn a_question_is_left_to_its_owner_in_our_own_name() {
    let (stage, provider) = (Stage::new(&[]).await, Provider::start(Does::Says(42)).await);
    let authority = stage.write("provider.crt", &provider.authority.pem());
    let upstream = upstream("keda", provider.address, &authority, "");
    stage
        .leave(&format!("upstreams: [{upstream}]"))
        .await
        .unwrap();
    let path = format!("{QUEUE}?labelSelector=scaledobject.keda.sh%2Fname%3Dorders");
    let (code, body) = stage
        .proxy()
        .await
        .get(&path, &[HPA, "Authorization: Bearer mine"])
        .await;
    assert_eq!(code, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["items"][0]["value"], "42");
    assert_eq!(body["items"][0]["timestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(body["items"][0]["metricLabels"], json!({"of": "another"}));
    let asked = provider.asked();
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
    // Without the selector it is nobody's.
    assert_eq!(ask(&stage, QUEUE).await.0, 404);
    assert_eq!(provider.asked().len(), 0);
    let metrics = stage.metrics();
    let line = r#"plimsoll_adapter_route_requests_total{outcome="answered",route="keda",upstream="keda"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn whoever_may_not_know_does_not_learn_it_from_another_provider() {
    for mode in ["sar", "sar-wildcard", "trust-front-proxy"] {
        let stage = Stage::new(&[&format!("--authorization-mode={mode}")]).await;
        let provider = Provider::start(Does::Says(42)).await;
        leave_all(&stage, &provider, "").await;
        assert_eq!(
            stage.proxy().await.queue(&["X-Remote-User: nobody"]).await,
            403,
            "{mode}"
        );
        assert_eq!(provider.asked().len(), 0, "{mode}");
        assert_eq!(ask(&stage, QUEUE).await, (200, "42".to_owned()), "{mode}");
    }
}

#[tokio::test]
async fn while_a_provider_hangs_its_last_word_stands_in_and_then_it_is_left_alone_until_it_is_back()
{
    let (stage, provider) = (Stage::new(&[]).await, Provider::start(Does::Says(1)).await);
    leave_all(&stage, &provider, ", timeout: 200ms, maxStale: 10m").await;
    assert_eq!(ask(&stage, QUEUE).await, (200, "1".to_owned()));
    provider.now(Does::Hangs);
    let unheard = QUEUE.replace("queue", "unheard");
    becomes(
        &stage,
        &unheard,
        (
            503,
            "the provider another gives no metric: no answer within 200ms",
        ),
    )
    .await;
    let resting = "the provider another gives no metric: it has failed too often and is not asked for some seconds";
    ask_until_it_rests(
        &stage,
        |namespace| QUEUE.replace("shop", namespace),
        resting,
    )
    .await;
    assert!(
        stage
            .metrics()
            .contains(r#"plimsoll_adapter_upstream_circuit_open{upstream="another"} 1"#),
        "{}",
        stage.metrics()
    );
    assert_eq!(ask(&stage, QUEUE).await, (200, "1".to_owned()));
    let stood_in = r#"plimsoll_adapter_route_requests_total{outcome="stale",route="default",upstream="another"}"#;
    // What was said is shared for a second, and stands in after that.
    let asking = eventually("the old answer stands in", Pace::WITHIN, async || {
        let metrics = stage.metrics();
        if metrics.contains(stood_in) {
            return Ok(());
        }
        assert_eq!(ask(&stage, QUEUE).await, (200, "1".to_owned()));
        bail!("{metrics}")
    });
    asking.await.unwrap();
    provider.now(Does::Says(2));
    becomes(&stage, QUEUE, (200, "2")).await;
    assert!(
        stage
            .metrics()
            .contains(r#"plimsoll_adapter_upstream_circuit_open{upstream="another"} 0"#),
        "{}",
        stage.metrics()
    );
}

#[tokio::test]
async fn metrics_that_are_broken_do_not_keep_others_from_theirs() {
    let (stage, provider) = (
        Stage::new(&[]).await,
        Provider::start(Does::Refuses(500)).await,
    );
    leave_all(&stage, &provider, ", timeout: 200ms").await;
    let broken = "the provider another gives no metric: it answered 500: none of that";
    for number in 0..10 {
        let path = QUEUE.replace("queue", &format!("broken{number}"));
        assert_eq!(
            ask(&stage, &path).await,
            (503, broken.to_owned()),
            "{number}"
        );
    }
    assert_eq!(provider.asked().len(), 10, "it is not left alone for that");
    provider.now(Does::Hangs);
    for number in 0..8 {
        let path = QUEUE.replace("queue", &format!("late{number}"));
        let (code, message) = ask(&stage, &path).await;
        assert!(
            code == 503 && message.ends_with("no answer within 200ms"),
            "{number}: {code} {message}"
        );
    }
    provider.now(Does::Says(1));
    assert_eq!(ask(&stage, QUEUE).await, (200, "1".to_owned()));
    provider.now(Does::Refuses(503));
    let resting = "the provider another gives no metric: it has failed too often and is not asked for some seconds";
    becomes(&stage, &QUEUE.replace("queue", "unheard"), (503, resting)).await;
}

#[tokio::test]
async fn slow_questions_of_one_namespace_take_no_place_of_the_autoscaler() {
    let (stage, provider) = (Stage::new(&[]).await, Provider::start(Does::Says(42)).await);
    leave_all(&stage, &provider, ", timeout: 1s").await;
    let tenant = ["X-Remote-User: reader"];
    let mut connections = Vec::new();
    for _ in 0..60 {
        let mut connection = stage.proxy().await;
        // A connection without a request is closed after some seconds.
        assert_eq!(connection.queue(&tenant).await, 200);
        connections.push(connection);
    }
    provider.now(Does::Hangs);
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
            let (code, body) = stage
                .proxy()
                .await
                .get(&QUEUE.replace("queue", "one-more"), &tenant)
                .await;
            ensure!(
                code == 429 || body.contains("too many questions at once"),
                "{code} {body}"
            );
            Ok(())
        });
        waiting.await.unwrap();
        provider.now(Does::Says(42));
        (ask(&stage, QUEUE).await, provider.now(Does::Hangs))
    };
    let (codes, (answer, ())) = join(slow, asked).await;
    assert_eq!(answer, (200, "42".to_owned()));
    assert!(codes.contains(&429) && !codes.contains(&403), "{codes:?}");
}

/// Asks in namespaces in which nothing was asked before until the provider is left alone.
pub(crate) async fn ask_until_it_rests(
    stage: &Stage,
    path: impl Fn(&str) -> String,
    resting: &str,
) {
    for number in 0..5 {
        assert_eq!(ask(stage, &path(&format!("unheard{number}"))).await.0, 503);
    }
    becomes(stage, &path("unheard"), (503, resting)).await;
}

#[tokio::test]
async fn a_provider_that_is_gone_is_tried_twice_and_found_again() {
    let (stage, provider) = (Stage::new(&[]).await, Provider::start(Does::IsDead).await);
    leave_all(&stage, &provider, "").await;
    let (code, message) = ask(&stage, QUEUE).await;
    let public = "the provider another gives no metric: no answer: the connection failed";
    assert_eq!(
        (code, message.as_str()),
        (503, public),
        "addresses are in the log alone"
    );
    assert_eq!(provider.connections(), 2);
    provider.now(Does::Says(3));
    assert_eq!(ask(&stage, QUEUE).await, (200, "3".to_owned()));
    provider.now(Does::IsDead);
    // Its last word stands in for thirty seconds.
    becomes(&stage, &QUEUE.replace("queue", "unheard"), (503, &message)).await;
    assert_eq!(ask(&stage, QUEUE).await, (200, "3".to_owned()));
}

#[tokio::test]
async fn a_provider_that_cannot_be_connected_to_is_refused_without_naming_files() {
    let stage = Stage::new(&[]).await;
    let missing = stage.write("empty.crt", "");
    let upstream = upstream("another", "127.0.0.1:1".parse().unwrap(), &missing, "");
    stage
        .leave(&format!(
            "upstreams: [{upstream}]\ndefaultUpstream: another"
        ))
        .await
        .unwrap();
    let public =
        "the provider another gives no metric: its certificates or settings cannot be used";
    assert_eq!(ask(&stage, QUEUE).await, (503, public.to_owned()));
}

#[tokio::test]
async fn an_old_word_stands_in_no_longer_than_it_may() {
    let (stage, provider) = (Stage::new(&[]).await, Provider::start(Does::Says(3)).await);
    leave_all(&stage, &provider, ", maxStale: 0s").await;
    assert_eq!(ask(&stage, QUEUE).await, (200, "3".to_owned()));
    provider.now(Does::Refuses(500));
    becomes(
        &stage,
        QUEUE,
        (
            503,
            "the provider another gives no metric: it answered 500: none of that",
        ),
    )
    .await;
}

#[tokio::test]
async fn that_there_is_no_such_metric_is_an_answer() {
    let (stage, provider) = (
        Stage::new(&[]).await,
        Provider::start(Does::Refuses(404)).await,
    );
    leave_all(&stage, &provider, "").await;
    for _ in 0..10 {
        assert_eq!(
            ask(&stage, QUEUE).await,
            (404, "none of that (asked of another)".to_owned())
        );
    }
    assert_eq!(provider.asked().len(), 10, "it is not left alone for that");
    provider.now(Does::Refuses(403));
    let refused = "the provider another gives no metric: it does not let the adapter's service account read (403): none of that";
    assert_eq!(ask(&stage, QUEUE).await, (503, refused.to_owned()));
}

#[tokio::test]
async fn many_who_ask_the_same_are_one_question() {
    let (stage, provider) = (Stage::new(&[]).await, Provider::start(Does::Hangs).await);
    leave_all(&stage, &provider, "").await;
    let asking = futures::future::join_all((0..10).map(|_| ask(&stage, QUEUE)));
    let answering = async {
        let is_asked = async || {
            ensure!(!provider.asked().is_empty(), "it is not");
            Ok(())
        };
        eventually("the provider is asked", Pace::WITHIN, is_asked)
            .await
            .unwrap();
        provider.now(Does::Says(7));
    };
    let (answers, ()) = futures::future::join(asking, answering).await;
    assert!(
        answers
            .iter()
            .all(|answer| *answer == (200, "7".to_owned())),
        "{answers:?}"
    );
    assert_eq!(provider.asked().len(), 0);
}

#[tokio::test]
async fn only_a_provider_with_the_right_certificate_is_asked() {
    let (stage, provider) = (Stage::new(&[]).await, Provider::start(Does::Says(5)).await);
    let authority = stage.write("provider.crt", &stage.servers.pem());
    let wrong = upstream("another", provider.address, &authority, "");
    stage
        .leave(&format!("upstreams: [{wrong}]\ndefaultUpstream: another"))
        .await
        .unwrap();
    let (code, message) = ask(&stage, QUEUE).await;
    assert_eq!(
        (code, message.as_str()),
        (
            503,
            "the provider another gives no metric: no answer: the connection failed"
        )
    );
    assert_eq!(provider.asked().len(), 0);
    stage.write("provider.crt", &provider.authority.pem());
    stage.routes.reload().await.unwrap();
    assert_eq!(ask(&stage, QUEUE).await, (200, "5".to_owned()));
    let named = wrong.replace("serverName: localhost", "serverName: somebody.else.svc");
    stage
        .leave(&format!("upstreams: [{named}]\ndefaultUpstream: another"))
        .await
        .unwrap();
    let (code, message) = ask(&stage, &QUEUE.replace("queue", "unheard")).await;
    assert_eq!(
        (code, message.as_str()),
        (
            503,
            "the provider another gives no metric: no answer: the connection failed"
        )
    );
}

#[tokio::test]
async fn a_file_with_a_mistake_leaves_the_old_one_in_use() {
    let (stage, provider) = (Stage::new(&[]).await, Provider::start(Does::Says(6)).await);
    leave_all(&stage, &provider, "").await;
    let error = stage
        .leave("routes: [{name: a, metrics: ['*'], upstream: nobody}]")
        .await
        .unwrap_err();
    assert_eq!(
        error,
        "routes[0].upstream: no upstream is called \"nobody\""
    );
    assert!(
        stage
            .metrics()
            .contains("plimsoll_adapter_routes_config_last_reload_successful 0"),
        "{}",
        stage.metrics()
    );
    assert_eq!(ask(&stage, QUEUE).await, (200, "6".to_owned()));
    stage.leave("").await.unwrap();
    assert_eq!(ask(&stage, QUEUE).await.0, 404);
}

#[tokio::test]
async fn two_adapters_that_leave_the_same_to_each_other_find_out() {
    let (one, two) = (Stage::new(&[]).await, Stage::new(&[]).await);
    for (own, other, name) in [(&one, &two, "two"), (&two, &one, "one")] {
        let authority = own.write("other.crt", &other.servers.pem());
        let upstream = upstream(name, other.address, &authority, "");
        own.leave(&format!("upstreams: [{upstream}]\ndefaultUpstream: {name}"))
            .await
            .unwrap();
    }
    let (code, message) = ask(&one, QUEUE).await;
    assert_eq!(code, 404, "{message}");
    assert!(
        message.starts_with("the metric queue is forwarded to the provider two, but the request has passed this adapter before"),
        "{message}"
    );
    assert!(
        message.ends_with("(asked of one) (asked of two)"),
        "{message}"
    );
    let line =
        r#"plimsoll_adapter_route_requests_total{outcome="loop",route="default",upstream="two"} 1"#;
    assert!(one.metrics().contains(line), "{}", one.metrics());
    assert_eq!(
        two.api.tokens(),
        ["token-of-hpa"],
        "the other one asked who we are"
    );
}
