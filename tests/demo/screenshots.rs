//! Pictures for the documents: the page of the day, what happened in the demonstration, the dashboard of this
//! cluster, and the panels of Grafana's dashboards.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use e2e::{Browser, PATIENCE, Prometheus, program};
use sandbox::Sandbox;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::dashboards;
use crate::observe::NAMESPACE;

/// File, page of the dashboard, and size in pixels.
const PAGES: [(&str, &str, (u32, u32)); 3] = [
    ("dashboard.png", "/", (1200, 1100)),
    ("dashboard-nodes.png", "/nodes", (1200, 420)),
    (
        "dashboard-ehpa.png",
        "/ehpa/NAMESPACE/checkout",
        (1200, 1600),
    ),
];
/// The page of the day, and that of the demonstration.
const FILES: [(&str, (u32, u32)); 2] = [("report.png", (1200, 900)), ("story.png", (1200, 1320))];

/// Writes them into a folder; without Chromium, nothing.
pub(crate) async fn write(
    sandbox: &Sandbox,
    prometheus: &Prometheus,
    files: [&Path; 2],
    folder: &Path,
) -> Result<()> {
    let Some(browser) = Browser::find().await? else {
        return Ok(());
    };
    for ((name, size), file) in FILES.iter().zip(files) {
        let url = format!("file://{}", file.display());
        browser.screenshot(&url, *size, &folder.join(name)).await?;
    }
    dashboards::write(&browser, prometheus, folder)
        .await
        .context("draw the panels")?;
    let prometheus = sandbox.prometheus_url().context("there is a Prometheus")?;
    let mut dashboard = Command::new(program("plimsoll")?)
        .args(["dashboard", "--prometheus-address", &prometheus])
        .arg("--prometheus-ca-file")
        .arg(sandbox.authority())
        .env("KUBECONFIG", sandbox.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = dashboard.stdout.take().context("an output")?;
    let mut lines = BufReader::new(output).lines();
    let url = timeout(PATIENCE, lines.next_line()).await??;
    let url = url.context("the dashboard printed no address")?;
    let home = url.trim_end_matches('/');
    for (name, path, size) in PAGES {
        let path = path.replace("NAMESPACE", NAMESPACE);
        let url = format!("{home}{path}");
        browser.screenshot(&url, size, &folder.join(name)).await?;
    }
    Ok(())
}
