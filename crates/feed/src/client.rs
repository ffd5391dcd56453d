//! Feed client: follows the leader, or those of all shards, reconnects, keeps the last value and
//! never returns to an older one.
//!
//! The caller provides the address of the leader (from the recommender's Lease) as a `watch`
//! channel. While the leader moves or the stream is down, values stay available but stale, until
//! the reset of the next stream is complete.

mod merge;
mod report;
mod subscription;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use futures::future::join_all;
use hyper_util::rt::TokioIo;
use runtime::{Backoff, LogOnce};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Error, Uri};
use tower::{Service, service_fn};

use crate::proto::feed_client::FeedClient;
use crate::topic::Topic;

use merge::Merge;

pub use report::{ReportPace, Reports};
pub use subscription::{LeaderState, Received, Subscription};

/// TLS configuration of the next connection, with a client certificate and ALPN `h2`.
pub type CurrentTls = Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>;

/// Time without any data, including ping replies, after which a connection is closed.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Limit for a connection with its handshake, and for the start of a stream.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const NO_ANSWER: &str = "no answer in time";
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Reconnection delays. They are short, since values are stale meanwhile and there are few readers.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(50),
    cap: Duration::from_secs(2),
    tries: u32::MAX,
};

/// Feed client for one leader or one per shard.
#[derive(Clone)]
pub struct Reader {
    /// `host:port` of each leader, `None` without a leader.
    pub leaders: Vec<watch::Receiver<Option<String>>>,
    pub tls: CurrentTls,
    /// Name in the leaders' certificates, independent of their addresses.
    pub server_name: ServerName<'static>,
}

impl Reader {
    /// Subscribes to recommendations or another topic: `reader.subscribe::<Forecast>()`. Returns
    /// the received values and the task that reads them. The task ends when the receiver is dropped
    /// or the leader channels close.
    pub fn subscribe<V: Topic>(
        self,
    ) -> (
        watch::Receiver<Subscription<V>>,
        impl Future<Output = ()> + Send + use<V>,
    ) {
        let Self {
            leaders,
            tls,
            server_name,
        } = self;
        let (subscription, received) =
            watch::channel(Subscription::new(leaders.len(), Instant::now()));
        let streams = leaders.into_iter().enumerate().map(|(number, leader)| {
            let subscription = subscription.clone();
            let updates = LeaderUpdates {
                number,
                subscription,
            };
            follow(leader, Arc::clone(&tls), server_name.clone(), updates)
        });
        (received, join_all(streams).map(drop))
    }
}

struct LeaderUpdates<V: Topic> {
    number: usize,
    subscription: watch::Sender<Subscription<V>>,
}

async fn follow<V: Topic>(
    mut leader: watch::Receiver<Option<String>>,
    tls: CurrentTls,
    server_name: ServerName<'static>,
    subscription: LeaderUpdates<V>,
) {
    let mut merge = Merge::default();
    let mut backoff = BACKOFF.delays();
    let mut logged = LogOnce::default();
    loop {
        let current = tokio::select! {
            current = leader.wait_for(Option::is_some) => current.map(|address| address.clone()),
            () = subscription.closed() => return,
        };
        let Ok(Some(address)) = current else { return };
        let moved = async |leader: &mut watch::Receiver<Option<String>>| {
            // Without a leader the values of the last one stay.
            leader
                .wait_for(|now| now.as_ref().is_some_and(|now| *now != address))
                .await
                .is_ok()
        };
        let stream = read(&address, &tls, &server_name, &mut merge, &subscription);
        let ended = tokio::select! {
            ended = stream => ended.err(),
            has_leader = moved(&mut leader) => {
                subscription.stale();
                backoff = BACKOFF.delays();
                if !has_leader {
                    return;
                }
                continue;
            }
            () = subscription.closed() => return,
        };
        if subscription.is_fresh() {
            backoff = BACKOFF.delays();
            logged.clear();
        }
        subscription.stale();
        if let Some(error) = logged.update(ended.map(|ended| ended.to_string())) {
            tracing::warn!(
                leader = address,
                error,
                stream = V::NOUN,
                "feed stream interrupted; reconnecting"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next().unwrap_or(BACKOFF.cap)) => {}
            has_leader = moved(&mut leader) => if !has_leader { return },
            () = subscription.closed() => return,
        }
    }
}

