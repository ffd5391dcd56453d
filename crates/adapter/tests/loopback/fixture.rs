//! The adapter's endpoint over real TLS, with authentication by the API server of these tests.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use adapter::metrics::{Metrics, PREFIX};
use adapter::providers::Providers;
use adapter::routes::Routes;
use adapter::serve::{AdapterServer, LIMITS};
use axum::Router;
use delegated_auth::{AuthArgs, DelegatedAuth};
use kube::Client;
use prometheus::Registry;
use runtime::http_endpoints::Endpoints;
use runtime::{Activity, ApiServerClock, Program, Readiness};
use rustls::crypto::aws_lc_rs;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use serving::http_server::Limits;
use serving::own_service::OwnService;
use serving::tls::{ServingProfile, ServingTls, TlsFiles};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::api_server::{ApiServer, Data};
use crate::ca::{Ca, Identity};

/// A request for an external metric; its verb is `list`.
pub(crate) const QUEUE: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue";

/// The fixture. It ends when dropped.
pub(crate) struct Fixture {
    pub(crate) api: ApiServer,
    /// The API server's time as authentication knows it; initially the machine's.
    pub(crate) clock: ApiServerClock,
    pub(crate) registry: Registry,
    pub(crate) proxies: Ca,
    pub(crate) clients: Ca,
    /// The routes; initially none.
    pub(crate) routes: Routes,
    pub(crate) servers: Ca,
    pub(crate) address: SocketAddr,
    folder: TempDir,
    tasks: Vec<AbortHandle>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    auth: AuthArgs,
}

/// Parses flags of authentication and authorization.
fn flags(words: &[&str]) -> AuthArgs {
    let program = Program {
        name: "adapter",
        version: "",
        defaults: &[],
    };
    let flags: Flags = program
        .try_parse_from(std::iter::once(&"adapter").chain(words))
        .unwrap();
    flags.auth
}

/// Returns the entries that an API server writes into the `ConfigMap`.
pub(crate) fn configuration(proxies: &str, clients: &str, allowed_names: &str) -> Data {
    [
        ("client-ca-file", clients),
        ("requestheader-client-ca-file", proxies),
        ("requestheader-allowed-names", allowed_names),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        (
            "requestheader-extra-headers-prefix",
            r#"["X-Remote-Extra-"]"#,
        ),
    ]
    .map(|(key, text)| (key, text.to_owned()))
    .into()
}

const NAMES: &str = r#"["front-proxy-client"]"#;

pub(crate) fn usual(proxies: &Ca, clients: &Ca) -> Data {
    configuration(&proxies.pem(), &clients.pem(), NAMES)
}

/// Returns authentication with these flags, not loaded yet.
pub(crate) fn authentication(
    words: &[&str],
    api: &ApiServer,
    registry: &Registry,
    readiness: &Readiness,
) -> DelegatedAuth {
    runtime::client::install_crypto_provider();
    let client = api.client.clone();
    DelegatedAuth::new(flags(words), client, registry, PREFIX, readiness).unwrap()
}

/// The adapter's endpoint without metrics: an authorized request gets a 404.
fn router(
    auth: DelegatedAuth,
    routes: Routes,
    registry: &Registry,
    readiness: Readiness,
) -> Router {
    let server = AdapterServer {
        auth,
        providers: Providers {
            routes: Some(routes),
            ..Providers::default()
        },
        metrics: Metrics::register(registry).unwrap(),
        health: Endpoints {
            registry: registry.clone(),
            readiness,
            activity: Activity::default(),
            shutdown: CancellationToken::new(),
        },
    };
    server.router()
}

impl Fixture {
    pub(crate) async fn new(words: &[&str]) -> Self {
        Self::with(words, |proxies, clients| Some(usual(proxies, clients))).await
    }

    pub(crate) async fn with(
        words: &[&str],
        configuration: impl FnOnce(&Ca, &Ca) -> Option<Data>,
    ) -> Self {
        Self::within(LIMITS, words, configuration).await
    }

    /// Starts with other limits than the program's.
    pub(crate) async fn within(
        limits: Limits,
        words: &[&str],
        configuration: impl FnOnce(&Ca, &Ca) -> Option<Data>,
    ) -> Self {
        let [proxies, clients, servers] = ["proxies", "clients", "servers"].map(Ca::new);
        let api = ApiServer::start(configuration(&proxies, &clients)).await;
        let registry = Registry::new();
        let readiness = Readiness::default();
        let clock = ApiServerClock::default();
        let auth = authentication(words, &api, &registry, &readiness).with_clock(clock.clone());
        auth.load().await.unwrap();
        let following = tokio::spawn(auth.clone().follow());

        let folder = tempfile::tempdir().unwrap();
        let routes = routes(&folder, api.client.clone(), &registry).await;
        let tls = tls(&folder, &servers.server("localhost"), None).await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = router(auth, routes.clone(), &registry, readiness);
        let server = tokio::spawn(serving::http_server::serve(
            listener,
            app,
            Some(tls.current()),
            limits,
            CancellationToken::new(),
        ));
        let tasks = vec![following.abort_handle(), server.abort_handle()];
        Self {
            api,
            clock,
            registry,
            proxies,
            clients,
            routes,
            servers,
            address,
            folder,
            tasks,
        }
    }

