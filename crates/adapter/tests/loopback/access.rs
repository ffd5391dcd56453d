//! What the API server is asked about callers, and how often.

use delegated_auth::{Attributes, AuthMethod, User};
use serde_json::{Value, json};

use crate::stage::{QUEUE, Stage};

fn metric(name: usize) -> String {
    format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/metric-{name}")
}

async fn read(stage: &Stage, user: &str, metrics: usize) -> Vec<u16> {
    let mut proxy = stage.proxy().await;
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
async fn whoever_may_read_everything_is_asked_about_once() {
    let stage = Stage::new(&[]).await;
    assert_eq!(read(&stage, "hpa", 50).await, [404]);
    let asked = stage.api.reviews();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let everything = json!({"group": "external.metrics.k8s.io", "resource": "*", "verb": "list", "version": "*"});
    assert_eq!(asked[0]["resourceAttributes"], everything);
}

#[tokio::test]
async fn whoever_may_not_is_asked_about_for_each_thing() {
    let stage = Stage::new(&[]).await;
    assert_eq!(read(&stage, "reader", 5).await, [404]);
    let asked = stage.api.reviews();
    assert_eq!(asked.len(), 6, "{asked:?}");
    let own = json!({
        "group": "external.metrics.k8s.io", "resource": "metric-4", "verb": "list", "version": "v1beta1", "namespace": "shop",
    });
    assert_eq!(asked[5]["resourceAttributes"], own);
    assert_eq!(read(&stage, "reader", 5).await, [404]);
    assert_eq!(
        stage.api.reviews(),
        Vec::<Value>::new(),
        "all of it is remembered"
    );
    assert_eq!(read(&stage, "nobody", 1).await, [403]);
}

#[tokio::test]
async fn everything_by_itself_means_so() {
    let stage = Stage::new(&["--authorization-mode=sar"]).await;
    assert_eq!(read(&stage, "hpa", 20).await, [404]);
    assert_eq!(stage.api.reviews().len(), 20);
}

#[tokio::test]
async fn where_the_proxy_is_trusted_nothing_is_asked_until_something_is_passed_on() {
    let stage = Stage::new(&["--authorization-mode=trust-front-proxy"]).await;
    assert_eq!(read(&stage, "nobody", 5).await, [404]);
    assert_eq!(stage.api.reviews(), Vec::<Value>::new());
    let mut direct = stage.connect(Some(&stage.clients.client("nobody"))).await;
    assert_eq!(direct.queue(&[]).await, 403, "trust is for the proxy only");
    let user = User {
        name: "nobody".to_owned(),
        method: AuthMethod::FrontProxy,
        ..User::default()
    };
    let attributes = Attributes::Resource {
        namespace: Some("shop".to_owned()),
        verb: "list",
        group: "external.metrics.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        resource: "queue".to_owned(),
        subresource: None,
        name: None,
    };
    let refusal = stage
        .auth
        .ensure_reviewed(&user, &attributes)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refusal.starts_with("queue.external.metrics.k8s.io is forbidden: User \"nobody\""),
        "{refusal}"
    );
}

#[tokio::test]
async fn administrators_are_not_asked_about() {
    let stage = Stage::new(&[]).await;
    let code = stage
        .proxy()
        .await
        .queue(&[
            "X-Remote-User: system:kube-aggregator",
            "X-Remote-Group: system:masters",
        ])
        .await;
    assert_eq!((code, stage.api.reviews()), (404, Vec::new()));
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_lets_nobody_in_and_nothing_is_remembered() {
    let stage = Stage::new(&[]).await;
    stage.api.known.hangs.send_replace(true);
    let (code, body) = stage
        .proxy()
        .await
        .get(QUEUE, &["X-Remote-User: hpa"])
        .await;
    assert_eq!(code, 403, "{body}");
    let status: Value = serde_json::from_str(&body).unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("no answer from the API server within 3s"),
        "{message}"
    );
    stage.api.known.hangs.send_replace(false);
    assert_eq!(
        stage.proxy().await.queue(&["X-Remote-User: hpa"]).await,
        404
    );
}
