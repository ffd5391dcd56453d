//! `plimsoll check`, `status`, `stop`, `go` and `support-bundle` on a real API server: each planted
//! fault is found and named.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler;
use e2e::{
    Namespace, another, eventually, get_json, plimsoll, plimsoll_json, plimsoll_prints, shared,
};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};

/// A credential that no bundle may contain.
const PLANTED: &str = "S3cr3tV4lue-of-this-test";

/// A Deployment of a program, with these arguments, and `extra` in the spec of its pods. KWOK
/// plays the pods.
fn program(name: &str, tag: &str, arguments: &[&str], extra: Value) -> Value {
    let labels = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "plimsoll"});
    let image = format!("registry.example.com/{name}:{tag}");
    let environment = json!([{"name": "API_TOKEN", "value": PLANTED}]);
    let container = json!({"name": name, "image": image, "args": arguments, "env": environment});
    let pod = e2e::with(json!({"containers": [container]}), extra);
    json!({
        "metadata": {"name": format!("plimsoll-{name}"), "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

/// A self-signed certificate of the past, in PEM.
fn expired_certificate() -> Result<String> {
    let mut params = CertificateParams::new(["vpa-webhook.suite.svc".to_owned()])?;
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2021, 1, 1);
    Ok(params.self_signed(&KeyPair::generate()?)?.pem())
}

/// The faults of a namespace: versions that differ, a program without ready pods, a missing
/// program, Leases that are missing and outdated, certificates that are missing and expired.
async fn plant_in_namespace(namespace: &Namespace) -> Result<()> {
    let in_namespace = format!("--leader-elect-resource-namespace={}", namespace.namespace);
    let elect = ["--leader-elect=true", in_namespace.as_str()];
    let nowhere = json!({"nodeSelector": {"no-such": "node"}});
    let managed = ["--manage-certificates"];
    for object in [
        program("recommender", "1", &elect, json!({})),
        program("updater", "2", &elect, nowhere),
        program("webhook", "1", &managed, json!({})),
        program("adapter", "1", &managed, json!({})),
    ] {
        namespace.create::<Deployment>(object).await?;
    }
    let outdated = json!({"holderIdentity": "gone_1", "leaseDurationSeconds": 15,
                          "renewTime": "2026-01-01T00:00:00.000000Z"});
    namespace.make::<Lease>("vpa-updater", outdated).await?;
    let data = json!({"serverCert.pem": expired_certificate()?, "serverKey.pem": PLANTED});
    let secret = json!({"metadata": {"name": "vpa-tls-certs"}, "stringData": data});
    namespace.create::<Secret>(secret).await?;
    Ok(())
}

/// The faults of a cluster: APIs without a server and of another owner, a registration that leads
/// nowhere, other autoscalers, a policy that no recommender reads, and a missing definition.
async fn plant_in_cluster(namespace: &Namespace) -> Result<()> {
    let cluster = Namespace::cluster(namespace.client.clone());
    let system = &namespace.namespace;
    let api = |group: &str, owner: &str, service: &str| {
        json!({
            "metadata": {"name": format!("v1beta1.{group}")},
            "spec": {"group": group, "version": "v1beta1", "insecureSkipTLSVerify": true,
                     "groupPriorityMinimum": 100, "versionPriority": 100,
                     "service": {"namespace": owner, "name": service}},
        })
    };
    for (group, owner, service) in [
        ("custom", system.as_str(), "plimsoll-adapter"),
        ("external", "keda", "keda-operator-metrics-apiserver"),
    ] {
        let service = api(&format!("{group}.metrics.k8s.io"), owner, service);
        cluster.create::<APIService>(service).await?;
    }
    let webhook = |name: &str, policy: &str| {
        json!({
            "metadata": {"name": name},
            "webhooks": [{
                "name": "vpa.k8s.io", "failurePolicy": policy, "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "namespaceSelector": {"matchLabels": {"no-such": "label"}},
                "clientConfig": {"service": {"namespace": system, "name": "vpa-webhook"}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                           "resources": ["pods"]}],
            }],
        })
    };
    for (name, policy) in [("vpa-webhook-config", "Fail"), ("craned", "Ignore")] {
        let object = webhook(name, policy);
        cluster
            .create::<MutatingWebhookConfiguration>(object)
            .await?;
    }
    for image in ["vpa-updater", "craned", "goldilocks"] {
        let mut other = e2e::workload(image, 1, &json!({}), &json!({}));
        let container = &mut other["spec"]["template"]["spec"]["containers"][0];
        container["image"] = format!("registry.example.com/{image}:v1").into();
        namespace.create::<Deployment>(other).await?;
    }
    namespace.make::<SizingPolicy>("web", json!({})).await?;
    let definition = "substitutes.autoscaling.crane.io";
    cluster
        .delete::<CustomResourceDefinition>(definition)
        .await?;
    cluster.gone::<CustomResourceDefinition>(definition).await
}

/// The status and the message of a check.
fn find<'a>(checks: &'a Value, id: &str) -> Result<(&'a str, &'a str)> {
    let mut list = checks["checks"].as_array().context("checks")?.iter();
    let check = list.find(|check| check["id"] == id);
    let check = check.with_context(|| format!("no check {id}"))?;
    let text = |field: &str| check[field].as_str().unwrap_or_default();
    Ok((text("status"), text("message")))
}

