//! The webhook's server on a thread, and so on a core, of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;

use anyhow::{Context as _, Result};
use prometheus::Registry;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use runtime::serve::serve;
use runtime::tls::{ServingTls, TlsFiles};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use webhook::metrics::Metrics;
use webhook::overload::Load;
use webhook::serve::{LIMITS, Reviews};
use webhook::state::Settings;

use crate::cluster::view;
use crate::cores::{Thread, stay_on};

/// A running server, which ends with the process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: String,
    pub(crate) thread: Thread,
    _files: TempDir,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["webhook".to_owned()])?;
        let files = tempfile::tempdir()?;
        let path = |name| files.path().join(name);
        std::fs::write(path("cert"), cert.pem())?;
        std::fs::write(path("key"), signing_key.serialize_pem())?;
        let tls = TlsFiles { certificate: path("cert"), private_key: path("key"), authorities: None };
        let (started, start) = mpsc::channel();
        std::thread::spawn(move || run(tls, &started));
        let (address, thread) = start.recv()?.context("the server")?;
        Ok(Self { address, certificate: cert.pem(), thread, _files: files })
    }
}

fn run(tls: TlsFiles, started: &mpsc::Sender<Result<(SocketAddr, Thread)>>) {
    let beginning = || -> Result<_> {
        stay_on(0)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (listener, tls) = runtime.block_on(async {
            anyhow::Ok((TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?, ServingTls::load(tls).await?))
        })?;
        let address = listener.local_addr()?;
        let (_, view) = watch::channel(view()?);
        let reviews = Reviews {
            view,
            heard: None,
            settings: Arc::new(Settings::default()),
            metrics: Metrics::register(&Registry::new())?,
            load: Load::default(),
            leaving: CancellationToken::new(),
        };
        Ok((runtime, address, Thread::current()?, listener, tls, reviews))
    };
    match beginning() {
        Ok((runtime, address, thread, listener, tls, reviews)) => {
            started.send(Ok((address, thread))).ok();
            runtime.block_on(async {
                tokio::spawn(reviews.load.clone().measure());
                serve(listener, reviews.router(), Some(tls.current()), LIMITS, CancellationToken::new()).await;
            });
        }
        Err(error) => drop(started.send(Err(error))),
    }
}
