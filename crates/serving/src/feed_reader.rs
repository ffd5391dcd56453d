//! Flags of a feed client, discovery of the feed's leaders by their Leases, and its mutual TLS.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use kube::Api;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::sync::watch;

use crate::tls::{ClientTls, RELOAD_PERIOD, TlsFiles};
use runtime::leader_address::follow_shards;
use runtime::manager::Manager;

/// Flags of a feed client. The feed is off unless the three files are given.
#[derive(Debug, Clone, clap::Args)]
pub struct FeedReaderArgs {
    /// Client certificate chain (PEM) for the recommendation feed. Reloaded when it changes. While
    /// it is missing, recommendations are read from the status of VPA objects. Needs
    /// --feed-tls-private-key-file and --feed-ca-file.
    #[arg(long, value_name = "FILE", requires_all = ["feed_tls_private_key_file", "feed_ca_file"])]
    pub feed_tls_cert_file: Option<PathBuf>,
    /// Private key (PEM) of --feed-tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "feed_tls_cert_file")]
    pub feed_tls_private_key_file: Option<PathBuf>,
    /// CA bundle (PEM) that verifies the feed's certificate.
    #[arg(long, value_name = "FILE", requires = "feed_tls_cert_file")]
    pub feed_ca_file: Option<PathBuf>,
    /// Server name that is verified in the feed's certificate, regardless of its address.
    #[arg(long, default_value = "plimsoll-recommender", value_name = "NAME")]
    pub feed_server_name: String,
    /// Name of the Lease whose holder serves the feed. With several shards the names end in -INDEX.
    #[arg(long, default_value = "vpa-recommender-lease", value_name = "NAME")]
    pub feed_lease_name: String,
    /// Namespace of that Lease.
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    pub feed_lease_namespace: String,
    /// Number of recommender shards.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256), value_name = "COUNT")]
    pub feed_shards: u16,
}

/// The connection settings of a feed client.
pub struct FeedSource {
    /// `host:port` of the leader of each shard. Absent while there is no leader or no certificate.
    pub leaders: Vec<watch::Receiver<Option<String>>>,
    /// Returns the TLS configuration for the next connection.
    pub tls: Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>,
    /// The server name that is verified in the leaders' certificates.
    pub server_name: ServerName<'static>,
}

fn config(current: &OnceLock<ClientTls>) -> Arc<ClientConfig> {
    current
        .get()
        .expect(
            "connections begin after a leader is known, and leaders are followed after TLS is loaded",
        )
        .config()
}

impl FeedReaderArgs {
    /// Follows the leaders once the certificates can be loaded. Returns `None` where the feed is
    /// off.
    pub fn source(self, manager: &Manager) -> anyhow::Result<Option<FeedSource>> {
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
        let leases = Api::namespaced(manager.client.clone(), &feed_lease_namespace);
        let (leaders, following) = follow_shards(&leases, &feed_lease_name, feed_shards);
        let current: Arc<OnceLock<ClientTls>> = Arc::default();
        let loaded = Arc::clone(&current);
        manager
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
