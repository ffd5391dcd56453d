//! Matchers of a cluster in all requests, and stores of several clusters.

use std::time::Duration;

use jiff::Timestamp;
use sources::prometheus::{
    ClusterCheck, Connection, Credentials, PodLabelSettings, Prometheus, UsageSettings,
};

use super::{Codes, Store, connect_to, connection, window};

const USAGE: &str = "container_cpu_usage_seconds_total{pod!";

/// A client whose queries get these matchers.
async fn connect_with(store: &Store, matchers: &str) -> (Prometheus, Codes) {
    let connection = Connection {
        matchers: matchers.parse().expect("matchers"),
        ..connection(store.serve().await, Credentials::None)
    };
    connect_to(&connection).await
}

#[tokio::test]
async fn every_request_has_the_matchers() {
    let store = Store::new(USAGE);
    let (client, _) = connect_with(&store, r#"cluster="eu",env!="dev""#).await;
    let (usage, labels) = (UsageSettings::default(), PodLabelSettings::default());
    let layout = client.detect(&usage, &labels, window()).await;
    let series = layout.expect("a layout").cpu.expect("CPU");
    let usage = client.read_usage(&series, "shop", window(), |_| ()).await;
    usage.expect("usage");
    let labels = PodLabelSettings::default().candidates().remove(1);
    let labels = client.read_pod_labels(&labels, "shop", window()).await;
    labels.expect("labels");
    let tenant = r#"sum(rate(a{cluster="us"}[5m])) or b"#;
    let expression = client.read_expression(tenant, window()).await;
    expression.expect("an answer");
    let now = Timestamp::UNIX_EPOCH;
    let shapes = client.shapes(r#"{__name__=~"^http_.*"}"#, now).await;
    shapes.expect("shapes");
    let probe = client.query("vector(1)", Duration::from_secs(9)).await;
    probe.expect("a value");
    let asked = store.asked.lock().expect("no panic");
    let paths = ["query_range", "query", "series", "label/__name__/values"];
    for path in paths.map(|path| format!("/tenant/a/api/v1/{path}")) {
        assert!(asked.iter().any(|(asked, _)| *asked == path), "{path}");
    }
    let matchers = r#"cluster="eu",env!="dev"}"#;
    for (path, text) in asked.iter() {
        let selectors = text.matches('{').count();
        assert_eq!(text.matches(matchers).count(), selectors, "{path} {text}");
    }
    let both = r#"a{cluster="us",cluster="eu",env!="dev"}"#;
    assert!(asked.iter().any(|(_, text)| text.contains(both)));
}

#[tokio::test]
async fn a_query_that_cannot_get_the_matchers_is_not_sent() {
    let store = Store::new(USAGE);
    let (client, _) = connect_with(&store, r#"cluster="eu""#).await;
    let read = client.read_expression("info(up)", window()).await;
    let error = read.expect_err("info reads other series");
    assert!(error.to_string().contains("the function info"), "{error}");
    let hidden = "the query cannot get --prometheus-matchers";
    assert_eq!(error.text_for_others(), hidden);
    assert_eq!(*store.asked.lock().expect("no panic"), []);
}

/// `expected`: a part of the error of a store with these values of `cluster` and these series of
/// equal names.
async fn check_clusters(
    clusters: &'static [&'static str],
    equal_names: &'static [&'static str],
    matchers: &str,
    expected: Option<&str>,
) {
    let store = Store {
        clusters,
        equal_names,
        ..Store::new(USAGE)
    };
    let (client, _) = connect_with(&store, matchers).await;
    let (usage, labels) = (UsageSettings::default(), PodLabelSettings::default());
    let detected = client.detect(&usage, &labels, window()).await.map(drop);
    let check = ClusterCheck::default();
    let checked = check.run(&client, Timestamp::UNIX_EPOCH);
    for found in [detected, checked.await] {
        match (&found, expected) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
            _ => panic!("{clusters:?} {matchers}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn a_store_of_several_clusters_is_refused_without_matchers() {
    let two = &["eu", "us"];
    let named = Some(r#"several clusters: cluster is "eu", "us"; set --prometheus-matchers"#);
    check_clusters(&[], &[], "", None).await;
    check_clusters(&["eu"], &[], "", None).await;
    check_clusters(two, &[], "", named).await;
    check_clusters(two, &[], r#"env="prod""#, named).await;
    check_clusters(two, &[], r#"cluster="eu""#, None).await;
    check_clusters(two, &[], r#"cluster=~".+""#, None).await;
    let regions = &[
        r#"{"namespace":"db","pod":"db-0","container":"db","id":"/a","region":"1"}"#,
        r#"{"namespace":"db","pod":"db-0","container":"db","id":"/b","region":"2"}"#,
    ];
    check_clusters(&["eu"], regions, "", Some(r#"region is "1", "2""#)).await;
    check_clusters(&["eu"], regions, r#"region="1""#, None).await;
    let replicas = &[
        r#"{"namespace":"db","pod":"db-0","container":"db","id":"/a","replica":"1"}"#,
        r#"{"namespace":"db","pod":"db-0","container":"db","id":"/a","replica":"2"}"#,
    ];
    check_clusters(&["eu"], replicas, "", None).await;
}

#[tokio::test]
async fn clusters_are_looked_for_once_in_ten_minutes() {
    let store = Store::new(USAGE);
    let (client, codes) = store.connect().await;
    let check = ClusterCheck::default();
    let mut requests = Vec::new();
    for _ in 0..3 {
        let checked = check.run(&client, Timestamp::UNIX_EPOCH).await;
        checked.expect("one cluster");
        requests.push(codes.lock().expect("no panic").len());
    }
    // Two candidates for usage, four labels, and a comparison.
    assert_eq!(requests, [7, 7, 7]);
}
