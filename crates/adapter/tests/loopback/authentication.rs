//! Authentication. The user in the access review shows the result.

use std::time::{Duration, Instant, SystemTime};

use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

use crate::ca::{Ca, CertificateSpec, Identity};
use crate::fixture::{Fixture, QUEUE, configuration, usual};

/// Headers that claim to be an administrator.
const CLAIM: [&str; 2] = [
    "X-Remote-User: system:admin",
    "X-Remote-Group: system:masters",
];

/// Returns the user and the groups of the last access review, separated by spaces.
fn reviewed_user(fixture: &Fixture) -> String {
    let asked = fixture.api.reviews();
    let spec = asked.last().expect("nothing was asked");
    let groups = spec["groups"].as_array().expect("groups");
    let words = std::iter::once(&spec["user"]).chain(groups);
    let words: Vec<_> = words.map(|word| word.as_str().unwrap()).collect();
    words.join(" ")
}

/// Sends a request that is denied; returns the reviewed user.
async fn denied_user(fixture: &Fixture, shown: Option<&Identity>, headers: &[&str]) -> String {
    assert_eq!(fixture.connect(shown).await.queue(headers).await, 403);
    reviewed_user(fixture)
}

/// Checks the user of a denied request with a certificate. It is authenticated.
async fn check_user(fixture: &Fixture, shown: &Identity, headers: &[&str], expected: &str) {
    let found = denied_user(fixture, Some(shown), headers).await;
    assert_eq!(found, format!("{expected} system:authenticated"));
}

