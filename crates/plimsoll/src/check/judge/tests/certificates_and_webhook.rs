//! Faults of certificates and of the webhook's registration.

use serde_json::json;

use super::super::*;
use super::fixture::{certificate, certificate_fact, registration};
use super::{check, check_in};
use crate::check::facts::StoredChain;
use crate::json::tests::parse;

fn set_end(facts: &mut Facts, end: &str) {
    let pem = certificate(end);
    facts.certificates = vec![certificate_fact(&pem)];
    facts.webhooks = Ok(vec![parse(registration(&pem, "Ignore", "suite"))]);
}

#[test]
fn faults_of_certificates_are_named() {
    let check = |plant: fn(&mut Facts), expected: [&str; 2]| {
        check_in(Extent::Installed, plant, &expected);
    };
    let soon = |facts: &mut Facts| set_end(facts, "2026-11-05");
    check_in(
        Extent::Installed,
        soon,
        &["Warning certificate-vpa-tls-certs: in 3 days"],
    );
    check(
        |facts| set_end(facts, "2026-10-01"),
        [
            "Error certificate-vpa-tls-certs: expired at 2026-10-01",
            "Error webhook-ca-bundle: the certificate has expired",
        ],
    );
    let no_certificate = "Skipped webhook-ca-bundle: no certificate";
    check(
        |facts| facts.certificates[0].chain = Ok(StoredChain::NoSecret),
        ["Error certificate-vpa-tls-certs: missing", no_certificate],
    );
    let invalid = "Error certificate-vpa-tls-certs: serverCert.pem has no certificate";
    check(
        |facts| facts.certificates[0].chain = Ok(StoredChain::Invalid),
        [invalid, no_certificate],
    );
    check(
        |facts| {
            facts.certificates[0].entry.entry = "tls.crt";
            facts.certificates[0].entry.is_optional = true;
            facts.certificates[0].chain = Ok(StoredChain::NoSecret);
        },
        [
            "Skipped certificate-vpa-tls-certs: runs without",
            "Skipped webhook-ca-bundle: not in a Secret",
        ],
    );
}

#[test]
fn faults_of_the_webhook_are_named() {
    let with = |bundle: Option<String>, policy: &'static str| {
        move |facts: &mut Facts| {
            let own = certificate("2027-01-01");
            facts.certificates = vec![certificate_fact(&own)];
            let registration = registration(&bundle.unwrap_or(own), policy, "suite");
            facts.webhooks = Ok(vec![parse(registration)]);
        }
    };
    check(
        with(None, "Fail"),
        "Warning webhook-failure-policy: no pod starts",
    );
    let empty = Some(String::new());
    check(with(empty, "Ignore"), "Error webhook-ca-bundle: empty");
    let foreign = Some(certificate("2027-01-01"));
    check(
        with(foreign, "Ignore"),
        "Error webhook-ca-bundle: rejects the certificate",
    );
    let gone = |facts: &mut Facts| facts.webhooks = Ok(Vec::new());
    check(gone, &format!("Error webhook-registered: {CONFIGURATION}"));
    let endpoints = |count| move |facts: &mut Facts| facts.services[0].1 = Ok(count);
    check(endpoints(None), "Error webhook-service: does not exist");
    check(
        endpoints(Some(0)),
        "Error webhook-service: no ready endpoint",
    );
    let rival = |name: &'static str| {
        move |facts: &mut Facts| {
            let webhook = json!({
                "name": "a", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {}, "rules": [{"resources": ["pods"]}],
            });
            let rival = json!({"metadata": {"name": name}, "webhooks": [webhook]});
            facts
                .webhooks
                .as_mut()
                .expect("webhooks")
                .push(parse(rival));
        }
    };
    check(rival("craned"), "Warning webhook-rivals: craned");
    // The name is no part of a known product's.
    check_in(Extent::Installed, rival("mesh"), &[]);
}
