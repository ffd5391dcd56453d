//! Why a list or a watch ended, and where to go on from.

use kube::Error;
use kube::core::Status;
use tokio::time::error::Elapsed;

/// HTTP status of a watch from a version that the server has forgotten.
const GONE: u16 = 410;

/// A list or a watch did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request failed, or its answer could not be read.
    #[error("{}", words(.0))]
    Request(#[from] Error),
    /// The server ended the watch with an error.
    #[error("{}", .0.message)]
    Watch(Box<Status>),
    /// Nothing was heard for longer than a healthy server is silent.
    #[error("the API server did not answer in time")]
    Silent(#[from] Elapsed),
    /// The connection broke.
    #[error("the answer broke off: {0}")]
    Broken(#[from] std::io::Error),
    /// The answer ended within an object.
    #[error("the answer was cut short")]
    CutShort,
    /// The answer is not what an API server says.
    #[error("the answer cannot be read")]
    Unreadable,
    /// A list came without the version to watch from.
    #[error("the list carries no resourceVersion")]
    NoVersion,
}

impl Failure {
    /// Whether the watch cannot go on where it broke off: everything has to be listed again.
    pub(crate) fn needs_list(&self) -> bool {
        match self {
            Self::Request(Error::Api(status)) | Self::Watch(status) => status.code == GONE,
            Self::Unreadable | Self::NoVersion => true,
            Self::Request(_) | Self::Silent(_) | Self::Broken(_) | Self::CutShort => false,
        }
    }

    /// The server ended the watch with this status.
    pub(crate) fn ended(status: Status) -> Self {
        // A status that says nothing is no status.
        if status.code == 0 {
            Self::Unreadable
        } else {
            Self::Watch(status.boxed())
        }
    }
}

/// The API server's own words where there are any.
fn words(error: &Error) -> String {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}
