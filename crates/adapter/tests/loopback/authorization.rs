//! Access reviews: their attributes and their number.

use serde_json::{Value, json};

use crate::fixture::{Fixture, QUEUE};

fn metric(name: usize) -> String {
    format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/metric-{name}")
}

async fn read(fixture: &Fixture, user: &str, metrics: usize) -> Vec<u16> {
    let mut proxy = fixture.proxy().await;
    let said = format!("X-Remote-User: {user}");
    let mut codes = Vec::new();
    for name in 0..metrics {
        codes.push(proxy.get(&metric(name), &[&said]).await.0);
    }
    codes.sort_unstable();
    codes.dedup();
    codes
}

#[tokio::test]
async fn a_user_with_access_to_all_metrics_is_reviewed_once() {
    let fixture = Fixture::new(&[]).await;
    assert_eq!(read(&fixture, "hpa", 50).await, [404]);
    let asked = fixture.api.reviews();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let everything = json!({"group": "external.metrics.k8s.io", "resource": "*", "verb": "list", "version": "*"});
    assert_eq!(asked[0]["resourceAttributes"], everything);
}

#[tokio::test]
async fn other_users_are_reviewed_for_each_metric() {
    let fixture = Fixture::new(&[]).await;
    assert_eq!(read(&fixture, "reader", 5).await, [404]);
    let asked = fixture.api.reviews();
    assert_eq!(asked.len(), 6, "{asked:?}");
    let own = json!({
        "group": "external.metrics.k8s.io", "resource": "metric-4", "verb": "list", "version": "v1beta1", "namespace": "shop",
    });
    assert_eq!(asked[5]["resourceAttributes"], own);
    assert_eq!(read(&fixture, "reader", 5).await, [404]);
    assert_eq!(fixture.api.reviews().len(), 0, "all are cached");
    assert_eq!(read(&fixture, "jane", 1).await, [403]);
}

#[tokio::test]
async fn masters_are_not_reviewed() {
    let fixture = Fixture::new(&[]).await;
    let master = [
        "X-Remote-User: system:kube-aggregator",
        "X-Remote-Group: system:masters",
    ];
    let code = fixture.proxy().await.queue(&master).await;
    assert_eq!((code, fixture.api.reviews()), (404, Vec::new()));
}

#[tokio::test]
async fn a_failed_review_denies_and_is_not_cached() {
    let fixture = Fixture::new(&[]).await;
    fixture.api.known.hangs.send_replace(true);
    let mut proxy = fixture.proxy().await;
    let (code, body) = proxy.get(QUEUE, &["X-Remote-User: hpa"]).await;
    assert_eq!(code, 403, "{body}");
    let status: Value = serde_json::from_str(&body).unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("no answer from the API server within 3s"),
        "{message}"
    );
    fixture.api.known.hangs.send_replace(false);
    assert_eq!(proxy.queue(&["X-Remote-User: hpa"]).await, 404);
}
