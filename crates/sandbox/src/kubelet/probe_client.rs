//! The network client of probes. It accepts every certificate, as a kubelet does.

use anyhow::Result;
use http::{Request, StatusCode};
use kube::Config;
use kube::client::{Body, ClientBuilder};
use tokio::net::TcpStream;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

/// An HTTP request of a probe or a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Get {
    pub(super) tls: bool,
    /// Name or address; `None` is the pod's address.
    pub(super) host: Option<String>,
    pub(super) port: u16,
    /// Path and query.
    pub(super) path: String,
    /// Headers, which replace the default ones.
    pub(super) headers: Vec<(String, String)>,
}

/// Connects, or returns the error as text.
pub(super) async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    TcpStream::connect((host, port))
        .await
        .map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

/// Succeeds when the answer's status is 200 to 399.
pub(super) async fn get(get: &Get, pod_address: &str) -> Result<(), String> {
    // A failed probe is an event of its pod, not an error in the log of the sandbox.
    let status = send(get, pod_address).with_subscriber(NoSubscriber::default());
    match status.await {
        Ok(status) if (200..400).contains(&status.as_u16()) => Ok(()),
        Ok(status) => Err(format!(
            "HTTP probe failed with statuscode: {}",
            status.as_u16()
        )),
        Err(error) => Err(format!("get {}: {error:#}", get.path)),
    }
}

async fn send(get: &Get, pod_address: &str) -> Result<StatusCode> {
    let scheme = if get.tls { "https" } else { "http" };
    let host = get.host.as_deref().unwrap_or(pod_address);
    let mut config = Config::new(format!("{scheme}://{host}:{}", get.port).parse()?);
    config.accept_invalid_certs = true;
    config.root_cert = Some(Vec::new());
    config.default_retry = false;
    let request = Request::get(&get.path).header("user-agent", "kube-probe/plimsoll");
    let request = get.headers.iter().fold(request, |request, (name, value)| {
        request.header(name, value)
    });
    let client = ClientBuilder::try_from(config)?.build();
    Ok(client.send(request.body(Body::empty())?).await?.status())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[track_caller]
    fn check(answer: &'static str, expected: Result<(), &str>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let outcome = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
            let request = Get {
                tls: false,
                host: None,
                port,
                path: "/readyz".to_owned(),
                headers: Vec::new(),
            };
            get(&request, "127.0.0.1").await
        });
        assert_eq!(outcome, expected.map_err(str::to_owned));
    }

    #[test]
    fn the_status_decides() {
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Ok(()));
        check("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", Ok(()));
        check(
            "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n",
            Err("HTTP probe failed with statuscode: 503"),
        );
    }

    #[test]
    fn a_closed_port_fails() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let error = runtime.block_on(connect("127.0.0.1", closed)).unwrap_err();
        assert!(
            error.starts_with(&format!("dial tcp 127.0.0.1:{closed}: ")),
            "{error}"
        );
    }
}