    /// Writes a file next to the routes file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        write(&self.folder, name, text)
    }

    pub(crate) async fn set_routes(&self, text: &str) -> Result<(), String> {
        self.write("routes.yaml", text);
        let reloaded = self.routes.reload().await;
        reloaded.map_err(|error| format!("{error:#}"))
    }

    /// Replaces the entries of the `ConfigMap`, with the usual names of front proxies.
    pub(crate) fn configure(&self, proxies: &str, clients: &str) {
        self.api.configure(configuration(proxies, clients, NAMES));
    }

    /// Opens a front proxy's connection.
    pub(crate) async fn proxy(&self) -> Connection {
        self.connect(Some(&self.proxies.client("front-proxy-client")))
            .await
    }

    pub(crate) async fn connect(&self, identity: Option<&Identity>) -> Connection {
        Connection(self.open(identity, b"http/1.1").await)
    }

    pub(crate) async fn open(
        &self,
        identity: Option<&Identity>,
        protocol: &[u8],
    ) -> TlsStream<TcpStream> {
        self.open_from(Ipv4Addr::LOCALHOST, identity, protocol)
            .await
    }

    /// Opens a connection from another address with these credentials.
    pub(crate) async fn connect_from(
        &self,
        from: Ipv4Addr,
        identity: Option<&Identity>,
    ) -> Connection {
        Connection(self.open_from(from, identity, b"http/1.1").await)
    }

    /// Every address that begins with 127 is local.
    async fn open_from(
        &self,
        from: Ipv4Addr,
        identity: Option<&Identity>,
        protocol: &[u8],
    ) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.servers.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key, .. }) => {
                let key = aws_lc_rs::sign::any_supported_type(key).unwrap();
                let shown = CertifiedKey::new(chain.clone(), key);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap()
    }

    pub(crate) fn metrics(&self) -> String {
        prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap()
    }

    pub(crate) fn check_metrics(&self, text: &str) {
        let metrics = self.metrics();
        assert!(metrics.contains(text), "{metrics}");
    }

    /// Returns the user of the last access review since the last call; empty without a review.
    pub(crate) fn last_user(&self) -> String {
        let reviews = self.api.reviews();
        let user = reviews.last().map(|spec| spec["user"].as_str().unwrap());
        user.unwrap_or_default().to_owned()
    }

    /// Requests a path without credentials.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        self.connect(None).await.get(path, &[]).await
    }
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Each adapter of these tests has its own Service name.
async fn routes(folder: &TempDir, client: Client, registry: &Registry) -> Routes {
    let [file, token] = [("routes.yaml", ""), ("token", "token-of-hpa")]
        .map(|(name, text)| write(folder, name, text));
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    let own = OwnService::new("plimsoll", name);
    let routes = Routes::load(file, token, own, client, registry).await;
    routes.unwrap()
}

/// With a client CA, connections without a certificate from it are rejected.
pub(crate) async fn tls(folder: &TempDir, identity: &Identity, clients: Option<&Ca>) -> ServingTls {
    let (certificate, key) = &identity.pem;
    let files = TlsFiles {
        certificate: write(folder, "tls.crt", certificate),
        private_key: write(folder, "tls.key", key),
        authorities: clients.map(|clients| write(folder, "ca.crt", &clients.pem())),
    };
    let profile = ServingProfile {
        request_client_certificates: true,
        ..ServingProfile::default()
    };
    ServingTls::load_with(files, profile).await.unwrap()
}

pub(crate) struct Connection(TlsStream<TcpStream>);

impl Connection {
    /// Sends a request with these header lines; returns the status code and the body of the
    /// response.
    pub(crate) async fn get(&mut self, path: &str, headers: &[&str]) -> (u16, String) {
        let mut lines = vec![format!("GET {path} HTTP/1.1"), "Host: localhost".to_owned()];
        lines.extend(headers.iter().map(|line| (*line).to_owned()));
        let head = lines.join("\r\n") + "\r\n\r\n";
        self.0.write_all(head.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        loop {
            let mut part = [0; 4096];
            let read = self.0.read(&mut part).await.unwrap();
            seen.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&seen).into_owned();
            assert!(read > 0, "closed after {text:?}");
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let head = head.to_ascii_lowercase();
            let (_, length) = head.split_once("content-length: ").expect("a length");
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            if body.len() >= length {
                let code = head.split(' ').nth(1).expect("a code");
                return (code.parse().unwrap(), body.to_owned());
            }
        }
    }

    /// Requests an external metric; returns the status code.
    pub(crate) async fn queue(&mut self, headers: &[&str]) -> u16 {
        self.get(QUEUE, headers).await.0
    }
}
