//! Reasons why a container cannot start yet, in a kubelet's words.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub(super) struct WaitingReason {
    /// Reason in one word, as upstream.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl WaitingReason {
    /// The container's configuration is not usable, for example because a Secret is missing.
    pub(super) fn config(message: String) -> Self {
        Self {
            reason: "CreateContainerConfigError",
            message,
        }
    }

    pub(super) fn unsupported(field: impl std::fmt::Display) -> Self {
        Self::config(format!("{field} is not supported in a hosted pod"))
    }

    /// The program of this image has not been built.
    pub(super) fn image(message: String) -> Self {
        Self {
            reason: "ErrImagePull",
            message,
        }
    }

    /// The program could not be started.
    pub(super) fn run(message: String) -> Self {
        Self {
            reason: "RunContainerError",
            message,
        }
    }

    /// A volume cannot be written yet.
    pub(super) fn volume(message: String) -> Self {
        Self {
            reason: "ContainerCreating",
            message,
        }
    }
}
