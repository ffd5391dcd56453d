//! The chart on a real node: programs in containers, with their own accounts, certificates, probes and
//! limits.

use anyhow::{Result, ensure};
use e2e::dashboard_client::{DashboardClient, HOST, viewer};
use e2e::deployment::SYSTEM;
use e2e::helm::{Helm, RELEASE};
use e2e::{eventually, plimsoll};

use super::fixture::{Fixture, amount, or_skip, pod_of, resources};

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

#[tokio::test]
async fn a_team_sees_its_own_namespace_in_the_dashboard_of_the_cluster() -> Result<()> {
    let cluster = or_skip!(Fixture::new("team"));
    let size = resources(["20m", "100Mi"], ["40m", "100Mi"]);
    let pod = pod_of(&["--memory-mib=20"], &size);
    cluster.deploy("web", 1, &pod).await?;
    cluster
        .size_to("web", "Off", &amount(["30m", "50Mi"]))
        .await?;
    let sandbox = cluster.sandbox();
    let token = viewer(sandbox, &cluster).await?;
    let service = format!("/api/v1/namespaces/{SYSTEM}/services/plimsoll-dashboard:web/proxy");
    let dashboard = DashboardClient::Proxied(sandbox.client().await?, service);
    let own = cluster.namespace.as_str();
    let mine = format!("GET /vertical?namespace={own}");
    let page = dashboard.check(&mine, &[HOST], 401).await?;
    ensure!(!page.contains("/web"), "{page}");
    let session = dashboard.log_in(&token).await?;
    let page = dashboard.check(&mine, &[HOST, &session], 200).await?;
    for text in [&format!("{own}/web"), ">30m<", ">50Mi<"] {
        ensure!(page.contains(text), "{text} is not in {page}");
    }
    let object = format!("GET /vpa/{own}/web");
    dashboard.check(&object, &[HOST, &session], 200).await?;
    for line in ["GET /", &format!("GET /?namespace={SYSTEM}")] {
        let page = dashboard.check(line, &[HOST, &session], 502).await?;
        ensure!(page.contains("is forbidden"), "{page}");
    }
    Ok(())
}
