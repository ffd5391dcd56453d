//! The resource consumer of Kubernetes' end-to-end tests on simulated nodes: it uses nothing, and writes
//! what it is asked to use into the annotations from which a simulated node reports the usage of its pod.

use std::env;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::post;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;

/// Port of the resource consumer in the specs.
const PORT: u16 = 8080;

/// The pod that the program runs in.
#[derive(Clone)]
struct Own {
    pods: Api<Pod>,
    name: String,
}

/// Usage until the next request; the specs ask again before its time is over.
#[derive(Deserialize)]
struct Asked {
    millicores: Option<u64>,
    megabytes: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let own = Own {
        pods: Api::default_namespaced(Client::try_default().await?),
        name: env::var("HOSTNAME").context("HOSTNAME is the name of the pod")?,
    };
    let address = env::var("PLIMSOLL_LISTEN_IP").context("PLIMSOLL_LISTEN_IP")?;
    let address: IpAddr = address.parse().context("PLIMSOLL_LISTEN_IP")?;
    let listener = TcpListener::bind(SocketAddr::new(address, PORT)).await?;
    let routes = Router::new()
        .route("/ConsumeCPU", post(consume))
        .route("/ConsumeMem", post(consume))
        .with_state(own);
    axum::serve(listener, routes).await?;
    Ok(())
}

async fn consume(State(own): State<Own>, Query(asked): Query<Asked>) -> (StatusCode, String) {
    let mut annotations = serde_json::Map::new();
    if let Some(millicores) = asked.millicores {
        let usage = format!("{millicores}m");
        annotations.insert("kwok.x-k8s.io/usage-cpu".to_owned(), usage.into());
    }
    if let Some(megabytes) = asked.megabytes {
        let usage = format!("{megabytes}Mi");
        annotations.insert("kwok.x-k8s.io/usage-memory".to_owned(), usage.into());
    }
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let params = PatchParams::default();
    match own.pods.patch(&own.name, &params, &patch).await {
        Ok(_) => (StatusCode::OK, String::new()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