async fn check_refused(fixture: &Fixture, shown: &Identity, headers: &[&str]) {
    let (code, body) = fixture.connect(Some(shown)).await.get(QUEUE, headers).await;
    assert_eq!(code, 401, "{body}");
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&status["kind"], &status["reason"]),
        (&json!("Status"), &json!("Unauthorized"))
    );
    assert_eq!(fixture.api.reviews(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_caller_without_credentials_is_anonymous_whatever_its_headers() {
    let fixture = Fixture::new(&[]).await;
    let found = denied_user(&fixture, None, &CLAIM).await;
    assert_eq!(found, "system:anonymous system:unauthenticated");
    let fixture = Fixture::new(&["--anonymous-auth=false"]).await;
    assert_eq!(fixture.connect(None).await.queue(&CLAIM).await, 401);
    assert_eq!(fixture.api.reviews(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_client_with_a_certificate_of_its_own_is_refused() {
    let fixture = Fixture::new(&[]).await;
    check_refused(&fixture, &fixture.clients.client("jane"), &CLAIM).await;
}

#[tokio::test]
async fn with_a_shared_ca_the_common_name_identifies_front_proxies() {
    let fixture = Fixture::with(&[], |proxies, _| Some(usual(proxies, proxies))).await;
    check_refused(&fixture, &fixture.proxies.client("jane"), &CLAIM).await;
    let proxy = fixture.proxies.client("front-proxy-client");
    check_user(&fixture, &proxy, &["X-Remote-User: joe"], "joe").await;
}

#[tokio::test]
async fn a_certificate_of_the_front_proxy_ca_with_another_name_is_rejected() {
    let fixture = Fixture::new(&[]).await;
    check_refused(&fixture, &fixture.proxies.client("other-proxy"), &CLAIM).await;
    // Unless the caller has another valid credential.
    let token = ["Authorization: Bearer token-of-joe", CLAIM[0]];
    let other_proxy = fixture.proxies.client("other-proxy");
    check_user(&fixture, &other_proxy, &token, "joe of-tokens").await;
}

#[tokio::test]
async fn without_allowed_names_any_name_is_accepted() {
    let fixture = Fixture::with(&[], |proxies, clients| {
        Some(configuration(&proxies.pem(), &clients.pem(), "[]"))
    })
    .await;
    let other_proxy = fixture.proxies.client("other-proxy");
    check_user(&fixture, &other_proxy, &["X-Remote-User: joe"], "joe").await;
}

#[tokio::test]
async fn invalid_certificates_are_rejected() {
    let fixture = Fixture::new(&[]).await;
    let named = CertificateSpec {
        common_name: "front-proxy-client",
        ..CertificateSpec::default()
    };
    let own = Ca::new("proxies");
    let ended = CertificateSpec {
        has_ended: true,
        ..named
    };
    let for_servers = CertificateSpec {
        purposes: &[ExtendedKeyUsagePurpose::ServerAuth],
        ..named
    };
    let proxies = &fixture.proxies;
    for (why, identity) in [
        ("another CA", own.issue(&named)),
        ("a CA below another one", own.below("below").issue(&named)),
        ("expired", proxies.issue(&ended)),
        ("for servers", proxies.issue(&for_servers)),
    ] {
        println!("{why}");
        check_refused(&fixture, &identity, &CLAIM).await;
    }
}

#[tokio::test]
async fn a_certificate_without_key_usage_and_one_with_an_intermediate_are_accepted() {
    let fixture = Fixture::new(&[]).await;
    let below = fixture.proxies.below("below");
    for (identity, user) in [
        (fixture.proxies.server("front-proxy-client"), "joe"),
        (below.client("front-proxy-client"), "jane"),
    ] {
        let said = format!("X-Remote-User: {user}");
        check_user(&fixture, &identity, &[&said], user).await;
    }
}

#[tokio::test]
async fn groups_uid_and_extra_headers_reach_the_review() {
    let fixture = Fixture::new(&[]).await;
    let said = [
        "X-REMOTE-USER: joe",
        "x-remote-uid: 17",
        "X-Remote-Group: a",
        "x-Remote-group: b",
        "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id: JTI=1",
    ];
    assert_eq!(fixture.proxy().await.queue(&said).await, 403);
    let asked = fixture.api.reviews();
    let spec = asked.last().unwrap();
    assert_eq!(spec["user"], "joe");
    assert_eq!(spec["uid"], "17");
    assert_eq!(spec["groups"], json!(["a", "b", "system:authenticated"]));
    assert_eq!(
        spec["extra"],
        json!({"authentication.kubernetes.io/credential-id": ["JTI=1"]})
    );
}

#[tokio::test]
async fn http_2_headers_in_lower_case_are_accepted() {
    let fixture = Fixture::new(&[]).await;
    let request = http::Request::get(format!("https://localhost{QUEUE}"))
        .header("x-remote-user", "joe")
        .header("x-remote-group", "a")
        .header("x-remote-group", "b");
    assert_eq!(ask_by_http2(&fixture, request).await, 403);
    assert_eq!(reviewed_user(&fixture), "joe a b system:authenticated");
}

#[tokio::test]
async fn a_thousand_groups_reach_the_review() {
    let fixture = Fixture::new(&[]).await;
    let groups: Vec<String> = (0..1015)
        .map(|number| format!("CN=a-group-of-the-directory,OU={number:040}"))
        .collect();
    let expected = format!("{} system:authenticated", groups.join(" "));
    let mut said = vec!["X-Remote-User: joe".to_owned()];
    said.extend(
        groups
            .iter()
            .map(|group| format!("X-Remote-Group: {group}")),
    );
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    assert_eq!(fixture.proxy().await.queue(&said).await, 403);
    assert_eq!(reviewed_user(&fixture), format!("joe {expected}"));
    let mut request =
        http::Request::get(format!("https://localhost{QUEUE}")).header("x-remote-user", "jane");
    for group in &groups {
        request = request.header("x-remote-group", group);
    }
    assert_eq!(ask_by_http2(&fixture, request).await, 403);
    assert_eq!(reviewed_user(&fixture), format!("jane {expected}"));
}

/// Returns the status code of a front proxy's request.
async fn ask_by_http2(fixture: &Fixture, request: http::request::Builder) -> u16 {
    let identity = fixture.proxies.client("front-proxy-client");
    let stream = TokioIo::new(fixture.open(Some(&identity), b"h2").await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
    let running = tokio::spawn(connection);
    let request = request.body(Empty::<hyper::body::Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    running.abort();
    response.status().as_u16()
}

#[tokio::test]
async fn a_front_proxy_without_a_user_is_unauthorized() {
    let fixture = Fixture::new(&[]).await;
    let group = ["X-Remote-Group: system:masters"];
    assert_eq!(fixture.proxy().await.queue(&group).await, 401);
}

#[tokio::test]
async fn tokens_are_reviewed_once_and_invalid_ones_are_rejected() {
    let fixture = Fixture::new(&[]).await;
    let token = ["Authorization: Bearer token-of-reader", CLAIM[0], CLAIM[1]];
    let asking = (0..8).map(|_| async { fixture.connect(None).await.queue(&token).await });
    for code in futures::future::join_all(asking).await {
        assert!(![401, 403].contains(&code), "{code}");
    }
    assert_eq!(fixture.api.tokens(), ["token-of-reader"]);
    let invalid = ["Authorization: Bearer made-up"];
    for _ in 0..2 {
        assert_eq!(fixture.connect(None).await.queue(&invalid).await, 401);
    }
    let reviewed = fixture.api.tokens();
    assert_eq!(reviewed, ["made-up"], "invalid tokens are cached too");
    fixture.check_metrics(r#"authentication_attempts{result="failure"} 2"#);
    fixture.check_metrics(r#"apiserver_delegated_authn_request_total{code="201"} 2"#);
}

#[tokio::test]
async fn probes_need_no_credentials() {
    let fixture = Fixture::new(&[]).await;
    let stranger = Ca::new("strangers").client("jane");
    for shown in [None, Some(&stranger)] {
        let (code, body) = fixture.connect(shown).await.get("/livez", &[]).await;
        assert_eq!(code, 200, "{body}");
    }
}

#[tokio::test]
async fn client_certificates_are_valid_by_the_api_servers_time() {
    let fixture = Fixture::new(&[]).await;
    let hours = |hours| Duration::from_hours(hours);
    let ended = || {
        fixture.proxies.issue(&CertificateSpec {
            common_name: "front-proxy-client",
            has_ended: true,
            ..CertificateSpec::default()
        })
    };
    let asks = async |identity: Identity| {
        let mut connection = fixture.connect(Some(&identity)).await;
        connection.queue(&["X-Remote-User: hpa"]).await
    };
    assert_eq!(asks(ended()).await, 401);
    let own = SystemTime::now();
    fixture.clock.observe(own - hours(24), own, Instant::now());
    let code = asks(ended()).await;
    assert_eq!(code, 404, "this machine's clock is a day ahead");
    fixture.clock.observe(own + hours(48), own, Instant::now());
    let code = asks(fixture.proxies.client("front-proxy-client")).await;
    assert_eq!(code, 401, "it is two days behind");
}
