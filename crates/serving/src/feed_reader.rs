//! The feed for programs: settings of a client, discovery of the leaders by their Leases, mutual TLS, and
//! the address that the recommender announces.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::ensure;
use kube::Api;
use runtime::ListenAddress;
use runtime::leader_address::follow_shards;
use runtime::manager::Manager;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde::Deserialize;
use tokio::sync::watch;

use crate::tls::{ClientTls, RELOAD_PERIOD, TlsFiles};

/// DNS name in the feed's certificate, which is verified regardless of the address.
const SERVER_NAME: &str = "plimsoll-recommender";

/// Lease whose holder serves the feed, upstream's. With several shards the names end in -INDEX.
const LEASE: &str = "vpa-recommender-lease";

const MAX_SHARDS: u16 = 256;

/// Settings of a feed client, the section `feed` of its `--config`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::unsafe_derive_deserialize, reason = "in a macro of tokio")]
pub struct FeedReader {
    /// Folder with tls.crt, tls.key and ca.crt (PEM): the client certificate for the recommendation
    /// feed, and the CAs of the feed's certificate. Reloaded when they change. Without them,
    /// recommendations are read from the status of VPA objects.
    cert_dir: Option<PathBuf>,
    /// Namespace of the recommender's Lease, whose holder serves the feed.
    lease_namespace: String,
    shards: u16,
}

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

impl FeedReader {
    /// Follows the leaders once the certificates can be loaded. Returns `None` where the feed is
    /// off.
    pub fn source(self, manager: &Manager) -> anyhow::Result<Option<FeedSource>> {
        let is_counted = (1..=MAX_SHARDS).contains(&self.shards);
        ensure!(is_counted, "feed.shards must be from 1 to {MAX_SHARDS}");
        let Some(folder) = self.cert_dir else {
            return Ok(None);
        };
        let server_name = ServerName::try_from(SERVER_NAME)?;
        let files = TlsFiles::in_folder(&folder);
        let leases = Api::namespaced(manager.client.clone(), &self.lease_namespace);
        let (leaders, following) = follow_shards(&leases, LEASE, self.shards);
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

/// The address for the Lease: the advertised host, or else the listening one, with the port.
pub fn advertised_address(host: &str, listen: ListenAddress) -> anyhow::Result<String> {
    let host = match (host, listen.host) {
        ("", None) => {
            anyhow::bail!("feed.advertisedHost is needed where feed.address has no host")
        }
        ("", Some(host)) => host.to_string(),
        (host, _) => host.to_owned(),
    };
    ensure!(
        listen.port != 0,
        "feed.address: the port must not be 0, since the Lease announces it"
    );
    // The address ends the holder's identity, whose parts are joined by underscores.
    ensure!(
        !host.contains(['_', ' ', '/']),
        "feed.advertisedHost: {host:?} is not a host"
    );
    let host = if matches!(host.parse(), Ok(IpAddr::V6(_))) {
        format!("[{host}]")
    } else {
        host
    };
    Ok(format!("{host}:{}", listen.port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, listen: &str, expected: Option<&str>) {
        let address = advertised_address(host, listen.parse().expect(listen)).ok();
        assert_eq!(address.as_deref(), expected, "{host:?} {listen}");
    }

    #[test]
    fn the_lease_gets_an_address_that_others_can_reach() {
        check("10.0.0.7", ":8950", Some("10.0.0.7:8950"));
        check("", "127.1.2.3:8950", Some("127.1.2.3:8950"));
        check("10.0.0.7", "127.0.0.1:1", Some("10.0.0.7:1"));
        check("fd00::7", ":8950", Some("[fd00::7]:8950"));
        check("", "[::1]:8950", Some("[::1]:8950"));
        check("", ":8950", None);
        check("10.0.0.7", ":0", None);
        check("a_b", ":8950", None);
    }
}
