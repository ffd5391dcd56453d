//! The process of the server, as seen by the client, and its main function.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
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
use crate::cores::{Thread, stay_on};

/// The argument that makes this program the server.
pub(crate) const SERVE: &str = "serve";
const LAST_LINE: &str = "-----END CERTIFICATE-----";

/// A running server, which ends when dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) certificate: String,
    pub(crate) thread: Thread,
}

impl Server {
    /// Starts the server and waits until it serves.
    pub(crate) fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut lines = BufReader::new(process.stdout.take().context("its output")?).lines();
        let address = lines.next().context("the server ended")??;
        let address = address.parse().context("its address")?;
        let mut certificate = String::new();
        while !certificate.contains(LAST_LINE) {
            certificate += &lines.next().context("its certificate ended")??;
            certificate.push('\n');
        }
        let thread = Thread::first_of(process.id());
        Ok(Self {
            process,
            address,
            certificate,
            thread,
        })
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id()))?;
        let pages = statm.split(' ').nth(1).context("statm")?;
        Ok(pages.parse::<u64>()? * 4096)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if the process has already ended.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

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
