//! Brings the suite and the workloads into the sandbox: the programs from the chart, and around them
//! what a cluster has of its own, which is Prometheus and a kube-scheduler that calls the extender.

use std::fs;

use anyhow::{Context as _, Result};
use e2e::deployment::{EXTENDER, SUITE, SYSTEM, all_ready, replicas, system};
use e2e::helm::{Helm, RELEASE};
use e2e::scheduler::{Scheduler, with_extender};
use e2e::{apply, repository};
use k8s_openapi::api::core::v1::Secret;
use sandbox::Sandbox;
use serde_json::json;

const VALUES: &str = "tests/demo/values.yaml";

/// Installs everything; returns the scheduler that calls the extender.
pub(crate) async fn deploy(sandbox: &Sandbox) -> Result<Scheduler> {
    let client = sandbox.client().await?;
    apply(sandbox, "deploy/base/namespace.yaml").await?;
    let prometheus = fs::read_to_string(sandbox.authority()).context("read Prometheus' CA")?;
    let secret = json!({"metadata": {"name": "prometheus"}, "stringData": {"ca.crt": prometheus}});
    system(&client).create::<Secret>(secret).await?;

    let values = repository().join(VALUES);
    let values = values.to_str().context("the path is text")?;
    let url = sandbox.prometheus_url().context("there is a Prometheus")?;
    let address = format!("prometheus.address={url}");
    let helm = Helm::find().await?.with(&sandbox.kubeconfig());
    let install = [
        "install", RELEASE, "-n", SYSTEM, "--values", values, "--set", &address,
    ];
    helm.run(&install).await?;
    apply(sandbox, "tests/demo/workloads.yaml").await?;
    all_ready(&client, SUITE).await?;

    let extenders = replicas(&client, EXTENDER).await?;
    let extender = extenders.first().context("the extender has no replica")?;
    let mut configuration = with_extender(sandbox, extender).await?;
    // A busy machine answers late, and a late answer would be without load.
    configuration["extenders"][0]["httpTimeout"] = "5s".into();
    let scheduler = Scheduler::start(sandbox, "load-aware", configuration)?;
    println!(
        "  helm install plimsoll deploy/chart --values {VALUES}: recommender, updater, webhook, adapter and extender run, each under its own ServiceAccount"
    );
    Ok(scheduler)
}
