//! The reader's side: follows the leader, reconnects, keeps the last value and never goes back to an older one.
//!
//! Which address leads comes from outside, as a value that changes (the recommender's Lease says it). When the leader
//! moves or the stream breaks, the values stay as they are and are said to be stale, until the reset of the next stream
//! is complete.

mod backoff;
mod connect;
mod merge;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;

use crate::proto::feed_client::FeedClient;
use crate::proto::{RecommendationsUpdate, WatchRecommendationsRequest};

use backoff::Backoff;
pub use connect::connect;
use merge::{Merge, MergeError};

pub use merge::{Following, Heard};

/// What the next connection uses. It must offer a client certificate and the protocol `h2`.
pub type CurrentTls = Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>;

/// Nothing comes for so long, not even an answer to a ping: the connection is given up.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// For a connection with its handshake, and for the beginning of a stream.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The largest message that is taken.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Follows the recommendations of whoever leads.
pub struct Reader {
    /// `host:port` of the leader; absent while there is none.
    pub leader: watch::Receiver<Option<String>>,
    /// How to connect.
    pub tls: CurrentTls,
    /// The name in the leader's certificate, whatever its address is.
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
    /// Keeps `following` current for as long as somebody looks at it and the leader is told.
    pub async fn run(self, following: watch::Sender<Following>) {
        let Self { mut leader, tls, server_name } = self;
        let mut merge = Merge::default();
        let mut backoff = Backoff::default();
        let mut said = None;
        loop {
            let address = match leader.wait_for(Option::is_some).await {
                Ok(address) => address.clone().unwrap_or_default(),
                Err(_) => return,
            };
            let moved = async |leader: &mut watch::Receiver<Option<String>>| {
                // While nobody leads, what the last leader tells stands.
                leader.wait_for(|now| now.as_ref().is_some_and(|now| *now != address)).await.is_ok()
            };
            let stream = follow(&address, &tls, &server_name, &mut merge, &following);
            let ended = tokio::select! {
                ended = stream => ended,
                still_told = moved(&mut leader) => {
                    stale(&following);
                    backoff = Backoff::default();
                    if !still_told {
                        return;
                    }
                    continue;
                }
                () = following.closed() => return,
            };
            if following.borrow().stale_since.is_none() {
                backoff = Backoff::default();
                said = None;
            }
            stale(&following);
            let ended = (!matches!(ended, Ended::Closed)).then(|| ended.to_string());
            if let Some(error) = ended.as_ref().filter(|_| ended != said) {
                tracing::warn!(leader = address, error, "the feed is interrupted; trying on");
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

fn stale(following: &watch::Sender<Following>) {
    following.send_if_modified(|following| {
        let was_fresh = following.stale_since.is_none();
        following.stale_since.get_or_insert_with(Instant::now);
        was_fresh
    });
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

async fn follow(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
    merge: &mut Merge,
    following: &watch::Sender<Following>,
) -> Ended {
    match read(address, tls, server_name, merge, following).await {
        Ok(()) => Ended::Closed,
        Err(ended) => ended,
    }
}

async fn read(
    address: &str,
    tls: &CurrentTls,
    server_name: &ServerName<'static>,
    merge: &mut Merge,
    following: &watch::Sender<Following>,
) -> Result<(), Ended> {
    let beginning = async {
        let mut client = client(address, tls, server_name).await?;
        Ok::<_, Ended>(client.watch_recommendations(WatchRecommendationsRequest {}).await?.into_inner())
    };
    let mut stream = tokio::time::timeout(CONNECT_TIMEOUT, beginning).await.map_err(|_| Ended::Timeout)??;
    merge.begin();
    while let Some(update) = stream.message().await? {
        take(update, merge, following)?;
    }
    Ok(())
}

fn take(
    update: RecommendationsUpdate,
    merge: &mut Merge,
    following: &watch::Sender<Following>,
) -> Result<(), MergeError> {
    let mut taken = Ok(());
    following.send_if_modified(|following| match merge.take(update, following) {
        Ok(changed) => changed,
        Err(error) => {
            taken = Err(error);
            false
        }
    });
    taken
}
