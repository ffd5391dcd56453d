//! Kind of value in a stream, a recommendation or a forecast: its protocol messages, identity and
//! size.

use std::fmt::Debug;
use std::future::Future;

use jiff::Timestamp;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::proto::feed_client::FeedClient;
use crate::quantities::MessageError;

/// The value of a stream for one object.
pub trait Topic: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Protocol message of one value.
    type Message: Clone + Debug + Send + Sync + 'static;
    /// Protocol message of one update.
    type Update: prost::Message + Default + 'static;

    /// Name in logs.
    const NOUN: &'static str;

    /// UID of the object.
    fn uid(&self) -> &str;

    /// Approximate message size in bytes, without encoding it.
    fn size(&self) -> usize;

    /// The protocol message, with revision and time of the change.
    fn to_message(&self, revision: u64, changed_at: Timestamp) -> Self::Message;

    /// Parses a message.
    fn from_message(message: Self::Message) -> Result<Self, MessageError>;

    /// Identity and revision of a message.
    fn stamp(message: &Self::Message) -> Stamp;

    /// Packs a change into an update.
    fn pack(term: u64, change: Change<Self::Message>) -> Self::Update;

    /// The term and the change of an update; `None` for a kind of change added by a later version.
    fn unpack(update: Self::Update) -> (u64, Option<Change<Self::Message>>);

    /// Opens the stream.
    fn watch(
        client: FeedClient<Channel>,
    ) -> impl Future<Output = Result<Streaming<Self::Update>, Status>> + Send;
}

/// Identity and revision of a value in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// UID of the object.
    pub uid: String,
    /// Revision of the change.
    pub revision: u64,
    /// Time of the change.
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

/// One update of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<M> {
    /// Part of the full state. Objects in no part are gone.
    Reset {
        /// Values of this part.
        values: Vec<M>,
        /// Whether this is the first part.
        first: bool,
        /// Whether this is the last part.
        complete: bool,
    },
    /// New and changed values.
    Apply(Vec<M>),
    /// UIDs of deleted objects.
    Delete(Vec<String>),
}
