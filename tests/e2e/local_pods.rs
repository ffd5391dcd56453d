//! Pods with an image of ours run as processes: `plimsoll/sandbox`, whose echo server says what it
//! was started with and what it sees.

#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values read better without references"
)]

mod connections;
mod fixture;
mod order;
mod restarts;

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::{Signal, eventually, process_of, signal, with};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use fixture::{Fixture, describe, echo};

#[tokio::test]
async fn logs_are_printed_and_followed_over_a_restart() -> Result<()> {
    let fixture = Fixture::new().await?;
    let pod = fixture.echo(echo(&[])).await?;
    eventually("the log is there", async || {
        let log = fixture.kubectl(&format!("logs {}", pod.name_any())).await?;
        ensure!(log.starts_with("listening on 127."), "{log}");
        Ok(())
    })
    .await?;
    let mut follow = fixture.follow(&pod.name_any()).await?;
    ensure!(follow.next().await?.starts_with("listening on 127."));
    signal(process_of(&pod)?, Signal::TERM)?;
    assert_eq!(follow.next().await?, "asked to end");
    ensure!(follow.next().await?.starts_with("listening on 127."));
    Ok(())
}

#[tokio::test]
async fn a_mounted_secret_follows_its_changes() -> Result<()> {
    let fixture = Fixture::new().await?;
    let container = with(
        echo(&["--file=/etc/settings/mode"]),
        json!({"volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}]}),
    );
    let volumes = json!([{"name": "settings", "secret": {"secretName": "settings"}}]);
    fixture
        .deploy(
            1,
            json!({"containers": [container], "volumes": volumes}),
            80,
        )
        .await?;
    eventually("the pod waits for its secret", async || {
        let pods = fixture.pods_of("echo").await?;
        let seen = describe(&pods);
        ensure!(seen.contains("secret \\\"settings\\\" not found"), "{seen}");
        Ok(())
    })
    .await?;
    fixture.secret("settings", json!({"mode": "fast"})).await?;
    let pod = format!("pods/{}:8080", fixture.ready(1).await?.remove(0).name_any());
    assert_eq!(fixture.proxied(&pod, "/file").await?, "fast");
    let slow = json!({"stringData": {"mode": "slow"}});
    fixture.patch::<Secret>("settings", slow).await?;
    eventually("the change arrives", async || {
        let seen = fixture.proxied(&pod, "/file").await?;
        ensure!(seen == "slow", "{seen:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn usage_is_that_of_the_process() -> Result<()> {
    let fixture = Fixture::new().await?;
    let told = json!({"metadata": {"name": "told", "annotations": {
        "sandbox.plimsoll.dev/own-usage": "true", "kwok.x-k8s.io/usage-memory": "77Mi",
    }}, "spec": {"containers": [echo(&[])]}});
    // A new namespace has no service account for its pods yet.
    let make = async || Ok(fixture.create::<Pod>(told.clone()).await?);
    eventually("the pod is created", make).await?;
    let is_ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
    fixture.when::<Pod>("told", "it is ready", is_ready).await?;
    let pod = fixture.echo(echo(&[])).await?;
    let resident = fs::read_to_string(format!("/proc/{}/statm", process_of(&pod)?))?;
    ensure!(
        resident.split(' ').nth(1).is_some_and(|pages| pages != "0"),
        "{resident}"
    );
    eventually("the pod says what it uses", async || {
        let pod = fixture.get::<Pod>(&pod.name_any()).await?;
        let memory = &pod["metadata"]["annotations"]["kwok.x-k8s.io/usage-memory"];
        let memory = memory.as_str().context("no usage yet")?;
        let kibibytes: u64 = memory
            .strip_suffix("Ki")
            .context("not in kibibytes")?
            .parse()?;
        ensure!((1024..1024 * 1024).contains(&kibibytes), "{memory}");
        Ok(())
    })
    .await?;
    let older = fixture.get::<Pod>("told").await?;
    let annotations = &older["metadata"]["annotations"];
    assert_eq!(annotations["kwok.x-k8s.io/usage-memory"], "77Mi");
    Ok(())
}
