//! A reader of the recommender's feed, with the client certificate of another program.

use std::sync::Arc;

use anyhow::Result;
use e2e::{FEED_SERVER, feed_tls};
use feed::Reader;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use runtime::follow_leader;
use rustls_pki_types::ServerName;
use tokio::sync::watch;

/// The Lease of a leader without shards.
pub(crate) const LEASE: &str = "vpa-recommender-lease";

/// A reader that follows the leader's Lease.
pub(crate) async fn reader(client: &Client) -> Result<Reader> {
    let (found, leader) = watch::channel(None);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "plimsoll-system");
    tokio::spawn(follow_leader(leases, LEASE, found));
    reader_of(client, vec![leader]).await
}

/// A reader of these leaders.
pub(crate) async fn reader_of(
    client: &Client,
    leaders: Vec<watch::Receiver<Option<String>>>,
) -> Result<Reader> {
    let config = feed_tls(client).await?;
    Ok(Reader {
        leaders,
        tls: Arc::new(move || Arc::clone(&config)),
        server_name: ServerName::try_from(FEED_SERVER)?,
    })
}
