//! A large cluster: Deployments of two pods with a VPA object each, spread over namespaces.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::vpa::VerticalPodAutoscaler;
use e2e::{Namespace, in_parallel, namespace, requests, target, until_within, usage, workload};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Pods of one workload.
pub(crate) const REPLICAS: usize = 2;
const NAMESPACES: usize = 20;
/// Requests under way at the same time.
const PARALLEL: usize = 32;
/// Objects per page when all are counted.
const PAGE: u32 = 500;
/// The controllers make pods at their own pace.
const PATIENCE: Duration = Duration::from_mins(30);

/// Creates `count` workloads and waits until their pods run.
pub(crate) async fn make(client: &Client, workloads: usize) -> Result<()> {
    let mut namespaces = Vec::new();
    for _ in 0..NAMESPACES {
        let name = namespace(client, "team").await?;
        namespaces.push(name);
    }
    let made = (0..workloads).map(|number| {
        let namespace = Namespace::of(client.clone(), &namespaces[number % NAMESPACES]);
        async move {
            let name = format!("workload-{number}");
            let deployment = deployment(&name, number);
            namespace
                .create::<Deployment>(deployment)
                .await
                .context("make a Deployment")?;
            let spec = json!({"targetRef": target("Deployment", &name)});
            namespace
                .make::<VerticalPodAutoscaler>(&name, spec)
                .await
                .context("make a VPA object")?;
            anyhow::Ok(())
        }
    });
    in_parallel(PARALLEL, made).await?;
    let wanted = workloads * REPLICAS;
    until_within(
        PATIENCE,
        "all pods run",
        async || count_running(client).await,
        |running| *running >= wanted,
    )
    .await
}

/// Pods of all workloads that run.
async fn count_running(client: &Client) -> Result<usize> {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut parameters = ListParams::default()
        .labels("scale")
        .fields("status.phase=Running")
        .limit(PAGE);
    let mut count = 0;
    loop {
        let page = pods.list_metadata(&parameters).await?;
        count += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(count),
        }
    }
}

/// Every workload uses something else.
fn deployment(name: &str, number: usize) -> Value {
    let cpu = format!("{}m", 20 + number % 977);
    let usage = usage(&cpu, &format!("{}Mi", 30 + number % 1999));
    let mut deployment = workload(name, REPLICAS, &requests("1m", "10Mi"), &usage);
    deployment["spec"]["template"]["metadata"]["labels"]["scale"] = "true".into();
    deployment
}
