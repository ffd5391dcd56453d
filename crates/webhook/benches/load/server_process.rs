//! The main function of the server's process.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::Arc;

use admission::AdmissionConfig;
use anyhow::{Context as _, Result};
use prometheus::Registry;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serving::http_server::serve;
use serving::tls::{ServingTls, TlsFiles};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use webhook::metrics::Metrics;
use webhook::overload::Overload;
use webhook::serve::{LIMITS, ReviewHandler};

use crate::cluster::view;
use crate::cores::stay_on;

/// Serves on one thread until the parent process ends. Prints the address, then the certificate.
pub(crate) fn run() -> Result<()> {
    std::thread::spawn(|| {
        // Standard input ends with the parent process.
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    stay_on(0)?;
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["webhook".to_owned()])?;
    let files = tempfile::tempdir()?;
    let path = |name| files.path().join(name);
    std::fs::write(path("cert"), cert.pem())?;
    std::fs::write(path("key"), signing_key.serialize_pem())?;
    let tls = TlsFiles {
        certificate: path("cert"),
        private_key: path("key"),
        authorities: None,
    };
    let (_known, view) = watch::channel(view()?);
    let handler = ReviewHandler {
        view,
        feed: None,
        config: Arc::new(AdmissionConfig::default()),
        metrics: Metrics::register(&Registry::new())?,
        overload: Overload::default(),
        shutdown: CancellationToken::new(),
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let tls = ServingTls::load(tls).await?;
            drop(files);
            let (address, certificate) = (listener.local_addr()?, cert.pem());
            write!(std::io::stdout(), "{address}\n{certificate}").context("standard output")?;
            tokio::spawn(handler.overload.clone().measure());
            let (shutdown, tls) = (CancellationToken::new(), Some(tls.current()));
            serve(listener, handler.router(), tls, LIMITS, shutdown).await;
            Ok(())
        })
}
