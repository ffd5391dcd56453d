//! Where a reader finds the recommender's feed, and with which certificates: by the Leases of those
//! who lead.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use kube::Api;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::sync::watch;

use crate::tls::{ClientTls, RELOAD_PERIOD, TlsFiles};
use runtime::chassis::Chassis;
use runtime::follow::follow_shards;

/// Flags of a reader of the feed. It is off unless the three files are given.
#[derive(Debug, Clone, clap::Args)]
pub struct FeedReaderArgs {
    /// Certificate chain (PEM) that the feed is shown. Reread when it changes; while it is missing,
    /// the status of VPA objects has to do. Needs --feed-tls-private-key-file and --feed-ca-file.
    #[arg(long, value_name = "FILE", requires_all = ["feed_tls_private_key_file", "feed_ca_file"])]
    pub feed_tls_cert_file: Option<PathBuf>,
    /// Private key (PEM) of --feed-tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "feed_tls_cert_file")]
    pub feed_tls_private_key_file: Option<PathBuf>,
    /// Authorities (PEM) that the feed's certificate must come from.
    #[arg(long, value_name = "FILE", requires = "feed_tls_cert_file")]
    pub feed_ca_file: Option<PathBuf>,
    /// DNS name that the feed's certificate must carry, whatever its address is.
    #[arg(long, default_value = "plimsoll-recommender", value_name = "NAME")]
    pub feed_server_name: String,
    /// Name of the Lease whose holder serves the feed.
    #[arg(long, default_value = "vpa-recommender-lease", value_name = "NAME")]
    pub feed_lease_name: String,
    /// Namespace of that Lease.
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    pub feed_lease_namespace: String,
    /// How many recommenders divide the namespaces; the Leases of several end with -INDEX.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256), value_name = "COUNT")]
    pub feed_shards: u16,
}

/// What a connection to the feed needs.
pub struct FeedSource {
    /// `host:port` of each leader; absent while there is none, and until the certificates are
    /// there.
    pub leaders: Vec<watch::Receiver<Option<String>>>,
    /// What the next connection uses.
    pub tls: Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>,
    /// The name in the leaders' certificates.
    pub server_name: ServerName<'static>,
}

fn config(current: &OnceLock<ClientTls>) -> Arc<ClientConfig> {
    current
        .get()
        .expect(
            "nobody connects before a leader is told, which is after the certificates are there",
        )
        .config()
}

impl FeedReaderArgs {
    /// Starts to look for the leaders, as soon as the certificates are there; nothing where the
    /// feed is off.
    pub fn source(self, chassis: &Chassis) -> anyhow::Result<Option<FeedSource>> {
        let Self {
            feed_tls_cert_file,
            feed_tls_private_key_file,
            feed_ca_file,
            feed_server_name,
            feed_lease_name,
            feed_lease_namespace,
            feed_shards,
        } = self;
        let Some((certificate, private_key)) = feed_tls_cert_file.zip(feed_tls_private_key_file)
        else {
            return Ok(None);
        };
        let server_name = ServerName::try_from(feed_server_name).context("--feed-server-name")?;
        let files = TlsFiles {
            certificate,
            private_key,
            authorities: feed_ca_file,
        };
        let leases = Api::namespaced(chassis.client.clone(), &feed_lease_namespace);
        let (leaders, following) = follow_shards(&leases, &feed_lease_name, feed_shards);
        let current: Arc<OnceLock<ClientTls>> = Arc::default();
        let loaded = Arc::clone(&current);
        chassis
            .tasks
            .spawn_until_shutdown("feed certificates", async move {
                let tls = ClientTls::load_when_available(files).await;
                let tls = loaded.get_or_init(|| tls).clone();
                tokio::join!(following, tls.follow_files(RELOAD_PERIOD));
            });
        Ok(Some(FeedSource {
            leaders,
            tls: Arc::new(move || config(&current)),
            server_name,
        }))
    }
}
