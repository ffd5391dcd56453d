//! Results of writes: the label values of metrics, and which of them are worth another attempt.

use kube::Error;

use crate::leader_term::NotLeading;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The object is as it should be.
    Written,
    /// The object does not exist any more, or another object has its name.
    Gone,
    /// The API server refuses the content; trying again gives the same answer.
    Refused,
    /// The request did not get through; the next attempt may.
    Failed,
    /// The request was not sent, because this process no longer leads.
    NotLeading,
}

impl WriteOutcome {
    pub const ALL: [Self; 5] = [
        Self::Written,
        Self::Gone,
        Self::Refused,
        Self::Failed,
        Self::NotLeading,
    ];

    /// The outcome of a failed request. 422 is a failed test of a patch, or refused content.
    pub fn of_error(error: &Error) -> Self {
        match error {
            Error::Api(status) if status.code == 404 => Self::Gone,
            Error::Api(status) if matches!(status.code, 400 | 413 | 422) => Self::Refused,
            Error::SerdeError(_) => Self::Refused,
            error if NotLeading::is(error) => Self::NotLeading,
            _ => Self::Failed,
        }
    }

    /// The label value of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::NotLeading => "not_leading",
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn answers_say_whether_another_attempt_may_help() {
        for (code, expected) in [
            (404, WriteOutcome::Gone),
            (400, WriteOutcome::Refused),
            (422, WriteOutcome::Refused),
            (409, WriteOutcome::Failed),
            (403, WriteOutcome::Failed),
            (429, WriteOutcome::Failed),
            (503, WriteOutcome::Failed),
        ] {
            let status = Status::failure("why", "Reason").with_code(code).boxed();
            assert_eq!(
                WriteOutcome::of_error(&Error::Api(status)),
                expected,
                "{code}"
            );
        }
        let error = Error::Service(NotLeading.into());
        assert_eq!(WriteOutcome::of_error(&error), WriteOutcome::NotLeading);
    }
}
