//! In which order the containers of a pod start and end.

use anyhow::{Context, Result, ensure};
use e2e::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use super::fixture::{Fixture, IMAGE, PATIENCE, echo, with};

#[tokio::test]
async fn probes_of_every_kind_and_a_hook_before_the_end() -> Result<()> {
    let fixture = Fixture::new().await?;
    let container = with(
        echo(&[]),
        json!({
            "startupProbe": {"exec": {"command": ["/sandbox", "--version"]}, "periodSeconds": 1},
            "livenessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
            "lifecycle": {"preStop": {"httpGet": {"path": "/stop", "port": "http"}}},
        }),
    );
    let foreign = json!({"name": "foreign", "image": "registry.k8s.io/pause:3.10"});
    fixture
        .deploy(1, json!({"containers": [container, foreign]}), 80)
        .await?;
    let pod = fixture.ready(1).await?.remove(0).name_any();
    let mut follow = fixture.follow(&pod).await?;
    let mut lines = BufReader::new(follow.stdout.take().context("no output")?).lines();
    let mut next = async || {
        timeout(PATIENCE, lines.next_line())
            .await
            .context("no further line")??
            .context("the end")
    };
    ensure!(next().await?.starts_with("listening on 127."));
    fixture.pods.delete(&pod, &DeleteParams::default()).await?;
    assert_eq!(next().await?, "about to be stopped");
    assert_eq!(next().await?, "asked to end");
    follow.kill().await?;
    Ok(())
}

#[tokio::test]
async fn a_sidecar_starts_before_the_others_and_ends_after_them() -> Result<()> {
    let fixture = Fixture::new().await?;
    let sidecar = with(echo(&[]), json!({"restartPolicy": "Always"}));
    let main = json!({"name": "main", "image": IMAGE, "args": ["--version"]});
    let spec = json!({"restartPolicy": "Never", "initContainers": [sidecar], "containers": [main]});
    fixture
        .create::<Pod>(json!({"metadata": {"name": "pair"}, "spec": spec}))
        .await?;
    eventually("the pod has succeeded", PATIENCE, async || {
        let status = fixture.status("pair").await?;
        ensure!(status["phase"] == "Succeeded", "{status}");
        let ended =
            |list: &str, time: &str| status[list][0]["state"]["terminated"][time].to_string();
        let (sidecar, main) = ("initContainerStatuses", "containerStatuses");
        ensure!(
            ended(sidecar, "startedAt") <= ended(main, "startedAt"),
            "{status}"
        );
        ensure!(
            ended(sidecar, "finishedAt") >= ended(main, "finishedAt"),
            "{status}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_that_need_not_restart_ends_after_its_init_containers() -> Result<()> {
    let fixture = Fixture::new().await?;
    let run = |name: &str| json!({"name": name, "image": IMAGE, "args": ["--version"]});
    let spec = json!({"restartPolicy": "Never", "initContainers": [run("first")], "containers": [run("second")]});
    fixture
        .create::<Pod>(json!({"metadata": {"name": "once"}, "spec": spec}))
        .await?;
    eventually("the pod has succeeded", PATIENCE, async || {
        let status = fixture.status("once").await?;
        ensure!(status["phase"] == "Succeeded", "{status}");
        let started = |list: &str| status[list][0]["state"]["terminated"]["startedAt"].to_string();
        ensure!(
            started("initContainerStatuses") <= started("containerStatuses"),
            "{status}"
        );
        Ok(())
    })
    .await?;
    let log = fixture.kubectl(&["logs", "once", "-c", "first"]).await?;
    ensure!(log.starts_with("sandbox "), "{log}");
    fixture
        .pods
        .delete("once", &DeleteParams::default())
        .await?;
    eventually("the pod is gone", PATIENCE, async || {
        ensure!(
            fixture.pods.get_opt("once").await?.is_none(),
            "it is still there"
        );
        Ok(())
    })
    .await
}
