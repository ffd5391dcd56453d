//! What sets the streams of the feed apart: what each tells of, and how that looks in the protocol.
//! All else is the same for all of them.

use std::fmt::Debug;
use std::future::Future;

use jiff::Timestamp;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::proto::feed_client::FeedClient;
use crate::quantities::MessageError;

/// What a stream tells about one object.
pub trait Topic: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// It in the protocol.
    type Message: Clone + Debug + Send + Sync + 'static;
    /// One message of the stream.
    type Update: prost::Message + Default + 'static;

    /// What it is called in logs.
    const NOUN: &'static str;

    /// The object's unique identifier.
    fn uid(&self) -> &str;

    /// About the bytes of its message, without the work of writing it.
    fn size(&self) -> usize;

    /// The protocol's message, with the number and time of the change.
    fn to_message(&self, revision: u64, changed_at: Timestamp) -> Self::Message;

    /// What a message says.
    fn from_message(message: Self::Message) -> Result<Self, MessageError>;

    /// What a message says of the change.
    fn stamp(message: &Self::Message) -> Stamp;

    /// A change as a message of the stream.
    fn pack(term: u64, change: Change<Self::Message>) -> Self::Update;

    /// The term and the change of a message; no change where it is of a kind that a later version
    /// brings.
    fn unpack(update: Self::Update) -> (u64, Option<Change<Self::Message>>);

    /// Begins to read the stream.
    fn watch(
        client: FeedClient<Channel>,
    ) -> impl Future<Output = Result<Streaming<Self::Update>, Status>> + Send;
}

/// What a message says of the change that it tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The object's unique identifier.
    pub uid: String,
    /// The number of the change.
    pub revision: u64,
    /// When it happened.
    pub changed_at: Timestamp,
}

impl Stamp {
    pub(crate) fn new(uid: &str, revision: u64, changed_at_ms: i64) -> Self {
        let changed_at = Timestamp::from_millisecond(changed_at_ms).unwrap_or_default();
        Self {
            uid: uid.to_owned(),
            revision,
            changed_at,
        }
    }
}

/// One step of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<M> {
    /// Part of everything that there is. What is in no part is gone.
    Reset {
        /// Values of this part.
        values: Vec<M>,
        /// Whether it is the first part.
        first: bool,
        /// Whether it is the last part.
        complete: bool,
    },
    /// New and changed values.
    Apply(Vec<M>),
    /// The unique identifiers of objects that are gone.
    Delete(Vec<String>),
}
