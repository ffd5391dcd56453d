//! Restarts of a process, and their report in the status.

use anyhow::{Context as _, Result, ensure};
use e2e::{Signal, eventually, process_of, signal, with};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::fixture::{Fixture, IMAGE, echo, runs};

#[tokio::test]
async fn a_killed_process_starts_again() -> Result<()> {
    let fixture = Fixture::new().await?;
    let pod = fixture.echo(echo(&[])).await?;
    let first = process_of(&pod)?;
    signal(first, Signal::KILL)?;
    eventually("the container has restarted", async || {
        let status = fixture.status(&pod.name_any()).await?["containerStatuses"][0].clone();
        ensure!(
            status["restartCount"] == 1 && status["ready"] == true,
            "{status}"
        );
        let last = &status["lastState"]["terminated"];
        ensure!(
            last["exitCode"] == 137 && last["reason"] == "Error",
            "{status}"
        );
        Ok(())
    })
    .await?;
    let previous = fixture
        .kubectl(&format!("logs {} --previous", pod.name_any()))
        .await?;
    ensure!(
        previous.contains(&format!("\"process\":{first}}}")),
        "{previous}"
    );
    Ok(())
}

#[tokio::test]
async fn a_container_that_keeps_failing_waits_longer_and_longer() -> Result<()> {
    let fixture = Fixture::new().await?;
    let spec =
        json!({"containers": [{"name": "echo", "image": IMAGE, "args": ["no-such-command"]}]});
    fixture.make::<Pod>("broken", spec).await?;
    eventually("the pod is in a crash loop", async || {
        let status = fixture.status("broken").await?["containerStatuses"][0].clone();
        let waiting = &status["state"]["waiting"];
        ensure!(
            waiting["reason"] == "CrashLoopBackOff" && status["restartCount"].as_u64() >= Some(1),
            "{status}"
        );
        ensure!(
            status["lastState"]["terminated"]["exitCode"] == 2,
            "{status}"
        );
        Ok(())
    })
    .await?;
    eventually("the log says why", async || {
        let log = fixture.kubectl("logs broken").await?;
        ensure!(log.contains("no-such-command"), "{log}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_failed_liveness_probe_restarts_the_container() -> Result<()> {
    let fixture = Fixture::new().await?;
    let probe = json!({"httpGet": {"path": "/absent", "port": "http"}, "periodSeconds": 1, "failureThreshold": 1});
    fixture
        .deploy(
            1,
            json!({"containers": [with(echo(&[]), json!({"livenessProbe": probe}))]}),
            80,
        )
        .await?;
    let pod = eventually("the container has restarted", async || {
        let pods = fixture.pods_of("echo").await?;
        let pod = pods.first().context("no pod yet")?.name_any();
        let status = fixture.status(&pod).await?["containerStatuses"][0].clone();
        ensure!(status["restartCount"].as_u64() >= Some(1), "{status}");
        Ok(pod)
    })
    .await?;
    eventually("events say why", async || {
        let described = fixture.kubectl(&format!("describe pod {pod}")).await?;
        let why = "liveness probe of container echo failed: HTTP probe failed with statuscode: 404";
        ensure!(described.contains(why), "{described}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_resize_is_reported_and_restarts_the_process_only_where_asked() -> Result<()> {
    let fixture = Fixture::new().await?;
    let container = with(
        echo(&[]),
        json!({
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
        }),
    );
    let pod = fixture.echo(container).await?.name_any();
    for (resource, value, restarts) in [("cpu", "20m", 0), ("memory", "32Mi", 1)] {
        let containers = json!([{"name": "echo", "resources": {"requests": {resource: value}}}]);
        let patch = json!({"spec": {"containers": containers}}).to_string();
        fixture
            .kubectl(&format!(
                "patch pod {pod} --subresource resize --patch {patch}"
            ))
            .await?;
        eventually("the resize is done", async || {
            let status = fixture.status(&pod).await?["containerStatuses"][0].clone();
            ensure!(
                status["resources"]["requests"][resource] == value,
                "{status}"
            );
            ensure!(status["allocatedResources"][resource] == value, "{status}");
            ensure!(
                status["restartCount"] == restarts && status["ready"] == true,
                "{status}"
            );
            Ok(())
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_rollout_replaces_the_processes() -> Result<()> {
    let fixture = Fixture::new().await?;
    fixture
        .deploy(
            2,
            json!({"containers": [echo(&[])], "terminationGracePeriodSeconds": 5}),
            80,
        )
        .await?;
    let before = processes(&fixture).await?;
    assert!(before.iter().copied().all(runs));
    fixture.kubectl("rollout restart deployment/echo").await?;
    fixture
        .kubectl("rollout status deployment/echo --timeout=180s")
        .await?;
    let after = processes(&fixture).await?;
    assert!(
        after.iter().all(|process| !before.contains(process)),
        "{before:?} {after:?}"
    );
    assert!(after.iter().copied().all(runs));
    eventually("the old processes are gone", async || {
        ensure!(!before.iter().copied().any(runs), "{before:?}");
        Ok(())
    })
    .await
}

/// The processes of both replicas, once they are ready.
async fn processes(fixture: &Fixture) -> Result<Vec<u32>> {
    fixture.ready(2).await?.iter().map(process_of).collect()
}