/// Identifier, status and a part of the message of each planted fault.
const FAULTS: [&str; 20] = [
    "other-vpa error vpa-updater",
    "crane error craned",
    "goldilocks warning goldilocks",
    "custom-metrics-v1beta1 error plimsoll-adapter does not answer",
    "custom-metrics-v1beta2 error missing",
    "external-metrics-v1beta1 error (KEDA) does not answer",
    "definition-substitutes.autoscaling.crane.io error missing",
    "policies warning SizingPolicy",
    "replicas-plimsoll-updater error 0 of 1",
    "one-version warning plimsoll-updater 2",
    "lease-vpa-recommender-lease error missing",
    "lease-vpa-updater error gone_1",
    "lease-vpa-admission-controller error missing",
    "stop-switch warning upgrade",
    "certificate-vpa-tls-certs error 2021-01-01",
    "certificate-plimsoll-adapter-certificates error missing",
    "webhook-failure-policy warning Fail",
    "webhook-service error does not exist",
    "webhook-ca-bundle error empty",
    "webhook-rivals warning craned",
];

/// Checks that pass all the same.
const PASSED: [&str; 4] = [
    "api-server-reachable",
    "metrics-server-available",
    "replicas-plimsoll-recommender",
    "rights-to-use",
];

#[tokio::test]
async fn each_planted_fault_is_found_and_named() -> Result<()> {
    let sandbox = another("check").await?;
    let client = sandbox.client().await?;
    let namespace = Namespace::new(client.clone(), "suite").await?;
    eventually("metrics.k8s.io answers", async || {
        get_json(&client, "/apis/metrics.k8s.io/v1beta1/pods?limit=1").await
    })
    .await?;
    let kubeconfig = sandbox.kubeconfig();
    // The sandbox has no metrics of nodes without pods.
    let before = plimsoll_json(&kubeconfig, "check --pre").await?;
    for check in before["checks"].as_array().context("checks")? {
        let is_fault = check["status"] != "ok";
        ensure!(!is_fault || check["id"] == "node-metrics", "{check}");
    }

    plant_in_namespace(&namespace).await?;
    plant_in_cluster(&namespace).await?;
    let system = format!("--system-namespace={}", namespace.namespace);
    plimsoll_prints(&kubeconfig, &format!("stop --reason=upgrade {system}")).await?;
    eventually("all faults are found", async || {
        let output = plimsoll(&kubeconfig, &format!("check -o json {system}")).await?;
        ensure!(output.status.code() == Some(1), "{output:?}");
        let checks: Value = serde_json::from_slice(&output.stdout)?;
        for fault in FAULTS {
            let (id, fault) = fault.split_once(' ').context("an identifier")?;
            let (status, message) = fault.split_once(' ').context("a status")?;
            let found = find(&checks, id)?;
            ensure!(
                found.0 == status && found.1.contains(message),
                "{id}: {found:?}"
            );
        }
        for id in PASSED {
            ensure!(find(&checks, id)?.0 == "ok", "{id}");
        }
        Ok(())
    })
    .await?;

    let service = json!({"metadata": {"name": "vpa-webhook"}, "spec": {
        "selector": {"no-such": "label"}, "ports": [{"port": 443}]}});
    namespace.create::<Service>(service).await?;
    let short = plimsoll(&kubeconfig, &format!("check -o short {system}")).await?;
    let short = String::from_utf8(short.stdout)?;
    ensure!(short.contains("no ready endpoint"), "{short}");
    bundle_has_no_credential(&kubeconfig, &system).await?;

    let checks = plimsoll_json(&kubeconfig, "check --pre").await?;
    // Beside another VPA the suite can be installed: it writes nothing then.
    ensure!(find(&checks, "other-vpa")?.0 == "warning", "{checks}");
    Ok(())
}

