//! Flags of a feed client, discovery of the feed's leaders by their Leases, and its mutual TLS.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use kube::Api;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::sync::watch;

use crate::tls::{ClientTls, RELOAD_PERIOD, TlsFiles};
use runtime::leader_address::follow_shards;
use runtime::manager::Manager;

/// DNS name in the feed's certificate, which is verified regardless of the address.
const SERVER_NAME: &str = "plimsoll-recommender";

/// Lease whose holder serves the feed, upstream's. With several shards the names end in -INDEX.
const LEASE: &str = "vpa-recommender-lease";

/// Flags of a feed client.
#[derive(Debug, Clone, clap::Args)]
pub struct FeedReaderArgs {
    /// Folder with tls.crt, tls.key and ca.crt (PEM): the client certificate for the recommendation
    /// feed, and the CAs of the feed's certificate. Reloaded when they change. Without them,
    /// recommendations are read from the status of VPA objects.
    #[arg(long, value_name = "FOLDER")]
    pub feed_cert_dir: Option<PathBuf>,
    /// Namespace of the recommender's Lease, whose holder serves the feed.
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
            feed_cert_dir,
            feed_lease_namespace,
            feed_shards,
        } = self;
        let Some(folder) = feed_cert_dir else {
            return Ok(None);
        };
        let server_name = ServerName::try_from(SERVER_NAME)?;
        let files = TlsFiles::in_folder(&folder);
        let leases = Api::namespaced(manager.client.clone(), &feed_lease_namespace);
        let (leaders, following) = follow_shards(&leases, LEASE, feed_shards);
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
