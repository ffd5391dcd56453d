//! The adapter's server on a thread, and so on a core, of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use adapter::metrics::{Metrics, PREFIX};
use adapter::predictions::Predictions;
use adapter::providers::Providers;
use adapter::serve::{AdapterServer, LIMITS};
use anyhow::{Context as _, Result};
use clap::Parser;
use delegated_auth::{AuthArgs, DelegatedAuth};
use http::Method;
use jiff::Timestamp;
use kube::Client;
use prometheus::Registry;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use runtime::http_endpoints::Endpoints;
use runtime::{Activity, Readiness};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::PrivateKeyDer;
use serde_json::json;
use serving::http_server::serve;
use serving::tls::{ServingProfile, ServingTls, TlsFiles};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::view;

/// A running server, which ends with the process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The TLS configuration of the API server.
    pub(crate) client: Arc<ClientConfig>,
    /// The file with the CPU time of the server's thread.
    schedule: PathBuf,
    _files: TempDir,
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    auth: AuthArgs,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?;
        let issuer = Issuer::new(params, key);

        let files = tempfile::tempdir()?;
        let path = |name| files.path().join(name);
        let key = KeyPair::generate()?;
        let own = CertificateParams::new(["adapter".to_owned()])?.signed_by(&key, &issuer)?;
        std::fs::write(path("cert"), own.pem())?;
        std::fs::write(path("key"), key.serialize_pem())?;
        let tls = TlsFiles {
            certificate: path("cert"),
            private_key: path("key"),
            authorities: None,
        };

        let (started, start) = mpsc::channel();
        let trusted = authority.pem();
        std::thread::spawn(move || run(tls, &trusted, &started));
        let (address, thread) = start.recv()?.context("the server")?;
        let schedule = PathBuf::from("/proc").join(thread).join("schedstat");

        let mut params = CertificateParams::new([])?;
        params
            .distinguished_name
            .push(DnType::CommonName, "aggregator");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let proxy = params.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![proxy.der().clone()], key)?;
        Ok(Self {
            address,
            client: Arc::new(client),
            schedule,
            _files: files,
        })
    }

    pub(crate) fn cpu(&self) -> Result<Duration> {
        let text = std::fs::read_to_string(&self.schedule)?;
        let nanoseconds = text.split(' ').next().unwrap_or_default();
        Ok(Duration::from_nanos(nanoseconds.parse()?))
    }
}

/// An API server with the front proxy's CA that allows everybody to read metrics.
fn api_server(authority: &str) -> Client {
    let trusted = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "kube-system", "name": "extension-apiserver-authentication"},
        "data": {
            "requestheader-client-ca-file": authority,
            "requestheader-allowed-names": "[\"aggregator\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        },
    });
    let allowed = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "metadata": {}, "spec": {}, "status": {"allowed": true},
    });
    testing::api_server(move |request| {
        let is_review = request.method() == Method::POST;
        let object = if is_review { &allowed } else { &trusted };
        std::future::ready((200, object.clone()))
    })
}

fn run(tls: TlsFiles, authority: &str, started: &mpsc::Sender<Result<(SocketAddr, PathBuf)>>) {
    let beginning = || -> Result<_> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let registry = Registry::new();
        let metrics = Metrics::register(&registry)?;
        let (listener, tls, auth) = runtime.block_on(async {
            let flags = Flags::try_parse_from(["load"])?;
            let (client, readiness) = (api_server(authority), Readiness::default());
            let auth = DelegatedAuth::new(flags.auth, client, &registry, PREFIX, &readiness)?;
            auth.load().await?;
            let profile = ServingProfile {
                request_client_certificates: true,
                ..ServingProfile::default()
            };
            let tls = ServingTls::load_with(tls, profile).await?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            anyhow::Ok((listener, tls, auth))
        })?;
        let address = listener.local_addr()?;
        let health = Endpoints {
            registry,
            readiness: Readiness::default(),
            activity: Activity::default(),
            shutdown: CancellationToken::new(),
        };
        Ok((runtime, address, listener, tls, auth, metrics, health))
    };
    match beginning() {
        Ok((runtime, address, listener, tls, auth, metrics, health)) => {
            let (_, view) = watch::channel(view(Timestamp::now()));
            let server_state = AdapterServer {
                auth,
                providers: Providers {
                    predictions: Predictions::new(view),
                    rules: None,
                    routes: None,
                },
                metrics,
                health,
            };
            let thread = std::fs::read_link("/proc/thread-self").context("/proc/thread-self");
            started.send(thread.map(|thread| (address, thread))).ok();
            runtime.block_on(serve(
                listener,
                server_state.router(),
                Some(tls.current()),
                LIMITS,
                CancellationToken::new(),
            ));
        }
        Err(error) => drop(started.send(Err(error))),
    }
}
