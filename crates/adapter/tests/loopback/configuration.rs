//! Whom to trust changes, is missing, or is nonsense.

use adapter::metrics::PREFIX;
use anyhow::ensure;
use delegated_auth::DelegatedAuth;
use eventually::{Pace, eventually};
use prometheus::Registry;
use runtime::Readiness;

use crate::api_server::ApiServer;
use crate::authority::Authority;
use crate::stage::{Connection, Stage, configuration, flags};

const NAMES: &str = r#"["front-proxy-client"]"#;

/// Asks until the answer is this one. The watch tells of a change in its own time.
pub(crate) async fn becomes(connection: &mut Connection, headers: &[&str], expected: u16) {
    let asking = eventually(
        format!("the code is {expected}"),
        Pace::WITHIN,
        async || {
            let code = connection.queue(headers).await;
            ensure!(code == expected, "{code}");
            Ok(())
        },
    );
    asking.await.unwrap();
}

#[tokio::test]
async fn authorities_change_under_connections_that_live() {
    let stage = Stage::new(&[]).await;
    let next = Authority::new("next proxies");
    let said = ["X-Remote-User: joe"];
    let (mut old, mut new) = (
        stage.proxy().await,
        stage
            .connect(Some(&next.client("front-proxy-client")))
            .await,
    );
    assert_eq!((old.queue(&said).await, new.queue(&said).await), (403, 401));
    let both = stage.proxies.pem() + &next.pem();
    stage
        .api
        .configure(configuration(&both, &stage.clients.pem(), NAMES));
    becomes(&mut new, &said, 403).await;
    assert_eq!(old.queue(&said).await, 403);
    stage
        .api
        .configure(configuration(&next.pem(), &stage.clients.pem(), NAMES));
    becomes(&mut old, &said, 401).await;
    assert_eq!(new.queue(&said).await, 403);
}

#[tokio::test]
async fn names_change_under_connections_that_live() {
    let stage = Stage::new(&[]).await;
    let said = ["X-Remote-User: joe"];
    let mut proxy = stage.proxy().await;
    assert_eq!(proxy.queue(&said).await, 403);
    stage.api.configure(configuration(
        &stage.proxies.pem(),
        &stage.clients.pem(),
        r#"["another"]"#,
    ));
    becomes(&mut proxy, &said, 401).await;
}

#[tokio::test]
async fn what_cannot_be_used_leaves_the_last_that_could() {
    let stage = Stage::new(&[]).await;
    let said = ["X-Remote-User: joe"];
    let mut proxy = stage.proxy().await;
    stage
        .api
        .configure(configuration("nonsense", &stage.clients.pem(), NAMES));
    // Told by the next change, which comes after the nonsense.
    let next = Authority::new("next clients");
    let mut client = stage.connect(Some(&next.client("jane"))).await;
    assert_eq!(
        (proxy.queue(&said).await, client.queue(&[]).await),
        (403, 401)
    );
    stage
        .api
        .configure(configuration(&stage.proxies.pem(), &next.pem(), NAMES));
    becomes(&mut client, &[], 403).await;
    assert_eq!(proxy.queue(&said).await, 403);
}

#[tokio::test]
async fn authorities_that_are_taken_out_stand_and_it_is_said() {
    let stage = Stage::new(&[]).await;
    let said = ["X-Remote-User: joe"];
    let next = Authority::new("next clients");
    let (mut proxy, mut client) = (
        stage.proxy().await,
        stage.connect(Some(&next.client("jane"))).await,
    );
    assert_eq!(
        (proxy.queue(&said).await, client.queue(&[]).await),
        (403, 401)
    );
    let mut configured = configuration(&stage.proxies.pem(), &next.pem(), NAMES);
    configured.remove("requestheader-client-ca-file");
    stage.api.configure(configured);
    becomes(&mut client, &[], 403).await;
    assert_eq!(proxy.queue(&said).await, 403);
    assert_eq!(
        stage
            .connect(Some(&stage.proxies.client("somebody")))
            .await
            .queue(&said)
            .await,
        401,
        "nor are the names"
    );
    let (code, report) = stage.connect(None).await.get("/readyz?verbose", &[]).await;
    assert!(
        code == 200 && report.contains("has no requestheader-client-ca-file any more"),
        "{code} {report}"
    );
}

#[tokio::test]
async fn without_a_configuration_no_proxy_is_believed_and_it_is_said() {
    let stage = Stage::with(&[], |_, _| None).await;
    let mut proxy = stage.proxy().await;
    assert_eq!(proxy.queue(&["X-Remote-User: hpa"]).await, 403);
    assert_eq!(
        stage.api.reviews().last().unwrap()["user"],
        "system:anonymous"
    );
    assert!(
        stage
            .metrics()
            .contains("plimsoll_adapter_front_proxy_configured 0"),
        "{}",
        stage.metrics()
    );
    let (code, report) = stage.connect(None).await.get("/readyz?verbose", &[]).await;
    assert!(
        code == 200 && report.starts_with("[+]authentication ok: no requestheader-client-ca-file"),
        "{code} {report}"
    );
    // The API server writes it once aggregation is set up.
    stage.api.configure(configuration(
        &stage.proxies.pem(),
        &stage.clients.pem(),
        NAMES,
    ));
    becomes(&mut proxy, &["X-Remote-User: hpa"], 404).await;
    assert!(
        stage
            .metrics()
            .contains("plimsoll_adapter_front_proxy_configured 1"),
        "{}",
        stage.metrics()
    );
}

#[tokio::test]
async fn whoever_may_not_read_the_configuration_is_told_what_to_do() {
    let api = ApiServer::start(None).await;
    api.known.forbids.send_replace(true);
    let auth = DelegatedAuth::new(
        flags(&[]),
        api.client.clone(),
        &Registry::new(),
        PREFIX,
        &Readiness::default(),
    )
    .unwrap();
    let error = auth.load().await.unwrap_err().to_string();
    assert!(
        error.contains("extension-apiserver-authentication-reader")
            && error.contains("RoleBinding"),
        "{error}"
    );
}
