//! Brings the suite and the workloads into the sandbox: the programs from `deploy/overlays/demo`,
//! and around them what a cluster has of its own, which is the address of Prometheus.

use anyhow::Result;
use e2e::apply;
use e2e::deployment::{SUITE, deploy as deploy_programs, prometheus_variables};
use sandbox::Sandbox;

pub(crate) async fn deploy(sandbox: &Sandbox) -> Result<()> {
    let variables = [
        "PLIMSOLL_RECOMMENDER_PROMETHEUS_ADDRESS",
        "PLIMSOLL_RECOMMENDER_PROMETHEUS_CA_FILE",
    ];
    apply(sandbox, "deploy/crds").await?;
    prometheus_variables(sandbox, &[variables]).await?;
    deploy_programs(sandbox, "deploy/overlays/demo", SUITE).await?;
    apply(sandbox, "tests/demo/workloads.yaml").await?;
    println!(
        "  Recommender, updater, webhook and adapter run as deployed from deploy/overlays/demo, each under its own ServiceAccount"
    );
    Ok(())
}
