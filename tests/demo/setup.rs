//! Brings the suite and the workloads into the sandbox: the programs from `deploy/overlays/demo`,
//! and around them what a cluster has of its own, which are certificates for the feed and the
//! address of Prometheus.

use anyhow::{Context as _, Result};
use e2e::deployed::deploy_these;
use e2e::{apply, feed_certificates, kubectl_in};
use kube::Client;
use sandbox::Sandbox;

/// The labels of all programs' Deployments.
const SUITE: &str = "app.kubernetes.io/part-of=plimsoll";

pub(crate) async fn deploy(sandbox: &Sandbox, client: &Client) -> Result<()> {
    apply(sandbox, "deploy/base/namespace.yaml").await?;
    let url = sandbox
        .prometheus_url()
        .context("this sandbox has a Prometheus")?;
    let url = format!("--from-literal=PLIMSOLL_RECOMMENDER_PROMETHEUS_ADDRESS={url}");
    let authority = sandbox.authority();
    let authority = format!(
        "--from-literal=PLIMSOLL_RECOMMENDER_PROMETHEUS_CA_FILE={}",
        authority.display()
    );
    kubectl_in(
        sandbox,
        &[
            "create",
            "configmap",
            "prometheus",
            "-n",
            "plimsoll-system",
            &url,
            &authority,
        ],
    )
    .await?;
    feed_certificates(client).await?;
    deploy_these(sandbox, "deploy/overlays/demo", SUITE).await?;
    apply(sandbox, "tests/demo/workloads.yaml").await?;
    println!(
        "  Recommender, updater, webhook and adapter run as deployed from deploy/overlays/demo, each under its own ServiceAccount"
    );
    Ok(())
}
