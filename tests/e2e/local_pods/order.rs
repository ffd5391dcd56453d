//! Start and stop order of a pod's containers.

use anyhow::{Result, ensure};
use e2e::{eventually, with};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::fixture::{Fixture, IMAGE, echo};

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
    ensure!(follow.next().await?.starts_with("listening on 127."));
    fixture.delete::<Pod>(&pod).await?;
    assert_eq!(follow.next().await?, "about to be stopped");
    assert_eq!(follow.next().await?, "asked to end");
    Ok(())
}

#[tokio::test]
async fn a_sidecar_starts_before_the_others_and_ends_after_them() -> Result<()> {
    let fixture = Fixture::new().await?;
    let sidecar = with(echo(&[]), json!({"restartPolicy": "Always"}));
    let main = json!({"name": "main", "image": IMAGE, "args": ["--version"]});
    let spec = json!({"restartPolicy": "Never", "initContainers": [sidecar], "containers": [main]});
    fixture.make::<Pod>("pair", spec).await?;
    eventually("the pod has succeeded", async || {
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
    fixture.make::<Pod>("once", spec).await?;
    eventually("the pod has succeeded", async || {
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
    let log = fixture.kubectl("logs once -c first").await?;
    ensure!(log.starts_with("sandbox "), "{log}");
    fixture.delete::<Pod>("once").await?;
    fixture.gone::<Pod>("once").await
}
