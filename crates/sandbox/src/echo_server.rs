//! A small server to try out hosted pods: it serves its own arguments, environment and files. As an
//! image it is `plimsoll/sandbox` with the argument `echo-server`.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};
use runtime::ListenAddress;
use runtime::address::listen_ip_from_environment;
use runtime::client::install_crypto_provider;
use serde_json::{Value, json};
use serving::http_server::{Limits, serve};
use serving::tls::{ServingTls, TlsFiles};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) const SUBCOMMAND: &str = "echo-server";

/// Arguments of the server.
#[derive(Debug, clap::Args)]
pub(crate) struct EchoArgs {
    /// Address to listen on.
    #[arg(long, env = "PLIMSOLL_SANDBOX_ECHO_ADDRESS", default_value = ":8080")]
    address: ListenAddress,
    /// Serve HTTPS with tls.crt and tls.key of this folder.
    #[arg(long, env = "PLIMSOLL_SANDBOX_ECHO_TLS_FOLDER")]
    tls_folder: Option<PathBuf>,
    /// File served at /file.
    #[arg(long, env = "PLIMSOLL_SANDBOX_ECHO_FILE")]
    file: Option<PathBuf>,
}

/// Serves until SIGTERM.
pub(crate) async fn echo(args: EchoArgs) -> Result<()> {
    let EchoArgs {
        address,
        tls_folder,
        file,
    } = args;
    install_crypto_provider();
    let mut terminated = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let address = address.or_host(listen_ip_from_environment().context("read the listen address")?);
    let listener = address
        .bind()
        .await
        .with_context(|| format!("listen on {address}"))?;
    let tls = match tls_folder {
        Some(folder) => Some(
            ServingTls::load(files(&folder))
                .await
                .context("load the certificate")?
                .current(),
        ),
        None => None,
    };
    println!("listening on {address} with {}", start());
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        terminated.recv().await;
        println!("asked to end");
        stop.cancel();
    });
    serve(listener, router(file), tls, Limits::default(), shutdown).await;
    Ok(())
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles {
        authorities: None,
        ..TlsFiles::in_folder(folder)
    }
}

/// Arguments, environment and process id.
fn start() -> Value {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let environment: BTreeMap<String, String> = env::vars().collect();
    json!({"arguments": arguments, "environment": environment, "process": std::process::id()})
}

fn router(file: Option<PathBuf>) -> Router {
    let content = move || {
        let file = file.clone();
        async move {
            read(file)
                .await
                .map_err(|error| (StatusCode::NOT_FOUND, format!("{error:#}\n")))
        }
    };
    let user = async || {
        who_am_i()
            .await
            .map_err(|error| (StatusCode::BAD_GATEWAY, format!("{error:#}\n")))
    };
    Router::new()
        .route("/", get(async || Json(start())))
        .route("/healthz", get("ok\n"))
        .route("/file", get(content))
        .route("/whoami", get(user))
        .route("/stop", get(async || println!("about to be stopped")))
        .route(
            "/deny",
            post(async |Json(review): Json<Value>| Json(denial(&review))),
        )
}

async fn read(file: Option<PathBuf>) -> Result<String> {
    let file = file.context("started without --file")?;
    tokio::fs::read_to_string(&file)
        .await
        .with_context(|| format!("read {}", file.display()))
}

async fn who_am_i() -> Result<String> {
    let client = Client::try_default().await.context("make a client")?;
    let reviews = Api::<SelfSubjectReview>::all(client);
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let status = review
        .context("ask the API server")?
        .status
        .unwrap_or_default();
    Ok(status
        .user_info
        .unwrap_or_default()
        .username
        .unwrap_or_default())
}

/// A webhook's answer that refuses the object.
fn denial(review: &Value) -> Value {
    let message = format!("denied by {}", env::var("HOSTNAME").unwrap_or_default());
    json!({
        "apiVersion": review["apiVersion"],
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": false, "status": {"message": message}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_answers_the_very_request() {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "7"}});
        let answer = denial(&review);
        assert_eq!(answer["response"]["uid"], "7");
        assert_eq!(answer["response"]["allowed"], false);
        assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    }
}
