//! Changed, missing and invalid authentication settings.

use adapter::metrics::PREFIX;
use anyhow::ensure;
use delegated_auth::DelegatedAuth;
use prometheus::Registry;
use runtime::Readiness;
use testing::{Pace, eventually};

use crate::api_server::ApiServer;
use crate::ca::Ca;
use crate::fixture::{Connection, Fixture, configuration, flags};

const NAMES: &str = r#"["front-proxy-client"]"#;

/// Repeats a request until its status code is `expected`. The watch is asynchronous.
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
async fn ca_changes_apply_to_open_connections() {
    let fixture = Fixture::new(&[]).await;
    let next = Ca::new("next proxies");
    let said = ["X-Remote-User: joe"];
    let (mut old, mut new) = (
        fixture.proxy().await,
        fixture
            .connect(Some(&next.client("front-proxy-client")))
            .await,
    );
    assert_eq!((old.queue(&said).await, new.queue(&said).await), (403, 401));
    let both = fixture.proxies.pem() + &next.pem();
    fixture
        .api
        .configure(configuration(&both, &fixture.clients.pem(), NAMES));
    becomes(&mut new, &said, 403).await;
    assert_eq!(old.queue(&said).await, 403);
    fixture
        .api
        .configure(configuration(&next.pem(), &fixture.clients.pem(), NAMES));
    becomes(&mut old, &said, 401).await;
    assert_eq!(new.queue(&said).await, 403);
}

#[tokio::test]
async fn changes_of_allowed_names_apply_to_open_connections() {
    let fixture = Fixture::new(&[]).await;
    let said = ["X-Remote-User: joe"];
    let mut proxy = fixture.proxy().await;
    assert_eq!(proxy.queue(&said).await, 403);
    fixture.api.configure(configuration(
        &fixture.proxies.pem(),
        &fixture.clients.pem(),
        r#"["another"]"#,
    ));
    becomes(&mut proxy, &said, 401).await;
}

#[tokio::test]
async fn invalid_settings_keep_the_last_valid_ones() {
    let fixture = Fixture::new(&[]).await;
    let said = ["X-Remote-User: joe"];
    let mut proxy = fixture.proxy().await;
    fixture
        .api
        .configure(configuration("nonsense", &fixture.clients.pem(), NAMES));
    // A later change shows that the invalid one has been read.
    let next = Ca::new("next clients");
    let mut client = fixture.connect(Some(&next.client("jane"))).await;
    assert_eq!(
        (proxy.queue(&said).await, client.queue(&[]).await),
        (403, 401)
    );
    fixture
        .api
        .configure(configuration(&fixture.proxies.pem(), &next.pem(), NAMES));
    becomes(&mut client, &[], 403).await;
    assert_eq!(proxy.queue(&said).await, 403);
}

#[tokio::test]
async fn a_missing_ca_bundle_keeps_the_last_known_and_is_reported() {
    let fixture = Fixture::new(&[]).await;
    let said = ["X-Remote-User: joe"];
    let next = Ca::new("next clients");
    let (mut proxy, mut client) = (
        fixture.proxy().await,
        fixture.connect(Some(&next.client("jane"))).await,
    );
    assert_eq!(
        (proxy.queue(&said).await, client.queue(&[]).await),
        (403, 401)
    );
    let mut configured = configuration(&fixture.proxies.pem(), &next.pem(), NAMES);
    configured.remove("requestheader-client-ca-file");
    fixture.api.configure(configured);
    becomes(&mut client, &[], 403).await;
    assert_eq!(proxy.queue(&said).await, 403);
    assert_eq!(
        fixture
            .connect(Some(&fixture.proxies.client("other-proxy")))
            .await
            .queue(&said)
            .await,
        401,
        "nor are the names"
    );
    let (code, report) = fixture
        .connect(None)
        .await
        .get("/readyz?verbose", &[])
        .await;
    assert!(
        code == 200 && report.contains("has no requestheader-client-ca-file any more"),
        "{code} {report}"
    );
}

#[tokio::test]
async fn without_settings_no_front_proxy_is_trusted_and_it_is_reported() {
    let fixture = Fixture::with(&[], |_, _| None).await;
    let mut proxy = fixture.proxy().await;
    assert_eq!(proxy.queue(&["X-Remote-User: hpa"]).await, 403);
    assert_eq!(
        fixture.api.reviews().last().unwrap()["user"],
        "system:anonymous"
    );
    assert!(
        fixture
            .metrics()
            .contains("plimsoll_adapter_front_proxy_configured 0"),
        "{}",
        fixture.metrics()
    );
    let (code, report) = fixture
        .connect(None)
        .await
        .get("/readyz?verbose", &[])
        .await;
    assert!(
        code == 200 && report.starts_with("[+]authentication ok: no requestheader-client-ca-file"),
        "{code} {report}"
    );
    // The API server creates it when aggregation is set up.
    fixture.api.configure(configuration(
        &fixture.proxies.pem(),
        &fixture.clients.pem(),
        NAMES,
    ));
    becomes(&mut proxy, &["X-Remote-User: hpa"], 404).await;
    assert!(
        fixture
            .metrics()
            .contains("plimsoll_adapter_front_proxy_configured 1"),
        "{}",
        fixture.metrics()
    );
}

#[tokio::test]
async fn the_error_of_a_denied_lookup_names_the_role() {
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