/// Writes a bundle and reads each file of it.
async fn bundle_has_no_credential(kubeconfig: &Path, system: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bundle = folder.path().join("bundle");
    let arguments = format!("support-bundle -o {} {system}", bundle.display());
    let output = plimsoll(kubeconfig, &arguments).await?;
    // Logs of pods that KWOK plays are left out.
    ensure!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&bundle)? {
        let entry = entry?;
        let text = std::fs::read_to_string(entry.path())?;
        ensure!(
            !text.contains(PLANTED),
            "{}: {text}",
            entry.path().display()
        );
        names.push(entry.file_name().into_string().unwrap_or_default());
    }
    for expected in [
        "versions.json",
        "check.txt",
        "deployments.yaml",
        "events.yaml",
        "leases.yaml",
    ] {
        ensure!(names.iter().any(|name| name == expected), "{names:?}");
    }
    let deployments = std::fs::read_to_string(bundle.join("deployments.yaml"))?;
    ensure!(
        deployments.contains("API_TOKEN") && deployments.contains("[masked]"),
        "{deployments}"
    );
    let again = plimsoll(kubeconfig, &arguments).await?;
    ensure!(again.status.code() == Some(1), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn the_stop_switch_is_written_and_deleted() -> Result<()> {
    let sandbox = shared().await?;
    let namespace = Namespace::new(sandbox.client().await?, "stop").await?;
    let kubeconfig = sandbox.kubeconfig();
    let system = format!("--system-namespace={}", namespace.namespace);
    let config_maps: Api<ConfigMap> = namespace.typed();
    // The schema accepts numbers as quantities, our types do not; the object counts all the same.
    let numbers = json!({"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": 2}}]});
    let vpa = json!({
        "metadata": {"name": "numbers"},
        "spec": {"targetRef": {"kind": "Deployment", "name": "web"}, "resourcePolicy": numbers},
    });
    namespace.create::<VerticalPodAutoscaler>(vpa).await?;
    let check = async |arguments: &str, expected: &str, exists: bool| {
        let line = plimsoll_prints(&kubeconfig, &format!("{arguments} {system}")).await?;
        ensure!(line.starts_with(expected), "{arguments:?}: {line}");
        let found = config_maps.get_opt("plimsoll-stop").await?;
        ensure!(found.is_some() == exists, "{arguments:?}: {found:?}");
        anyhow::Ok(())
    };
    for command in ["go", "stop"] {
        let failed = plimsoll(&kubeconfig, &format!("{command} {system}")).await?;
        let expected = format!("the namespace {} has no updater", namespace.namespace);
        let text = String::from_utf8_lossy(&failed.stderr);
        ensure!(
            failed.status.code() == Some(1) && text.contains(&expected),
            "{command}: {text}"
        );
    }
    ensure!(config_maps.get_opt("plimsoll-stop").await?.is_none());
    let updater = program("updater", "1", &[], json!({}));
    namespace.create::<Deployment>(updater).await?;
    check("go", "not stopped", false).await?;
    check("stop --dry-run", "stopped", false).await?;
    check("stop --reason=upgrade", "stopped", true).await?;
    check("stop", "already stopped", true).await?;
    let status = plimsoll_json(&kubeconfig, &format!("status {system}")).await?;
    let is_stopped = status["stopped"] == true && status["stopReason"] == "upgrade";
    let total = &status["verticalPodAutoscalers"]["total"];
    ensure!(is_stopped && total.is_u64(), "{status}");
    check("go --dry-run", "continued", true).await?;
    check("go", "continued", false).await
}
