//! One fault per case in a cluster without faults.

mod fixture;
mod others;
mod units;

use serde_json::{Value, json};

use super::*;
use crate::check::Form;
use crate::check::facts::{OtherDeployment, StopFact, StoredChain};
use crate::check::finding::{Status, Unread};
use fixture::{
    api_service, certificate, certificate_fact, deployment, healthy, lease, name, object,
    registration, time,
};

/// Expects these findings besides passed checks: status, identifier, and a part of the message.
#[track_caller]
fn check_in(extent: Extent, plant: impl FnOnce(&mut Facts), expected: &[(Status, &str, &str)]) {
    let mut facts = healthy();
    plant(&mut facts);
    let findings = judge(&facts, extent);
    let found: Vec<_> = findings
        .iter()
        .filter(|one| one.status != Status::Ok)
        .collect();
    let named: Vec<_> = found
        .iter()
        .map(|one| (one.status, one.id.as_str()))
        .collect();
    let wanted: Vec<_> = expected
        .iter()
        .map(|(status, id, _)| (*status, *id))
        .collect();
    assert_eq!(named, wanted, "{found:#?}");
    for (finding, (_, _, message)) in found.iter().zip(expected) {
        assert!(finding.message.contains(message), "{finding:#?}\n{message}");
        let has_hint = finding.status >= Status::Warning;
        assert_eq!(!finding.hint.is_empty(), has_hint, "{finding:#?}");
    }
}

#[track_caller]
fn check(plant: impl FnOnce(&mut Facts), status: Status, id: &str, message: &str) {
    check_in(Extent::Installed, plant, &[(status, id, message)]);
}

fn replace_api(facts: &mut Facts, api: Value) {
    let api: k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService = object(api);
    let services = facts.api_services.as_mut().expect("APIServices");
    services.retain(|one| one.metadata.name != api.metadata.name);
    services.push(api);
}

fn add_other(facts: &mut Facts, image: &str, replicas: i32) {
    facts
        .others
        .as_mut()
        .expect("Deployments")
        .push(OtherDeployment {
            name: name("other", image),
            image: image.to_owned(),
            replicas,
        });
}

#[test]
fn a_healthy_cluster_has_no_finding() {
    check_in(Extent::Installed, |_| {}, &[]);
    let identifiers: Vec<String> = judge(&healthy(), Extent::Installed)
        .into_iter()
        .map(|one| one.id)
        .collect();
    let mut unique = identifiers.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), identifiers.len(), "{identifiers:?}");
}

#[test]
fn faults_of_the_api_server_and_clocks_are_named() {
    let old = |facts: &mut Facts| {
        facts.version.minor = "32".to_owned();
        facts.version.git_version = "v1.32.2".to_owned();
    };
    check(old, Status::Warning, "api-server-version", "v1.32.2");
    let ahead = |facts: &mut Facts| facts.local_time = time("2026-11-01T12:02:00Z");
    check(ahead, Status::Warning, "clock-offset", "120 s");
}

#[test]
fn faults_of_metrics_are_named() {
    let gone = |facts: &mut Facts| {
        let services = facts.api_services.as_mut().expect("APIServices");
        services.retain(|one| one.metadata.name.as_deref() != Some("v1beta1.metrics.k8s.io"));
    };
    check(
        gone,
        Status::Error,
        "metrics-server-available",
        "no APIService",
    );
    let down = |facts: &mut Facts| {
        let api = api_service(
            "v1beta1.metrics.k8s.io",
            "kube-system",
            "metrics-server",
            "False",
        );
        replace_api(facts, api);
    };
    check(
        down,
        Status::Error,
        "metrics-server-available",
        "MissingEndpoints",
    );
    let some = |facts: &mut Facts| facts.measured_nodes = Ok(2);
    check(some, Status::Warning, "node-metrics", "2 of 3 nodes");
    let none = |facts: &mut Facts| facts.measured_nodes = Ok(0);
    check(none, Status::Error, "node-metrics", "0 of 3 nodes");
    let keda = |available: &'static str| {
        move |facts: &mut Facts| {
            let external = "v1beta1.external.metrics.k8s.io";
            let service = "keda-operator-metrics-apiserver";
            replace_api(facts, api_service(external, "keda", service, available));
        }
    };
    let owner = "keda/keda-operator-metrics-apiserver (KEDA)";
    check(
        keda("True"),
        Status::Warning,
        "external-metrics-v1beta1",
        owner,
    );
    check(
        keda("False"),
        Status::Error,
        "external-metrics-v1beta1",
        owner,
    );
    let series = |facts: &mut Facts| {
        facts.prometheus.as_mut().expect("Prometheus").series = Ok(vec![1, 0, 0]);
    };
    let missing = "container_memory_working_set_bytes, kube_pod_labels";
    check(series, Status::Error, "prometheus-series", missing);
}

