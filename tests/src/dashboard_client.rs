//! A client of the dashboard in the cluster, as a browser or a proxy is one.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use kube::client::Body;
use sandbox::Sandbox;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{Namespace, PATIENCE, kubectl_in};

/// The headers of a request, and of a form, to a dashboard with the host `plimsoll.example.com`.
pub const HOST: &str = "Host: plimsoll.example.com";
pub const ORIGIN: &str = "Origin: https://plimsoll.example.com";

pub enum DashboardClient {
    Direct(SocketAddr),
    /// Through the API server, which keeps all headers but those of credentials, to a Service by its path.
    Proxied(Client, String),
}

impl DashboardClient {
    /// The response to a request with these lines of headers and this body.
    pub async fn send(&self, line: &str, headers: &[&str], body: &str) -> Result<String> {
        match self {
            Self::Direct(address) => {
                let mut stream = TcpStream::connect(address).await?;
                let (headers, length) = (headers.join("\r\n"), body.len());
                let request = format!(
                    "{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n\r\n{body}"
                );
                stream.write_all(request.as_bytes()).await?;
                let mut response = String::new();
                timeout(PATIENCE, stream.read_to_string(&mut response)).await??;
                Ok(response)
            }
            Self::Proxied(client, service) => {
                let (method, path) = line.split_once(' ').context("a method")?;
                let mut request = Request::builder()
                    .method(method)
                    .uri(format!("{service}{path}"));
                for (name, value) in headers.iter().filter_map(|it| it.split_once(": ")) {
                    request = request.header(name, value);
                }
                let request = request.body(Body::from(body.as_bytes().to_vec()))?;
                let response = timeout(PATIENCE, client.send(request)).await??;
                let (parts, body) = response.into_parts();
                let mut text = format!("HTTP/1.1 {}\r\n", parts.status);
                for (name, value) in &parts.headers {
                    text += &[name.as_str(), ": ", value.to_str()?, "\r\n"].concat();
                }
                let body = body.collect_bytes().await?;
                Ok(text + "\r\n" + str::from_utf8(&body)?)
            }
        }
    }

    /// The response of a request, which must have this status.
    pub async fn check(&self, line: &str, headers: &[&str], status: u16) -> Result<String> {
        let response = self.send(line, headers, "").await?;
        let expected = format!("HTTP/1.1 {status} ");
        ensure!(
            response.starts_with(&expected),
            "{line} {headers:?}: {response}"
        );
        Ok(response)
    }

    /// Logs in, and returns the line of the header with the session.
    pub async fn log_in(&self, token: &str) -> Result<String> {
        let form = format!("token={token}");
        let response = self.send("POST /login", &[HOST, ORIGIN], &form).await?;
        ensure!(response.starts_with("HTTP/1.1 303 "), "{response}");
        let (_, cookie) = response.split_once("set-cookie: ").context("a cookie")?;
        let (cookie, _) = cookie.split_once("\r\n").context("a line")?;
        let (pair, attributes) = cookie.split_once("; ").context("attributes")?;
        ensure!(
            pair.starts_with("__Host-plimsoll=")
                && attributes == "Path=/; Max-Age=28800; Secure; HttpOnly; SameSite=Lax",
            "{cookie}"
        );
        Ok(format!("Cookie: other=1; {pair}"))
    }
}

/// The token of a service account that may view its own namespace.
pub async fn viewer(sandbox: &Sandbox, own: &Namespace) -> Result<String> {
    own.create::<ServiceAccount>(json!({"metadata": {"name": "viewer"}}))
        .await?;
    let reads = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]});
    own.create::<Role>(json!({"metadata": {"name": "viewer"}, "rules": [reads]}))
        .await?;
    let subject = json!({"kind": "ServiceAccount", "name": "viewer", "namespace": own.namespace});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"});
    let binding = json!({"metadata": {"name": "viewer"}, "roleRef": role, "subjects": [subject]});
    own.create::<RoleBinding>(binding).await?;
    let token = kubectl_in(
        sandbox,
        &format!("-n {} create token viewer", own.namespace),
    )
    .await?;
    Ok(token.trim().to_owned())
}
