//! The chart on a real node: programs in containers, with their own accounts, certificates, probes and
//! limits.

use anyhow::{Result, ensure};
use e2e::deployment::SYSTEM;
use e2e::helm::{Helm, RELEASE};
use e2e::{eventually, plimsoll};

use super::fixture::{Fixture, or_skip};

#[tokio::test]
async fn the_installed_suite_passes_its_checks() -> Result<()> {
    let cluster = or_skip!(Fixture::new("installed"));
    let kubeconfig = cluster.sandbox().kubeconfig();
    let system = format!("--system-namespace={SYSTEM}");
    eventually("the check finds nothing", async || {
        let output = plimsoll(&kubeconfig, &format!("check {system}")).await?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(printed.contains("0 errors, 0 warnings"), "{printed}");
        Ok(())
    })
    .await?;
    // The command-line tool in a pod, with the rights of the release.
    let helm = Helm::find().await?.with(&kubeconfig);
    let test = ["test", RELEASE, "--namespace", SYSTEM, "--logs"];
    let printed = helm.run_without_chart(&test).await?;
    ensure!(printed.contains("0 errors"), "{printed}");
    Ok(())
}