impl<V: Topic> LeaderUpdates<V> {
    fn is_fresh(&self) -> bool {
        self.subscription
            .borrow()
            .leaders()
            .get(self.number)
            .is_some_and(|part| part.stale_since.is_none())
    }

    fn stale(&self) {
        self.change(|part| {
            let was_fresh = part.stale_since.is_none();
            part.stale_since.get_or_insert_with(Instant::now);
            was_fresh
        });
    }

    /// Applies `change` and notifies receivers if it returns true.
    fn change(&self, change: impl FnOnce(&mut LeaderState<V>) -> bool) {
        self.subscription.send_if_modified(|subscription| {
            subscription
                .leaders
                .get_mut(self.number)
                .is_some_and(change)
        });
    }

    async fn closed(&self) {
        self.subscription.closed().await;
    }
}

pub async fn client(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
) -> anyhow::Result<FeedClient<Channel>> {
    let channel = connect(address, tls(), server_name.clone()).await;
    let channel = channel.map_err(|error| anyhow!("cannot connect: {error}"))?;
    Ok(FeedClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

/// Merges the messages of one stream. Returns at its regular end by the server.
async fn read<V: Topic>(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
    merge: &mut Merge<V>,
    subscription: &LeaderUpdates<V>,
) -> anyhow::Result<()> {
    let beginning = async {
        let client = client(address, tls, server_name).await?;
        anyhow::Ok(V::watch(client).await?)
    };
    let mut stream = tokio::time::timeout(CONNECT_TIMEOUT, beginning)
        .await
        .context(NO_ANSWER)??;
    merge.begin();
    while let Some(update) = stream.message().await? {
        take(update, merge, subscription)?;
    }
    Ok(())
}

fn take<V: Topic>(
    update: V::Update,
    merge: &mut Merge<V>,
    subscription: &LeaderUpdates<V>,
) -> anyhow::Result<()> {
    let mut taken = Ok(());
    subscription.change(|part| match merge.take(update, part) {
        Ok(changed) => changed,
        Err(error) => {
            taken = Err(error);
            false
        }
    });
    taken
}

/// Flow-control window in bytes.
const WINDOW_BYTES: u32 = 1 << 20;

/// Opens a connection to `address` (`host:port`) whose certificate must be valid for `server_name`.
pub async fn connect(
    address: &str,
    tls: Arc<ClientConfig>,
    server_name: ServerName<'static>,
) -> Result<Channel, Error> {
    // The URI only names the server in requests; the connector sets the address.
    let uri = format!("https://{}", server_name.to_str());
    let endpoint = Endpoint::from_shared(uri)?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(2 * WINDOW_BYTES);
    endpoint
        .connect_with_connector(connector(address, tls, server_name))
        .await
}

/// Connector that always connects to `address`, whatever the URI says.
pub fn connector(
    address: &str,
    tls: Arc<ClientConfig>,
    server_name: ServerName<'static>,
) -> impl Service<Uri, Response = TokioIo<TlsStream<TcpStream>>, Error = io::Error, Future: Send>
+ Send
+ use<> {
    let address: Arc<str> = address.into();
    service_fn(move |_: Uri| {
        let (address, tls, server_name) =
            (Arc::clone(&address), Arc::clone(&tls), server_name.clone());
        async move {
            let stream = TcpStream::connect(&*address).await?;
            stream.set_nodelay(true)?;
            let stream = TlsConnector::from(tls).connect(server_name, stream).await?;
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit() {
        let longest_ms = [50, 100, 200, 400, 800, 1600, 2000, 2000];
        for (delay, longest) in BACKOFF.delays().zip(longest_ms.map(Duration::from_millis)) {
            assert!(
                (longest / 2..=longest).contains(&delay),
                "{delay:?} {longest:?}"
            );
        }
        assert_eq!(BACKOFF.delays().take(1000).count(), 1000);
    }
}
