//! Changed, missing and invalid authentication settings.

use anyhow::ensure;
use prometheus::Registry;
use runtime::Readiness;
use testing::{Pace, eventually};

use crate::api_server::ApiServer;
use crate::ca::Ca;
use crate::fixture::{Connection, Fixture, authentication, configuration};

const JOE: [&str; 1] = ["X-Remote-User: joe"];

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
    let next_proxy = next.client("front-proxy-client");
    let (mut old, mut new) = (
        fixture.proxy().await,
        fixture.connect(Some(&next_proxy)).await,
    );
    assert_eq!((old.queue(&JOE).await, new.queue(&JOE).await), (403, 401));
    let clients = fixture.clients.pem();
    fixture.configure(&(fixture.proxies.pem() + &next.pem()), &clients);
    becomes(&mut new, &JOE, 403).await;
    assert_eq!(old.queue(&JOE).await, 403);
    fixture.configure(&next.pem(), &clients);
    becomes(&mut old, &JOE, 401).await;
    assert_eq!(new.queue(&JOE).await, 403);
}

#[tokio::test]
async fn changes_of_allowed_names_apply_to_open_connections() {
    let fixture = Fixture::new(&[]).await;
    let mut proxy = fixture.proxy().await;
    assert_eq!(proxy.queue(&JOE).await, 403);
    let (proxies, clients) = (fixture.proxies.pem(), fixture.clients.pem());
    let configured = configuration(&proxies, &clients, r#"["another"]"#);
    fixture.api.configure(configured);
    becomes(&mut proxy, &JOE, 401).await;
}

/// Waits until the last change is reported.
async fn is_reported(fixture: &Fixture, text: &str) {
    let reported = eventually(format!("{text} is reported"), Pace::WITHIN, async || {
        let (code, report) = fixture.get("/readyz?verbose").await;
        ensure!(code == 200 && report.contains(text), "{code} {report}");
        Ok(())
    });
    reported.await.unwrap();
}

#[tokio::test]
async fn invalid_settings_keep_the_last_valid_ones() {
    let fixture = Fixture::new(&[]).await;
    let mut proxy = fixture.proxy().await;
    assert_eq!(proxy.queue(&JOE).await, 403);
    fixture.configure("nonsense", &fixture.clients.pem());
    is_reported(&fixture, "the last authentication settings are not valid").await;
    assert_eq!(proxy.queue(&JOE).await, 403);
}

#[tokio::test]
async fn a_missing_ca_bundle_keeps_the_last_known_and_is_reported() {
    let fixture = Fixture::new(&[]).await;
    let mut proxy = fixture.proxy().await;
    assert_eq!(proxy.queue(&JOE).await, 403);
    let (proxies, clients) = (fixture.proxies.pem(), fixture.clients.pem());
    let mut configured = configuration(&proxies, &clients, r#"["other-proxy"]"#);
    configured.remove("requestheader-client-ca-file");
    fixture.api.configure(configured);
    is_reported(&fixture, "has no requestheader-client-ca-file any more").await;
    assert_eq!(proxy.queue(&JOE).await, 403);
    let other = fixture.proxies.client("other-proxy");
    let code = fixture.connect(Some(&other)).await.queue(&JOE).await;
    assert_eq!(code, 401, "nor are the names");
}

#[tokio::test]
async fn without_settings_no_front_proxy_is_trusted_and_it_is_reported() {
    let fixture = Fixture::with(&[], |_, _| None).await;
    let mut proxy = fixture.proxy().await;
    assert_eq!(proxy.queue(&["X-Remote-User: hpa"]).await, 403);
    assert_eq!(fixture.last_user(), "system:anonymous");
    fixture.check_metrics("plimsoll_adapter_front_proxy_configured 0");
    let (code, report) = fixture.get("/readyz?verbose").await;
    assert!(
        code == 200 && report.starts_with("[+]authentication ok: no requestheader-client-ca-file"),
        "{code} {report}"
    );
    // The API server creates it when aggregation is set up.
    fixture.configure(&fixture.proxies.pem(), &fixture.clients.pem());
    becomes(&mut proxy, &["X-Remote-User: hpa"], 404).await;
    fixture.check_metrics("plimsoll_adapter_front_proxy_configured 1");
}

#[tokio::test]
async fn the_error_of_a_denied_lookup_names_the_role() {
    let api = ApiServer::start(None).await;
    api.known.forbids.send_replace(true);
    let auth = authentication(&[], &api, &Registry::new(), &Readiness::default());
    let error = format!("{:#}", auth.load().await.unwrap_err());
    assert!(
        error.contains("extension-apiserver-authentication-reader")
            && error.contains("RoleBinding"),
        "{error}"
    );
}
