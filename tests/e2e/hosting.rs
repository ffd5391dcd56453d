//! Pods with an image of ours run as processes: `plimsoll/sandbox`, whose echo server says what it
//! was started with and what it sees.

#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values read better without references"
)]

mod fixture;
mod order;
mod reach;
mod restarts;

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::eventually;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use fixture::{Fixture, PATIENCE, describe, echo, process, signal, with};

#[tokio::test]
async fn logs_are_printed_and_followed_over_a_restart() -> Result<()> {
    let fixture = Fixture::new().await?;
    fixture
        .deploy(1, json!({"containers": [echo(&[])]}), 80)
        .await?;
    let pod = fixture.ready(1).await?.remove(0);
    eventually("the log is there", PATIENCE, async || {
        let log = fixture.kubectl(&["logs", &pod.name_any()]).await?;
        ensure!(log.starts_with("listening on 127."), "{log}");
        Ok(())
    })
    .await?;
    let mut follow = fixture.follow(&pod.name_any()).await?;
    let mut lines = BufReader::new(follow.stdout.take().context("no output")?).lines();
    let mut next = async || {
        timeout(PATIENCE, lines.next_line())
            .await
            .context("no further line")??
            .context("the end")
    };
    ensure!(next().await?.starts_with("listening on 127."));
    signal("TERM", process(&pod)?)?;
    assert_eq!(next().await?, "asked to end");
    ensure!(next().await?.starts_with("listening on 127."));
    follow.kill().await?;
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
    eventually("the pod waits for its secret", PATIENCE, async || {
        let pods = fixture
            .pods
            .list(&ListParams::default().labels("app=echo"))
            .await?
            .items;
        let seen = describe(&pods);
        ensure!(seen.contains("secret \\\"settings\\\" not found"), "{seen}");
        Ok(())
    })
    .await?;
    fixture.secret("settings", &[("mode", "fast")]).await?;
    let pod = format!("pods/{}:8080", fixture.ready(1).await?.remove(0).name_any());
    assert_eq!(fixture.get(&pod, "/file").await?, "fast");
    let secrets: Api<Secret> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let patch = Patch::Merge(json!({"data": {"mode": ByteString(b"slow".to_vec())}}));
    secrets
        .patch("settings", &PatchParams::default(), &patch)
        .await?;
    eventually("the change arrives", PATIENCE, async || {
        let seen = fixture.get(&pod, "/file").await?;
        ensure!(seen == "slow", "{seen:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn usage_is_that_of_the_process() -> Result<()> {
    let fixture = Fixture::new().await?;
    fixture
        .deploy(1, json!({"containers": [echo(&[])]}), 80)
        .await?;
    let pod = fixture.ready(1).await?.remove(0);
    let resident = fs::read_to_string(format!("/proc/{}/statm", process(&pod)?))?;
    ensure!(
        resident.split(' ').nth(1).is_some_and(|pages| pages != "0"),
        "{resident}"
    );
    eventually("the pod says what it uses", PATIENCE, async || {
        let annotations = fixture
            .pods
            .get(&pod.name_any())
            .await?
            .annotations()
            .clone();
        let memory = annotations
            .get("kwok.x-k8s.io/usage-memory")
            .context("no usage yet")?;
        let kibibytes: u64 = memory
            .strip_suffix("Ki")
            .context("not in kibibytes")?
            .parse()?;
        ensure!((1024..1024 * 1024).contains(&kibibytes), "{memory}");
        Ok(())
    })
    .await
}
