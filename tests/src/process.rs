//! Programs of the suite as processes of a test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use sandbox::Sandbox;
use tokio::process::Command;

use crate::{eventually, kubectl_in, program};

/// A program that is killed when its process is dropped. Its log is appended to `log`.
pub fn command(name: &str, kubeconfig: &Path, log: &Path) -> Result<Command> {
    let log = File::options().create(true).append(true).open(log);
    let mut command = Command::new(program(name)?);
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.context("open the log")?)
        .kill_on_drop(true);
    Ok(command)
}

/// The configuration of a client that is this service account for the next two hours.
pub async fn account(sandbox: &Sandbox, namespace: &str, name: &str) -> Result<Kubeconfig> {
    let create = format!("-n {namespace} create token {name} --duration=2h");
    let token = eventually("the account has a token", async || {
        kubectl_in(sandbox, &create).await
    })
    .await?;
    let mut config = Kubeconfig::read_from(sandbox.kubeconfig())?;
    for user in &mut config.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.trim().to_owned().into()),
            ..AuthInfo::default()
        });
    }
    Ok(config)
}

/// The same in a new file beside the kubeconfig of the sandbox.
pub async fn account_file(sandbox: &Sandbox, namespace: &str, name: &str) -> Result<PathBuf> {
    let config = account(sandbox, namespace, name).await?;
    let folder = sandbox.kubeconfig().with_file_name("");
    let (_, file) = tempfile::NamedTempFile::new_in(folder)?.keep()?;
    fs::write(&file, serde_yaml_ng::to_string(&config)?)?;
    Ok(file)
}

/// A client with this configuration.
pub async fn client_of(config: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
