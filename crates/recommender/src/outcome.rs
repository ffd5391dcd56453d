//! Results of writes: the label values of the metrics, and which of them are worth another attempt.

/// Result of writing the status of one `VerticalPodAutoscaler`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusOutcome {
    /// The status is in the object.
    Written,
    /// The object does not exist any more, or another object has its name.
    Gone,
    /// The API server refuses the status; trying again gives the same answer.
    Refused,
    /// The request did not get through; the next attempt may.
    Failed,
    /// The request was not sent, because this process no longer leads.
    NotLeading,
}

impl StatusOutcome {
    /// The label of the metric.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::NotLeading => "not_leading",
        }
    }

    /// Every outcome.
    pub(crate) const ALL: [Self; 5] = [
        Self::Written,
        Self::Gone,
        Self::Refused,
        Self::Failed,
        Self::NotLeading,
    ];
}

/// Result of looking at the checkpoint of one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointOutcome {
    /// The checkpoint was written.
    Written,
    /// The object has the same content already.
    Unchanged,
    /// The object has later samples than are known here, and stays.
    Newer,
    /// The checkpoint was not created: its VPA object has the maximum number of checkpoints.
    TooMany,
    /// The name belongs to another container's checkpoint.
    Taken,
    /// The API server refuses the checkpoint; trying again gives the same answer.
    Refused,
    /// The request did not get through; the next attempt may.
    Failed,
    /// The request was not sent, because this process no longer leads.
    NotLeading,
}

impl CheckpointOutcome {
    /// The label of the metric.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Unchanged => "unchanged",
            Self::Newer => "newer",
            Self::TooMany => "too_many",
            Self::Taken => "taken",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::NotLeading => "not_leading",
        }
    }

    /// Every outcome.
    pub(crate) const ALL: [Self; 8] = [
        Self::Written,
        Self::Unchanged,
        Self::Newer,
        Self::TooMany,
        Self::Taken,
        Self::Refused,
        Self::Failed,
        Self::NotLeading,
    ];

    /// Whether the history is stored, or never will be: an object with too many container names has
    /// a condition and a counter of its own.
    pub(crate) fn is_stored(self) -> bool {
        matches!(
            self,
            Self::Written | Self::Unchanged | Self::Newer | Self::TooMany
        )
    }
}

/// Result of a write on behalf of a sizing policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicyOutcome {
    /// The object is as it should be.
    Written,
    /// The request failed, with the reason.
    Failed(String),
    /// The request was not sent, because this process no longer leads.
    NotLeading,
}

impl PolicyOutcome {
    /// The label of the metric.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Failed(_) => "failed",
            Self::NotLeading => "not_leading",
        }
    }

    /// The label of every outcome.
    pub(crate) const NAMES: [&'static str; 3] = ["written", "failed", "not_leading"];
}
