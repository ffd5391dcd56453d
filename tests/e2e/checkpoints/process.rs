//! A recommender of one namespace, as a process of this test that can be killed, under its own
//! service account with exactly the RBAC of `deploy/`.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::{apply, eventually, free_address, kubectl, program, shared};
use kube::config::{AuthInfo, Kubeconfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use super::A_WHILE;

const ACCOUNT_NAMESPACE: &str = "plimsoll-system";
const ACCOUNT: &str = "plimsoll-recommender";

/// A running recommender; killed when dropped.
pub(crate) struct Recommender {
    child: Child,
    address: SocketAddr,
}

impl Recommender {
    /// Starts one that looks at this namespace only, each second, and collects garbage every two.
    pub(crate) async fn start(namespace: &str) -> Result<Self> {
        let sandbox = shared().await?;
        let address = free_address()?;
        let log = sandbox
            .logs_dir()
            .join(format!("recommender-{namespace}.log"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .context("open the log")?;
        let child = Command::new(program("recommender")?)
            .arg(format!("--kubeconfig={}", kubeconfig().await?.display()))
            .arg(format!("--address={address}"))
            .arg(format!("--vpa-object-namespace={namespace}"))
            .args([
                "--leader-elect=false",
                "--recommender-interval=1s",
                "--checkpoints-gc-interval=2s",
            ])
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
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
            self.metric(r#"vpa_recommender_checkpoint_writes_total{result="unchanged"}"#)
                .await
        };
        let before = eventually("metrics are served", A_WHILE, looks).await?;
        eventually("checkpoints are looked at", A_WHILE, async || {
            let now = looks().await?;
            ensure!(now >= before + 3.0, "{now} looks after {before}");
            Ok(())
        })
        .await
    }

    async fn metric(&self, series: &str) -> Result<f64> {
        let mut connection = TcpStream::connect(self.address).await?;
        connection
            .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            .await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let value = answer
            .lines()
            .find_map(|line| line.strip_prefix(series))
            .with_context(|| format!("no {series}"))?;
        value
            .trim()
            .parse()
            .with_context(|| format!("{series} is {value}"))
    }
}

/// The credentials of the recommender's service account, made once per run.
async fn kubeconfig() -> Result<&'static PathBuf> {
    static KUBECONFIG: OnceCell<PathBuf> = OnceCell::const_new();
    KUBECONFIG.get_or_try_init(make_kubeconfig).await
}

async fn make_kubeconfig() -> Result<PathBuf> {
    for file in [
        "namespace.yaml",
        "recommender/service-account.yaml",
        "recommender/rbac.yaml",
    ] {
        apply(shared().await?, &format!("deploy/base/{file}")).await?;
    }
    let token = kubectl(&[
        "-n",
        ACCOUNT_NAMESPACE,
        "create",
        "token",
        ACCOUNT,
        "--duration=2h",
    ])
    .await?;
    let ours = shared().await?.kubeconfig();
    let mut config = Kubeconfig::read_from(&ours)?;
    for user in &mut config.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.trim().to_owned().into()),
            ..AuthInfo::default()
        });
    }
    let path = ours.with_file_name("recommender.kubeconfig");
    std::fs::write(&path, serde_yaml_ng::to_string(&config)?)
        .with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}
