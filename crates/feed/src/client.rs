//! Feed client: follows the leader, or those of all shards, reconnects, keeps the last value and
//! never returns to an older one.
//!
//! The caller provides the address of the leader (from the recommender's Lease) as a `watch`
//! channel. While the leader moves or the stream is down, values stay available but stale, until
//! the reset of the next stream is complete.

mod connect;
mod merge;
mod report;
mod subscription;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures::FutureExt as _;
use futures::future::join_all;
use runtime::LogOnce;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;

use crate::proto::feed_client::FeedClient;
use crate::topic::Topic;

pub use connect::{connect, connector};
use merge::{Merge, MergeError};

pub use report::{ReportPace, Reports};
pub use subscription::{LeaderState, Received, Subscription};

/// TLS configuration of the next connection, with a client certificate and ALPN `h2`.
pub type CurrentTls = Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>;

/// Time without any data, including ping replies, after which a connection is closed.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Limit for a connection with its handshake, and for the start of a stream.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of a received message.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Reconnection delays: 25 ms doubling to 1 s, plus a random share of up to the same again.
const BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(25))
    .with_max_delay(LONGEST_DELAY)
    .without_max_times()
    .with_jitter();
/// Low, since values are stale meanwhile and there are few readers.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// Feed client for one leader or one per shard.
#[derive(Clone)]
pub struct Reader {
    /// `host:port` of each leader, `None` without a leader.
    pub leaders: Vec<watch::Receiver<Option<String>>>,
    /// TLS configuration.
    pub tls: CurrentTls,
    /// Name in the leaders' certificates, independent of their addresses.
    pub server_name: ServerName<'static>,
}

/// Reasons for the end of a stream.
#[derive(Debug, thiserror::Error)]
enum StreamEnd {
    #[error("cannot connect: {0}")]
    Connect(#[from] tonic::transport::Error),
    #[error("{0}")]
    Status(#[from] Status),
    #[error("no answer in time")]
    Timeout,
    #[error("{0}")]
    Merge(#[from] MergeError),
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
            let subscription = LeaderUpdates {
                number,
                subscription: subscription.clone(),
            };
            LeaderReader {
                leader,
                tls: Arc::clone(&tls),
                server_name: server_name.clone(),
                subscription,
            }
            .run()
        });
        (received, join_all(streams).map(drop))
    }
}

/// The values of one leader within a subscription.
struct LeaderUpdates<V: Topic> {
    number: usize,
    subscription: watch::Sender<Subscription<V>>,
}

struct LeaderReader<V: Topic> {
    leader: watch::Receiver<Option<String>>,
    tls: CurrentTls,
    server_name: ServerName<'static>,
    subscription: LeaderUpdates<V>,
}

impl<V: Topic> LeaderReader<V> {
    async fn run(self) {
        let Self {
            mut leader,
            tls,
            server_name,
            subscription,
        } = self;
        let mut merge = Merge::default();
        let mut backoff = BACKOFF.build();
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
                    backoff = BACKOFF.build();
                    if !has_leader {
                        return;
                    }
                    continue;
                }
                () = subscription.closed() => return,
            };
            if subscription.is_fresh() {
                backoff = BACKOFF.build();
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
                () = tokio::time::sleep(backoff.next().unwrap_or(LONGEST_DELAY)) => {}
                has_leader = moved(&mut leader) => if !has_leader { return },
                () = subscription.closed() => return,
            }
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
            subscription.leader_mut(self.number).is_some_and(change)
        });
    }

    /// Returns when all receivers are dropped.
    async fn closed(&self) {
        self.subscription.closed().await;
    }
}

/// Client of one server.
pub async fn client(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
) -> Result<FeedClient<Channel>, tonic::transport::Error> {
    let channel = connect(address, tls(), server_name.clone()).await?;
    Ok(FeedClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

/// Merges the messages of one stream. Returns at its regular end by the server.
async fn read<V: Topic>(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
    merge: &mut Merge<V>,
    subscription: &LeaderUpdates<V>,
) -> Result<(), StreamEnd> {
    let beginning = async {
        let client = client(address, tls, server_name).await?;
        Ok::<_, StreamEnd>(V::watch(client).await?)
    };
    let mut stream = tokio::time::timeout(CONNECT_TIMEOUT, beginning)
        .await
        .map_err(|_| StreamEnd::Timeout)??;
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
) -> Result<(), MergeError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit() {
        let longest_ms = [50, 100, 200, 400, 800, 1600, 2000, 2000];
        for (delay, longest) in BACKOFF.build().zip(longest_ms.map(Duration::from_millis)) {
            assert!(
                (longest / 2..=longest).contains(&delay),
                "{delay:?} {longest:?}"
            );
        }
        assert_eq!(BACKOFF.build().take(1000).count(), 1000);
    }
}
