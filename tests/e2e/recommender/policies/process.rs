//! A recommender as a process of the test, with the rights of one service account.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use e2e::{eventually, free_address, kubectl, program, shared};
use kube::config::{AuthInfo, Kubeconfig};
use tokio::process::{Child, Command};

use super::base::PATIENCE;

/// Starts one, which is killed when it is dropped.
pub(super) fn start(kubeconfig: &Path, arguments: &[&str], log: &Path) -> Result<Child> {
    Command::new(program("recommender")?)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--address={}", free_address()?))
        .args(["--leader-elect=false", "--recommender-interval=1s"])
        .args(arguments)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(log)?)
        .kill_on_drop(true)
        .spawn()
        .context("start a recommender")
}

/// The credentials of a service account, as a file in `folder`.
pub(super) async fn kubeconfig(namespace: &str, account: &str, folder: &Path) -> Result<PathBuf> {
    let make_token =
        async || kubectl(&["-n", namespace, "create", "token", account, "--duration=1h"]).await;
    let token = eventually("the account has a token", PATIENCE, make_token).await?;
    let mut config = Kubeconfig::read_from(shared().await?.kubeconfig())?;
    for user in &mut config.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.trim().to_owned().into()),
            ..AuthInfo::default()
        });
    }
    let path = folder.join("kubeconfig");
    std::fs::write(&path, serde_yaml_ng::to_string(&config)?)?;
    Ok(path)
}