#[test]
fn faults_of_definitions_are_named() {
    let id = "definition-verticalpodautoscalers.autoscaling.k8s.io";
    let gone = |facts: &mut Facts| {
        facts.definitions.as_mut().expect("definitions").remove(0);
    };
    check(gone, Status::Error, id, "missing");
    let unserved = |facts: &mut Facts| {
        let definition = &mut facts.definitions.as_mut().expect("definitions")[0];
        definition
            .spec
            .versions
            .iter_mut()
            .for_each(|version| version.served = false);
    };
    check(unserved, Status::Error, id, "version v1 is not served");
    let old = |facts: &mut Facts| {
        let definition = &mut facts.definitions.as_mut().expect("definitions")[0];
        for version in &mut definition.spec.versions {
            let schema = version
                .schema
                .as_mut()
                .and_then(|one| one.open_api_v3_schema.as_mut());
            let fields = schema
                .and_then(|schema| schema.properties.as_mut())
                .expect("fields");
            let spec = fields
                .get_mut("spec")
                .and_then(|spec| spec.properties.as_mut());
            spec.expect("fields of the spec").remove("updatePolicy");
        }
    };
    check(
        old,
        Status::Error,
        id,
        "version v1 has no field spec.updatePolicy",
    );
}

#[test]
fn faults_of_the_programs_are_named() {
    let change = |program: &'static str, deployment: Value| {
        move |facts: &mut Facts| {
            let deployments = facts.deployments.as_mut().expect("Deployments");
            let name = format!("plimsoll-{program}");
            deployments.retain(|one| one.metadata.name.as_ref() != Some(&name));
            deployments.push(object(deployment));
        }
    };
    let id = "replicas-plimsoll-updater";
    check(
        change("updater", deployment("updater", "1", 0)),
        Status::Error,
        id,
        "0 of 2",
    );
    check(
        change("updater", deployment("updater", "1", 1)),
        Status::Warning,
        id,
        "1 of 2",
    );
    let newer = change("updater", deployment("updater", "2", 2));
    check(newer, Status::Warning, "one-version", "plimsoll-updater 2");
    let gone = |facts: &mut Facts| {
        facts.deployments.as_mut().expect("Deployments").remove(0);
    };
    check(gone, Status::Error, "programs-installed", "recommender");
    let without = |names: &'static [&str]| {
        move |facts: &mut Facts| {
            let deployments = facts.deployments.as_mut().expect("Deployments");
            deployments.retain(|one| {
                let name = one.metadata.name.as_deref().unwrap_or_default();
                !names.iter().any(|gone| name.ends_with(gone))
            });
        }
    };
    let id = "programs-installed";
    check(
        without(&["webhook"]),
        Status::Error,
        id,
        "no Deployment of webhook",
    );
    check_in(
        Extent::Installed,
        without(&["updater", "webhook", "adapter"]),
        &[],
    );
    let with_lease = |index: usize, lease: Option<Value>| {
        move |facts: &mut Facts| facts.leases[index].1 = Ok(lease.map(object))
    };
    let id = "lease-vpa-recommender-lease";
    check(with_lease(0, None), Status::Error, id, "missing");
    let stale = lease("a_1", "2026-11-01T11:59:00.000000Z");
    check(
        with_lease(0, Some(stale.clone())),
        Status::Error,
        id,
        "60 s ago",
    );
    let released = lease("", "2026-11-01T11:59:50.000000Z");
    check(
        with_lease(0, Some(released)),
        Status::Error,
        id,
        "no holder",
    );
    check_in(Extent::Installed, with_lease(1, Some(stale)), &[]);
    let stop = |facts: &mut Facts| {
        facts.stop.1 = Ok(Some(StopFact {
            since: Some(time("2026-11-01T11:00:00Z")),
            reason: Some("upgrade".to_owned()),
        }));
    };
    let since = "since 2026-11-01T11:00:00Z: upgrade";
    check(stop, Status::Warning, "stop-switch", since);
}

