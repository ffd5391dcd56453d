//! Readers of the feed that are slow, as over a link on which little is under way.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::deployment::{RECOMMENDER, replicas};
use e2e::{FEED_SERVER, feed_tls};
use feed::client::connector;
use feed::proto::WatchRecommendationsRequest;
use feed::proto::feed_client::FeedClient;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::transport::Endpoint;

use super::cluster::Cluster;

const FEED_PORT: u16 = 8950;
/// Streams to each recommender: enough for one message of a hundred to be late.
const STREAMS: usize = 4;
/// Flow-control window in bytes. That of the programs is 1 MiB, for which these changes are too few.
const WINDOW: u32 = 1 << 10;
/// Time between two messages that are read.
const PAUSE: Duration = Duration::from_secs(7);

/// Readers that read a message in some seconds, until they end.
pub(crate) async fn of_readers(cluster: &Cluster) -> Result<()> {
    let tls = feed_tls(&cluster.client).await?;
    let mut readers = JoinSet::new();
    for replica in replicas(&cluster.client, RECOMMENDER).await? {
        let address = format!("{}:{FEED_PORT}", replica.address);
        for _ in 0..STREAMS {
            readers.spawn(read_slowly(address.clone(), Arc::clone(&tls)));
        }
    }
    cluster.fire(&["PlimsollFeedLag"]).await
}

async fn read_slowly(address: String, tls: Arc<ClientConfig>) {
    loop {
        // A stream ends when another replica leads.
        drop(read(&address, Arc::clone(&tls)).await);
        sleep(PAUSE).await;
    }
}

async fn read(address: &str, tls: Arc<ClientConfig>) -> Result<()> {
    let channel = Endpoint::from_shared(format!("https://{FEED_SERVER}"))?
        .initial_stream_window_size(WINDOW)
        .connect_with_connector(connector(address, tls, ServerName::try_from(FEED_SERVER)?))
        .await?;
    let mut client = FeedClient::new(channel);
    let stream = client.watch_recommendations(WatchRecommendationsRequest {});
    let mut stream = stream.await?.into_inner();
    loop {
        stream.message().await?.context("the stream ended")?;
        sleep(PAUSE).await;
    }
}
