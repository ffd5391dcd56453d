//! Failures of lists and watches, and the state to resume from.

use kube::Error;
use kube::core::Status;
use tokio::time::error::Elapsed;

/// HTTP statuses of a watch from a `resourceVersion` that is unknown or has expired.
const UNKNOWN_VERSION: [u16; 2] = [400, 410];

#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// The request failed, or its response could not be read.
    #[error("{}", words(.0))]
    Request(#[from] Error),
    /// The server ended the watch with an error.
    #[error("{}", .0.message)]
    Watch(Box<Status>),
    /// The server was silent for longer than a healthy one is.
    #[error("the API server did not answer in time")]
    Silent(#[from] Elapsed),
    #[error("connection lost during the response: {0}")]
    Broken(#[from] std::io::Error),
    /// The response ended within an object.
    #[error("truncated response")]
    CutShort,
    /// The response is not one of an API server.
    #[error("invalid response")]
    Unreadable,
    #[error("the list has no resourceVersion")]
    NoVersion,
}

impl WatchError {
    /// Whether the watch cannot resume, so that everything has to be listed again.
    pub(crate) fn needs_list(&self) -> bool {
        match self {
            Self::Request(Error::Api(status)) => UNKNOWN_VERSION.contains(&status.code),
            // An event that cannot be sent would end each watch from this version.
            Self::Watch(_) | Self::Unreadable | Self::NoVersion => true,
            Self::Request(_) | Self::Silent(_) | Self::Broken(_) | Self::CutShort => false,
        }
    }

    pub(crate) fn ended(status: Status) -> Self {
        // An empty status is not one of an API server.
        if status.code == 0 {
            Self::Unreadable
        } else {
            Self::Watch(status.boxed())
        }
    }
}

/// Message of the API server if there is one, else of the client.
fn words(error: &Error) -> String {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}
