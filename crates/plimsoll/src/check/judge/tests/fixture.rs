//! A cluster without faults, and its objects.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::version::Info;
use serde_json::{Value, json};
use serving::certificates::ServedChain;

use super::super::{CONFIGURATION, USE};
use crate::check::facts::{CertificateFact, Facts, PrometheusFact, StoredChain};
use crate::check::objects::ObjectFacts;
use crate::installation::{ObjectName, SecretEntry};
use crate::json::tests::parse;

const NOW: &str = "2026-11-01T12:00:00Z";
const HOST: &str = "vpa-webhook.suite.svc";

pub(super) fn name(namespace: &str, name: &str) -> ObjectName {
    ObjectName::new(namespace, name)
}

pub(super) fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

pub(super) fn deployment(program: &str, tag: &str, ready: i32) -> Value {
    json!({
        "metadata": {
            "name": format!("plimsoll-{program}"), "namespace": "suite",
            "labels": {"app.kubernetes.io/name": program, "app.kubernetes.io/part-of": "plimsoll"},
        },
        "spec": {"replicas": 2, "selector": {}, "template": {"spec": {"containers": [
            {"name": program, "image": format!("plimsoll/{program}:{tag}")}]}}},
        "status": {"readyReplicas": ready},
    })
}

pub(super) fn api_service(name: &str, service: &str, available: &str) -> Value {
    let (namespace, service) = service.split_once('/').expect("NAMESPACE/NAME");
    let (version, group) = name.split_once('.').expect("VERSION.GROUP");
    json!({
        "metadata": {"name": name},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                 "service": {"namespace": namespace, "name": service}},
        "status": {"conditions": [{"type": "Available", "status": available,
                                   "reason": "MissingEndpoints", "message": "none"}]},
    })
}

pub(super) fn lease(holder: &str, renewed: &str) -> Value {
    json!({"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}})
}

/// A self-signed certificate until the end of this day.
pub(super) fn certificate(end: &str) -> String {
    let mut params = rcgen::CertificateParams::new(vec![HOST.to_owned()]).expect("names");
    let end: jiff::civil::Date = end.parse().expect("a day");
    let [month, day] = [end.month(), end.day()].map(i8::cast_unsigned);
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(end.year().into(), month, day);
    let key = rcgen::KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").pem()
}

pub(super) fn certificate_fact(pem: &str) -> CertificateFact {
    CertificateFact {
        program: "webhook",
        secret: name("suite", "vpa-tls-certs"),
        entry: SecretEntry {
            secret: "vpa-tls-certs".to_owned(),
            entry: "serverCert.pem",
            is_optional: false,
        },
        chain: Ok(ServedChain::read(pem).map_or(StoredChain::Invalid, StoredChain::Chain)),
    }
}

pub(super) fn registration(bundle: &str, policy: &str, namespace: &str) -> Value {
    let bundle = serde_json::to_value(ByteString(bundle.as_bytes().to_vec())).expect("base64");
    json!({
        "metadata": {"name": CONFIGURATION},
        "webhooks": [{
            "name": "vpa.k8s.io", "failurePolicy": policy, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"caBundle": bundle,
                             "service": {"namespace": namespace, "name": "vpa-webhook"}},
        }],
    })
}

/// A cluster without faults.
pub(super) fn healthy() -> Facts {
    let pem = certificate("2027-01-01");
    let programs = ["recommender", "updater", "webhook", "adapter"];
    let adapter = "suite/plimsoll-adapter";
    let services = [
        ("v1beta1.custom.metrics.k8s.io", adapter),
        ("v1beta2.custom.metrics.k8s.io", adapter),
        ("v1beta1.external.metrics.k8s.io", adapter),
        ("v1beta1.metrics.k8s.io", "kube-system/metrics-server"),
    ];
    let services = services.map(|(name, service)| api_service(name, service, "True"));
    let fresh = lease("a_1", "2026-11-01T11:59:50.000000Z");
    let leases = [
        name("kube-system", "vpa-recommender-lease"),
        name("suite", "vpa-admission-controller"),
    ];
    Facts {
        system_namespace: "suite".to_owned(),
        server: "https://server".to_owned(),
        version: Info {
            major: "1".to_owned(),
            minor: "36+".to_owned(),
            git_version: "v1.36.0".to_owned(),
            ..Info::default()
        },
        server_time: Some(time(NOW)),
        local_time: time(NOW),
        api_services: Ok(parse(json!(services))),
        nodes: Ok(3),
        measured_nodes: Ok(3),
        deployments: Ok(parse(json!(programs.map(|name| deployment(name, "1", 2))))),
        others: Ok(Vec::new()),
        signs: Ok(Vec::new()),
        leases: leases
            .map(|name| (name, Ok(Some(parse(fresh.clone())))))
            .to_vec(),
        definitions: Ok(api::crd::all()),
        objects: Ok(ObjectFacts::default()),
        webhooks: Ok(vec![parse(registration(&pem, "Ignore", "suite"))]),
        services: vec![(name("suite", "vpa-webhook"), Ok(Some(2)))],
        certificates: vec![certificate_fact(&pem)],
        stop: (name("suite", "plimsoll-stop"), Ok(None)),
        rights: (USE.of_cluster.iter().chain(USE.own))
            .map(|right| (*right, Ok(true)))
            .collect(),
        prometheus: Some(PrometheusFact {
            address: "http://prometheus.monitoring.svc:9090".to_owned(),
            series: Ok(vec![10, 10, 10]),
            refusal: None,
        }),
    }
}
