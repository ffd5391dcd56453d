//! Kind of value in a stream, a recommendation or a forecast: messages, identity and size.

use std::fmt::Debug;
use std::future::Future;

use jiff::Timestamp;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::proto::feed_client::FeedClient;

/// The value of a stream for one object.
pub trait Topic: Clone + Debug + PartialEq + Send + Sync + 'static {
    type Message: Clone + Debug + Send + Sync + 'static;
    type Update: prost::Message + Default + 'static;

    const NOUN: &'static str;

    fn uid(&self) -> &str;

    /// Approximate message size in bytes, without encoding it.
    fn size(&self) -> usize;

    fn to_message(&self, revision: u64, changed_at: Timestamp) -> Self::Message;

    fn from_message(message: Self::Message) -> anyhow::Result<Self>;

    fn stamp(message: &Self::Message) -> Stamp;

    fn pack(term: u64, change: Change<Self::Message>) -> Self::Update;

    /// The term and the change of an update; `None` for a kind of change added by a later version.
    fn unpack(update: Self::Update) -> (u64, Option<Change<Self::Message>>);

    fn watch(
        client: FeedClient<Channel>,
    ) -> impl Future<Output = Result<Streaming<Self::Update>, Status>> + Send;
}

/// The items of a topic that differ from those of other topics in names alone.
macro_rules! updates {
    (
        $message:ident, $update:ident as $module:ident, $reset:ident, $apply:ident, $delete:ident,
        $values:ident, $watch:ident($request:ident)
    ) => {
        type Message = proto::$message;
        type Update = proto::$update;

        fn uid(&self) -> &str {
            &self.uid
        }

        fn stamp(message: &proto::$message) -> Stamp {
            Stamp::new(&message.uid, message.revision, message.changed_at_ms)
        }

        fn pack(term: u64, change: Change<proto::$message>) -> proto::$update {
            use proto::$module::Change as Message;
            let change = Some(match change {
                Change::Reset {
                    values,
                    first,
                    complete,
                } => Message::Reset(proto::$reset {
                    $values: values,
                    first,
                    complete,
                }),
                Change::Apply($values) => Message::Apply(proto::$apply { $values }),
                Change::Delete(uids) => Message::Delete(proto::$delete { uids }),
            });
            proto::$update { term, change }
        }

        fn unpack(update: proto::$update) -> (u64, Option<Change<proto::$message>>) {
            use proto::$module::Change as Message;
            let change = update.change.map(|change| match change {
                Message::Reset(reset) => Change::Reset {
                    values: reset.$values,
                    first: reset.first,
                    complete: reset.complete,
                },
                Message::Apply(apply) => Change::Apply(apply.$values),
                Message::Delete(delete) => Change::Delete(delete.uids),
            });
            (update.term, change)
        }

        async fn watch(
            mut client: FeedClient<Channel>,
        ) -> Result<Streaming<proto::$update>, Status> {
            Ok(client.$watch(proto::$request {}).await?.into_inner())
        }
    };
}

pub(crate) use updates;

/// Identity and revision of a value in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    pub uid: String,
    pub revision: u64,
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

/// Changes of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<M> {
    /// Part of the full state. Objects in no part are gone once the reset is complete.
    Reset {
        values: Vec<M>,
        /// Whether this is the first part. It discards the parts of an unfinished reset.
        first: bool,
        complete: bool,
    },
    Apply(Vec<M>),
    Delete(Vec<String>),
}
