//! Readers of the feed that are slow, as over a link on which little is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{RECOMMENDER, replicas};
use e2e::{FEED_SERVER, feed_tls};
use feed::client::connector;
use feed::proto::WatchRecommendationsRequest;
use feed::proto::feed_client::FeedClient;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::transport::Endpoint;

use super::cluster::{Cluster, sized};
use super::faults::{delete_all, mode};

const FEED_PORT: u16 = 8950;
/// Streams to each recommender: enough for one message of a hundred to be late.
const STREAMS: usize = 4;
/// Flow-control window in bytes. That of the programs is 1 MiB, for which these changes are too few.
const WINDOW: u32 = 1 << 10;
/// Time between two messages that are read.
const PAUSE: Duration = Duration::from_secs(7);

/// Objects whose recommendation follows their maximum.
const CHANGING: [&str; 3] = ["read-a", "read-b", "read-c"];

/// Readers that read a message in some seconds while recommendations change.
pub(crate) async fn of_readers(cluster: &Cluster) -> Result<()> {
    let own = &cluster.own;
    for name in CHANGING {
        sized(own, name, 1, &json!({}), &mode("Off")).await?;
    }
    let tls = feed_tls(&cluster.client).await?;
    let mut readers = JoinSet::new();
    for replica in replicas(&cluster.client, RECOMMENDER).await? {
        let address = format!("{}:{FEED_PORT}", replica.address);
        for _ in 0..STREAMS {
            readers.spawn(read_slowly(address.clone(), Arc::clone(&tls)));
        }
    }
    let maximum = AtomicU32::new(60);
    let change = async || {
        let cpu = format!("{}m", maximum.fetch_xor(1, Ordering::Relaxed));
        for name in CHANGING {
            own.patch::<Vpa>(name, with_maximum(&cpu)).await?;
        }
        Ok(())
    };
    cluster.fire_while(&["PlimsollFeedLag"], change).await?;
    delete_all(own, &CHANGING).await
}

pub(crate) fn with_maximum(cpu: &str) -> Value {
    let policy = json!({"containerName": "*", "maxAllowed": {"cpu": cpu}});
    json!({"spec": {"resourcePolicy": {"containerPolicies": [policy]}}})
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
