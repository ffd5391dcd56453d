//! The condition `Applied`: the updater's reasons on their way over the feed into the status of VPA
//! objects.

use anyhow::{Context as _, Result, ensure};
use api::vpa::{APPLIED, VerticalPodAutoscaler as Vpa};
use e2e::deployment::{SUITE, deploy, system};
use e2e::{
    Namespace, another, apply, create, eventually, feed_certificates, plimsoll, plimsoll_prints,
    target, workload,
};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::DeleteParams;
use sandbox::Sandbox;
use serde_json::{Value, json};

const SWITCH: &str = "plimsoll-stop";

fn vpas_of(own: &Namespace) -> Api<Vpa> {
    own.typed()
}

/// Waits until the condition has this status and reason. Returns its message.
async fn applied(own: &Namespace, name: &str, expected: [&str; 2]) -> Result<String> {
    let vpas = vpas_of(own);
    eventually(&format!("{name} is {expected:?}"), async || {
        let vpa = vpas.get(name).await?;
        let mut conditions = vpa.status.iter().flat_map(|status| &status.conditions);
        let condition = conditions.find(|condition| condition.kind == APPLIED);
        let condition = condition.context("there is no condition yet")?;
        let found = [condition.status.as_str(), condition.reason.as_str()];
        ensure!(found == expected, "{condition:?}");
        Ok(condition.message.clone())
    })
    .await
}

async fn size(own: &Namespace, name: &str, replicas: usize, mode: &str) -> Result<()> {
    let none = json!({});
    let resources = json!({"requests": {"cpu": "10m", "memory": "10Mi"}});
    own.create::<ReplicaSet>(workload(name, replicas, &resources, &none))
        .await?;
    let spec = json!({
        "targetRef": target("ReplicaSet", name),
        "updatePolicy": {"updateMode": mode},
    });
    own.create::<Vpa>(json!({"metadata": {"name": name}, "spec": spec}))
        .await?;
    Ok(())
}

/// `plimsoll check` of the running suite, which lacks the adapter on purpose.
async fn check_finds_no_fault(sandbox: &Sandbox) -> Result<()> {
    eventually("check finds no fault", async || {
        let output = plimsoll(&sandbox.kubeconfig(), &["check", "-o", "json"]).await?;
        let found: Value = serde_json::from_slice(&output.stdout)?;
        let checks = found["checks"].as_array().context("checks")?;
        let errors = checks.iter().filter(|check| check["status"] == "error");
        let errors: Vec<&Value> = errors.collect();
        ensure!(errors.is_empty(), "{errors:#?}");
        for id in [
            "webhook-ca-bundle",
            "lease-vpa-updater",
            "certificate-vpa-tls-certs",
        ] {
            let is_ok = |check: &&Value| check["id"] == id && check["status"] == "ok";
            ensure!(checks.iter().any(|check| is_ok(&check)), "{id}: {found:#}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_condition_says_why_pods_do_not_have_the_recommended_requests() -> Result<()> {
    let sandbox = another("applied").await?;
    let client = sandbox.client().await?;
    let own = Namespace::new(client.clone(), "applied").await?;
    apply(&sandbox, "deploy/base/namespace.yaml").await?;
    feed_certificates(&client).await?;
    let budget = json!({
        "metadata": {"name": "held"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}},
    });
    own.create::<PodDisruptionBudget>(budget).await?;
    deploy(&sandbox, "tests/e2e/applied", SUITE).await?;
    size(&own, "held", 2, "Recreate").await?;
    size(&own, "single", 1, "Recreate").await?;
    size(&own, "free", 2, "Recreate").await?;

    let message = applied(&own, "held", ["False", "DisruptionBudget"]).await?;
    let expected = "2 of 2 pods need other requests; 2: a PodDisruptionBudget allows no disruption";
    ensure!(message.starts_with(expected), "{message}");
    let message = applied(&own, "single", ["False", "TooFewReplicas"]).await?;
    ensure!(message.starts_with("1 of 1 pods"), "{message}");
    let message = applied(&own, "free", ["True", "Applied"]).await?;
    ensure!(message.contains("No pod of 2"), "{message}");

    check_finds_no_fault(&sandbox).await?;

    let switches: Api<ConfigMap> = system(&client).typed();
    create(&switches, json!({"metadata": {"name": SWITCH}})).await?;
    applied(&own, "held", ["False", "Stopped"]).await?;
    applied(&own, "free", ["True", "Applied"]).await?;
    let namespace = own.namespace.as_str();
    let explained = plimsoll_prints(
        &sandbox.kubeconfig(),
        &["explain", "vpa/held", "-n", namespace],
    )
    .await?;
    ensure!(explained.contains("The stop switch exists"), "{explained}");
    switches.delete(SWITCH, &DeleteParams::default()).await?;
    applied(&own, "held", ["False", "DisruptionBudget"]).await?;

    // The updater leaves pods alone in this mode.
    let off = json!({"spec": {"updatePolicy": {"updateMode": "Off"}}});
    own.patch::<Vpa>("held", off).await?;
    eventually("the condition is gone", async || {
        let vpa = vpas_of(&own).get("held").await?;
        let mut conditions = vpa.status.iter().flat_map(|status| &status.conditions);
        let found = conditions.find(|condition| condition.kind == APPLIED);
        ensure!(found.is_none(), "{found:?}");
        Ok(())
    })
    .await?;
    sandbox.down().await
}
