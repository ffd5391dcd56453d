//! The reader's side: follows the leader, or those of all shards, reconnects, keeps the last value
//! and never goes back to an older one.
//!
//! Which address leads comes from outside, as a value that changes (the recommender's Lease says
//! it). When the leader moves or the stream breaks, the values stay as they are and are said to be
//! stale, until the reset of the next stream is complete.

mod backoff;
mod connect;
mod following;
mod merge;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::join_all;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;

use crate::proto::feed_client::FeedClient;
use crate::topic::Topic;

use backoff::Backoff;
pub use connect::{connect, connector};
use merge::{Merge, MergeError};

pub use following::{Following, Heard, Part};

/// What the next connection uses. It must offer a client certificate and the protocol `h2`.
pub type CurrentTls = Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>;

/// Nothing comes for so long, not even an answer to a ping: the connection is given up.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// For a connection with its handshake, and for the beginning of a stream.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The largest message that is taken.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Follows what whoever leads tells: of everything, or of one shard each.
#[derive(Clone)]
pub struct Reader {
    /// `host:port` of each leader; absent while there is none.
    pub leaders: Vec<watch::Receiver<Option<String>>>,
    /// How to connect.
    pub tls: CurrentTls,
    /// The name in the leaders' certificates, whatever their addresses are.
    pub server_name: ServerName<'static>,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("cannot connect: {0}")]
    Connect(#[from] tonic::transport::Error),
    #[error("{0}")]
    Status(#[from] Status),
    #[error("no answer in time")]
    Timeout,
    #[error("{0}")]
    Merge(#[from] MergeError),
    /// As every stream does now and then.
    #[error("the server closed the stream")]
    Closed,
}

impl Reader {
    /// What is heard, and the reading itself, which goes on for as long as somebody looks and a
    /// leader is told.
    ///
    /// Recommendations, or what else the receiver is of: `reader.follow::<Forecast>()`.
    pub fn follow<V: Topic>(
        self,
    ) -> (
        watch::Receiver<Following<V>>,
        impl Future<Output = ()> + Send + use<V>,
    ) {
        let Self {
            leaders,
            tls,
            server_name,
        } = self;
        let (following, heard) = watch::channel(Following::new(leaders.len(), Instant::now()));
        let streams = leaders.into_iter().enumerate().map(|(number, leader)| {
            let following = Told {
                number,
                following: following.clone(),
            };
            LeaderReader {
                leader,
                tls: Arc::clone(&tls),
                server_name: server_name.clone(),
                following,
            }
            .run()
        });
        (heard, join_all(streams).map(drop))
    }
}

/// Where what one leader tells goes.
struct Told<V: Topic> {
    number: usize,
    following: watch::Sender<Following<V>>,
}

/// Follows one leader, and those that follow it.
struct LeaderReader<V: Topic> {
    leader: watch::Receiver<Option<String>>,
    tls: CurrentTls,
    server_name: ServerName<'static>,
    following: Told<V>,
}

impl<V: Topic> LeaderReader<V> {
    async fn run(self) {
        let Self {
            mut leader,
            tls,
            server_name,
            following,
        } = self;
        let mut merge = Merge::default();
        let mut backoff = Backoff::default();
        let mut said = None;
        loop {
            let told = tokio::select! {
                told = leader.wait_for(Option::is_some) => told.map(|address| address.clone()),
                () = following.closed() => return,
            };
            let Ok(Some(address)) = told else { return };
            let moved = async |leader: &mut watch::Receiver<Option<String>>| {
                // While nobody leads, what the last leader tells stands.
                leader
                    .wait_for(|now| now.as_ref().is_some_and(|now| *now != address))
                    .await
                    .is_ok()
            };
            let stream = follow(&address, &tls, &server_name, &mut merge, &following);
            let ended = tokio::select! {
                ended = stream => ended,
                still_told = moved(&mut leader) => {
                    following.stale();
                    backoff = Backoff::default();
                    if !still_told {
                        return;
                    }
                    continue;
                }
                () = following.closed() => return,
            };
            if following.is_fresh() {
                backoff = Backoff::default();
                said = None;
            }
            following.stale();
            let ended = (!matches!(ended, Ended::Closed)).then(|| ended.to_string());
            if let Some(error) = ended.as_ref().filter(|_| ended != said) {
                tracing::warn!(
                    leader = address,
                    error,
                    of = V::NOUN,
                    "the feed is interrupted; trying on"
                );
            }
            said = ended;
            tokio::select! {
                () = tokio::time::sleep(backoff.next(rand::random())) => {}
                still_told = moved(&mut leader) => if !still_told { return },
                () = following.closed() => return,
            }
        }
    }
}

impl<V: Topic> Told<V> {
    fn is_fresh(&self) -> bool {
        self.following
            .borrow()
            .parts()
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

    /// Wakes those who look if `change` gives that there was one.
    fn change(&self, change: impl FnOnce(&mut Part<V>) -> bool) {
        self.following
            .send_if_modified(|following| following.part_mut(self.number).is_some_and(change));
    }

    /// Returns when nobody looks any more.
    async fn closed(&self) {
        self.following.closed().await;
    }
}

/// A client for single calls to one server, such as `Explain`.
pub async fn client(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
) -> Result<FeedClient<Channel>, tonic::transport::Error> {
    let channel = connect(address, tls(), server_name.clone()).await?;
    Ok(FeedClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

async fn follow<V: Topic>(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
    merge: &mut Merge<V>,
    following: &Told<V>,
) -> Ended {
    match read(address, tls, server_name, merge, following).await {
        Ok(()) => Ended::Closed,
        Err(ended) => ended,
    }
}

async fn read<V: Topic>(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
    merge: &mut Merge<V>,
    following: &Told<V>,
) -> Result<(), Ended> {
    let beginning = async {
        let client = client(address, tls, server_name).await?;
        Ok::<_, Ended>(V::watch(client).await?)
    };
    let mut stream = tokio::time::timeout(CONNECT_TIMEOUT, beginning)
        .await
        .map_err(|_| Ended::Timeout)??;
    merge.begin();
    while let Some(update) = stream.message().await? {
        take(update, merge, following)?;
    }
    Ok(())
}

fn take<V: Topic>(
    update: V::Update,
    merge: &mut Merge<V>,
    following: &Told<V>,
) -> Result<(), MergeError> {
    let mut taken = Ok(());
    following.change(|part| match merge.take(update, part) {
        Ok(changed) => changed,
        Err(error) => {
            taken = Err(error);
            false
        }
    });
    taken
}
