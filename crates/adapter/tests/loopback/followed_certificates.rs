//! Certificates of providers in objects of other programs, which are followed.

use std::net::SocketAddr;

use crate::api_server::Data;
use crate::ca::Ca;
use crate::fixture::{Fixture, QUEUE};
use crate::operator::{Operator, Replies};
use crate::provider::{Behaviour, Provider};
use crate::routes::ask;

const READ: &str = "plimsoll_adapter_upstream_certificates_last_read_successful";

/// Forwards all requests to an upstream whose CA is in a Secret.
async fn follow(fixture: &Fixture, address: SocketAddr) {
    let secret = "{secret: {namespace: other, name: certs}}";
    let text = format!(
        "upstreams: [{{name: another, url: 'https://{address}', serverName: localhost, caFrom: {secret}}}]\ndefaultUpstream: another"
    );
    fixture.set_routes(&text).await.unwrap();
}

fn set_ca(fixture: &Fixture, text: &str) {
    let data: Data = [("ca.crt", text.to_owned())].into();
    fixture.api.set_secret("other", "certs", Some(&data));
}

/// A metric that was not requested before has no last response.
async fn check(fixture: &Fixture, metric: &str, expected: (u16, &str)) {
    fixture.routes.reload().await.unwrap();
    let (code, text) = ask(fixture, &QUEUE.replace("queue", metric)).await;
    assert!(
        code == expected.0 && text.contains(expected.1),
        "{code} {text}\ninstead of {expected:?}"
    );
}

#[tokio::test]
async fn a_provider_may_replace_its_ca_before_or_after_its_certificate() {
    let fixture = Fixture::new(&[]).await;
    let old = Provider::start(Behaviour::Returns(1)).await;
    set_ca(&fixture, &old.authority.pem());
    follow(&fixture, old.address).await;
    check(&fixture, "first", (200, "1")).await;
    fixture.check_metrics(&format!("{READ}{{upstream=\"another\"}} 1"));

    let new = Provider::start(Behaviour::Returns(2)).await;
    set_ca(&fixture, &new.authority.pem());
    check(&fixture, "before", (200, "1")).await;
    follow(&fixture, new.address).await;
    check(&fixture, "after", (200, "2")).await;

    let third = Provider::start(Behaviour::Returns(3)).await;
    follow(&fixture, third.address).await;
    check(&fixture, "early", (503, "the connection failed")).await;
    set_ca(&fixture, &third.authority.pem());
    check(&fixture, "late", (200, "3")).await;
}

#[tokio::test]
async fn the_last_valid_ca_is_kept_while_the_object_cannot_be_read() {
    let fixture = Fixture::new(&[]).await;
    let provider = Provider::start(Behaviour::Returns(1)).await;
    follow(&fixture, provider.address).await;
    let public = "its certificates or settings are not valid";
    check(&fixture, "none", (503, public)).await;
    fixture.check_metrics(&format!("{READ}{{upstream=\"another\"}} 0"));

    set_ca(&fixture, &provider.authority.pem());
    check(&fixture, "first", (200, "1")).await;
    set_ca(&fixture, "half a certificate");
    check(&fixture, "invalid", (200, "1")).await;
    fixture.check_metrics(&format!("{READ}{{upstream=\"another\"}} 0"));
    fixture.api.set_secret("other", "certs", None);
    check(&fixture, "deleted", (200, "1")).await;
    fixture.check_metrics(&format!("{READ}{{upstream=\"another\"}} 0"));
    set_ca(&fixture, &provider.authority.pem());
    check(&fixture, "restored", (200, "1")).await;
    fixture.check_metrics(&format!("{READ}{{upstream=\"another\"}} 1"));

    fixture.set_routes("upstreams: []").await.unwrap();
    let metrics = fixture.metrics();
    assert!(!metrics.contains(&format!("{READ}{{")), "{metrics}");
}

/// The entries of the Secret `kedaorg-certs`.
fn set_certs(fixture: &Fixture, authority: &Ca) {
    let own = authority.client("keda-operator");
    let data: Data = [
        ("ca.crt", authority.pem()),
        ("tls.crt", own.pem.0),
        ("tls.key", own.pem.1),
    ]
    .into();
    fixture.api.set_secret("keda", "kedaorg-certs", Some(&data));
}

#[tokio::test]
async fn all_certificates_for_kedas_operator_may_be_in_its_secret() {
    let fixture = Fixture::new(&[]).await;
    let operators = [
        Operator::start(Replies::With("1")).await,
        Operator::start(Replies::With("2")).await,
    ];
    let selector = "?labelSelector=scaledobject.keda.sh%2Fname%3Dorders";
    for (operator, expected) in operators.iter().zip(["1", "2"]) {
        set_certs(&fixture, &operator.authority);
        let address = operator.door.address;
        let secret = "{secret: {namespace: keda, name: kedaorg-certs}}";
        let text = format!(
            "upstreams: [{{name: keda, kind: keda-grpc, url: 'https://{address}', serverName: localhost, caFrom: {secret}, certFrom: {secret}}}]"
        );
        fixture.set_routes(&text).await.unwrap();
        let metric = format!("metric{expected}{selector}");
        check(&fixture, &metric, (200, expected)).await;
    }
    fixture.api.set_secret("keda", "kedaorg-certs", None);
    check(&fixture, &format!("metric3{selector}"), (200, "2")).await;
}