#[test]
fn faults_of_certificates_are_named() {
    let id = "certificate-vpa-tls-certs";
    let with = |end: &'static str| {
        move |facts: &mut Facts| {
            let pem = certificate(end);
            facts.certificates = vec![certificate_fact(&pem)];
            facts.webhooks = Ok(vec![object(registration(&pem, "Ignore", "suite"))]);
        }
    };
    check(with("2026-11-05"), Status::Warning, id, "in 3 days");
    let bundle = "webhook-ca-bundle";
    check_in(
        Extent::Installed,
        with("2026-10-01"),
        &[
            (Status::Error, id, "expired at 2026-10-01"),
            (Status::Error, bundle, "the certificate has expired"),
        ],
    );
    let missing = |facts: &mut Facts| facts.certificates[0].chain = Ok(StoredChain::NoSecret);
    check_in(
        Extent::Installed,
        missing,
        &[
            (Status::Error, id, "missing"),
            (Status::Skipped, bundle, "no certificate"),
        ],
    );
    let invalid = |facts: &mut Facts| facts.certificates[0].chain = Ok(StoredChain::Invalid);
    check_in(
        Extent::Installed,
        invalid,
        &[
            (Status::Error, id, "serverCert.pem has no certificate"),
            (Status::Skipped, bundle, "no certificate"),
        ],
    );
    let optional = |facts: &mut Facts| {
        facts.certificates[0].entry.entry = "tls.crt";
        facts.certificates[0].entry.is_optional = true;
        facts.certificates[0].chain = Ok(StoredChain::NoSecret);
    };
    check_in(
        Extent::Installed,
        optional,
        &[
            (Status::Skipped, id, "runs without"),
            (Status::Skipped, bundle, "not in a Secret"),
        ],
    );
}

#[test]
fn faults_of_the_webhook_are_named() {
    let with = |bundle: Option<&'static str>, policy: &'static str, namespace: &'static str| {
        move |facts: &mut Facts| {
            let own = certificate("2027-01-01");
            facts.certificates = vec![certificate_fact(&own)];
            let bundle = bundle.map_or(own, str::to_owned);
            facts.webhooks = Ok(vec![object(registration(&bundle, policy, namespace))]);
        }
    };
    check(
        with(None, "Fail", "suite"),
        Status::Warning,
        "webhook-failure-policy",
        "no pod starts",
    );
    check(
        with(Some(""), "Ignore", "suite"),
        Status::Error,
        "webhook-ca-bundle",
        "empty",
    );
    let foreign = |facts: &mut Facts| {
        let other = certificate("2027-01-01");
        facts.webhooks = Ok(vec![object(registration(&other, "Ignore", "suite"))]);
    };
    check(
        foreign,
        Status::Error,
        "webhook-ca-bundle",
        "rejects the certificate",
    );
    let gone = |facts: &mut Facts| facts.webhooks = Ok(Vec::new());
    check(gone, Status::Error, "webhook-registered", CONFIGURATION);
    let endpoints = |count| move |facts: &mut Facts| facts.services[0].1 = Ok(count);
    check(
        endpoints(None),
        Status::Error,
        "webhook-service",
        "does not exist",
    );
    check(
        endpoints(Some(0)),
        Status::Error,
        "webhook-service",
        "no ready endpoint",
    );
    let rival =
        |facts: &mut Facts| {
            facts.webhooks.as_mut().expect("webhooks").push(object(json!({
            "metadata": {"name": "craned"},
            "webhooks": [{"name": "a", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                          "clientConfig": {}, "rules": [{"resources": ["pods"]}]}],
        })));
        };
    // The name is no part of a known product's.
    let rival_crane = |facts: &mut Facts| {
        rival(facts);
        let webhooks = facts.webhooks.as_mut().expect("webhooks");
        webhooks.last_mut().expect("a webhook").metadata.name = Some("mesh".to_owned());
    };
    check(rival, Status::Warning, "webhook-rivals", "craned");
    check_in(Extent::Installed, rival_crane, &[]);
}

