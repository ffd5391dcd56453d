//! A recommender of one namespace, as a process of this test that can be killed, under its own
//! service account with exactly the RBAC of `deploy/`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{SYSTEM, scrape_at, sum};
use e2e::process::{account, command};
use e2e::{apply, eventually, free_address, shared};
use tokio::process::Child;
use tokio::sync::OnceCell;

/// A running recommender; killed when dropped.
pub(crate) struct Recommender {
    child: Child,
    address: SocketAddr,
}

impl Recommender {
    /// Starts one that looks at this namespace only, each second, stores all changes and collects
    /// garbage every two seconds.
    pub(crate) async fn start(namespace: &str) -> Result<Self> {
        let address = free_address()?;
        let log = format!("recommender-{namespace}.log");
        let log = shared().await?.logs_dir().join(log);
        let child = command("recommender", kubeconfig().await?, &log)?
            .arg(format!("--address={address}"))
            .arg(format!("--vpa-object-namespace={namespace}"))
            .args(["--leader-elect=false", "--recommender-interval=1s"])
            .args(["--checkpoints-gc-interval=2s", "--refresh-interval=0s"])
            .spawn()
            .context("start a recommender")?;
        Ok(Self { child, address })
    }

    /// Kills it as `kill -9` does.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("kill the recommender")
    }

    /// Waits until three more checkpoints were looked at and found unchanged.
    pub(crate) async fn await_looks(&self) -> Result<()> {
        let looks = async || {
            let series = r#"vpa_recommender_checkpoint_writes_total{result="unchanged"}"#;
            let text = scrape_at(self.address).await?;
            sum(&text, series).with_context(|| format!("no {series}"))
        };
        let before = eventually("metrics are served", looks).await?;
        eventually("checkpoints are looked at", async || {
            let now = looks().await?;
            ensure!(now >= before + 3.0, "{now} looks after {before}");
            Ok(())
        })
        .await
    }
}

/// The credentials of the recommender's service account, made once per run.
async fn kubeconfig() -> Result<&'static PathBuf> {
    static KUBECONFIG: OnceCell<PathBuf> = OnceCell::const_new();
    KUBECONFIG.get_or_try_init(make_kubeconfig).await
}

async fn make_kubeconfig() -> Result<PathBuf> {
    let sandbox = shared().await?;
    for file in [
        "namespace",
        "recommender/service-account",
        "recommender/rbac",
    ] {
        apply(sandbox, &format!("deploy/base/{file}.yaml")).await?;
    }
    let config = account(sandbox, SYSTEM, "plimsoll-recommender").await?;
    let path = sandbox
        .kubeconfig()
        .with_file_name("recommender.kubeconfig");
    std::fs::write(&path, serde_yaml_ng::to_string(&config)?)?;
    Ok(path)
}
