//! Errors and exit codes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | error, such as a file that cannot be read, or a check that failed |
//! | 2 | invalid flags |
//! | 3 | findings of at least the severity of `--fail-on` |
//! | 4 | some workloads or clusters are left out, with the reason on the standard error |
//! | 5 | the API server or Prometheus cannot be reached |

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// There are findings of at least the severity of `--fail-on`.
    Findings,
    Partial,
    /// A check found an error.
    Failed,
}

impl Outcome {
    /// The outcome of a command that left something out, or not.
    pub(crate) fn of(is_complete: bool) -> Self {
        if is_complete {
            Self::Done
        } else {
            Self::Partial
        }
    }

    /// Tells what a command left out, with reasons.
    pub(crate) fn left_out(lines: &[String]) -> Self {
        for line in lines {
            eprintln!("left out: {line}");
        }
        Self::of(lines.is_empty())
    }

    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::Findings => ExitCode::from(3),
            Self::Partial => ExitCode::from(4),
            Self::Failed => ExitCode::FAILURE,
        }
    }
}

/// An error with an exit code of its own. All others have the exit code 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Invalid flags, in one sentence with what to do.
    #[error("{0}")]
    Usage(String),
    /// The API server or Prometheus cannot be reached.
    #[error("{0:#}")]
    Unreachable(anyhow::Error),
}

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(Failure::Usage(_)) => 2,
        Some(Failure::Unreachable(_)) => 5,
        None => 1,
    }
}

pub(crate) fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Failure::Unreachable(_)))
}

/// Whether the reader of the standard output has gone, as `head` does.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    let io = causes.find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