#[test]
fn what_cannot_be_read_is_skipped_with_the_reason() {
    let unread = || Unread("you have no right to read Deployments".to_owned());
    let plant = |facts: &mut Facts| facts.deployments = Err(unread());
    check(plant, Status::Skipped, "programs-installed", "no right");
    let plant = |facts: &mut Facts| facts.certificates[0].chain = Err(unread());
    check_in(
        Extent::Installed,
        plant,
        &[
            (Status::Skipped, "certificate-vpa-tls-certs", "no right"),
            (Status::Skipped, "webhook-ca-bundle", "no right"),
        ],
    );
}

#[test]
fn a_version_that_another_provider_leaves_out_is_no_fault() {
    let plant = |facts: &mut Facts| {
        let services = facts.api_services.as_mut().expect("APIServices");
        services.retain(|one| !kube::ResourceExt::name_any(one).ends_with("custom.metrics.k8s.io"));
        let name = "v1beta1.custom.metrics.k8s.io";
        replace_api(facts, api_service(name, "monitoring", "other", "True"));
    };
    let id = "custom-metrics-v1beta1";
    check(plant, Status::Warning, id, "the Service monitoring/other");
}

#[test]
fn missing_rights_are_named_with_their_commands() {
    let plant = |facts: &mut Facts| facts.rights[0].1 = Ok(false);
    let right = "list verticalpodautoscalers.autoscaling.k8s.io (status, explain, scan)";
    check(plant, Status::Warning, "rights-to-use", right);
    let id = "rights-to-install";
    let right = "create namespaces (installation)";
    let plant = |facts: &mut Facts| {
        facts.api_services = Ok(Vec::new());
        replace_api(
            facts,
            api_service(
                "v1beta1.metrics.k8s.io",
                "kube-system",
                "metrics-server",
                "True",
            ),
        );
        let rights = INSTALL.of_cluster.iter().chain(INSTALL.own);
        facts.rights = rights.map(|right| (*right, Ok(true))).collect();
        facts.rights[0].1 = Ok(false);
    };
    check_in(Extent::Before, plant, &[(Status::Error, id, right)]);
}

#[test]
fn before_an_installation_only_conflicts_count() {
    let plant = |facts: &mut Facts| {
        facts.deployments = Ok(Vec::new());
        facts.leases.clear();
        facts.definitions = Ok(Vec::new());
        facts.webhooks = Ok(Vec::new());
        facts.api_services = Ok(vec![
            object(api_service(
                "v1beta1.metrics.k8s.io",
                "kube-system",
                "metrics-server",
                "True",
            )),
            object(api_service(
                "v1beta1.external.metrics.k8s.io",
                "keda",
                "keda",
                "True",
            )),
        ]);
        add_other(facts, "keda", 1);
    };
    check_in(
        Extent::Before,
        plant,
        &[
            (
                Status::Warning,
                "external-metrics-v1beta1",
                "would take it over",
            ),
            (Status::Warning, "keda", "other/keda"),
        ],
    );
}

#[test]
fn findings_have_three_forms() {
    let mut facts = healthy();
    replace_api(
        &mut facts,
        api_service(
            "v1beta1.external.metrics.k8s.io",
            "keda",
            "keda-metrics",
            "True",
        ),
    );
    add_other(&mut facts, "vpa-updater", 1);
    let findings = judge(&facts, Extent::Installed);
    for (form, ending) in [
        (Form::Table, "txt"),
        (Form::Json, "json"),
        (Form::Short, "short.txt"),
    ] {
        let text = crate::check::output::render(&findings, form);
        crate::output::tests::golden::check(&format!("check.{ending}"), &text);
    }
}
