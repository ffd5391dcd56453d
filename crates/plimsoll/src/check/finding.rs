//! Results of checks.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    /// Not checked; the message gives the reason.
    Skipped,
    /// Works, but an operator should look.
    Warning,
    /// Does not work.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// Group of checks.
    pub(crate) category: &'static str,
    /// Identifier; it keeps its meaning between versions.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) status: Status,
    /// One sentence about what was found; for [`Status::Ok`] often empty.
    pub(crate) message: String,
    /// One sentence about what to do; empty for [`Status::Ok`] and [`Status::Skipped`].
    pub(crate) hint: String,
}

/// Results of checks, in the order of output.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) category: &'static str,
    pub(crate) list: Vec<Finding>,
}

/// The message of a check that passed, or the fault.
pub(crate) type Verdict = Result<String, Fault>;

/// Status, message and hint of a check that did not pass.
#[derive(Debug)]
pub(crate) struct Fault(Status, String, String);

/// An object or a list that was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) reason: String,
    /// Whether a request failed that may succeed the next time.
    has_failed: bool,
}

impl Unread {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            has_failed: false,
        }
    }
}

/// The reason why something was not read.
pub(crate) fn unread(subject: &str) -> impl Fn(kube::Error) -> Unread {
    move |error| match error {
        kube::Error::Api(status) if status.code == 403 => {
            Unread::new(format!("you have no right to read {subject}"))
        }
        kube::Error::Api(status) if status.code == 404 => {
            Unread::new(format!("the cluster has no {subject}"))
        }
        kube::Error::Api(status) => Unread {
            reason: format!(
                "cannot read {subject}: {}",
                status.message.trim_end_matches('.')
            ),
            has_failed: status.code >= 500,
        },
        error => Unread {
            reason: format!("cannot read {subject}: {error}"),
            has_failed: true,
        },
    }
}

/// A value that was read, or the reason why not.
pub(crate) type Read<T> = Result<T, Unread>;

/// The value that was read; otherwise adds the reason, once.
pub(crate) fn noted<T>(reasons: &mut Vec<String>, read: Read<T>) -> Option<T> {
    match read {
        Ok(value) => return Some(value),
        Err(Unread { reason, .. }) if reasons.contains(&reason) => {}
        Err(Unread { reason, .. }) => reasons.push(reason),
    }
    None
}

impl Findings {
    pub(crate) fn add(
        &mut self,
        id: impl Into<String>,
        title: impl Into<String>,
        verdict: Verdict,
    ) {
        let passed = |message| Fault(Status::Ok, message, String::new());
        let Fault(status, message, hint) = verdict.map_or_else(|fault| fault, passed);
        self.list.push(Finding {
            category: self.category,
            id: id.into(),
            title: title.into(),
            status,
            message,
            hint,
        });
    }
}

/// A check that was not made.
pub(crate) fn skip(reason: impl Into<String>) -> Verdict {
    Err(Fault(Status::Skipped, reason.into(), String::new()))
}

pub(crate) fn warn(message: impl Into<String>, hint: impl Into<String>) -> Verdict {
    Err(Fault(Status::Warning, message.into(), hint.into()))
}

pub(crate) fn error(message: impl Into<String>, hint: impl Into<String>) -> Verdict {
    Err(Fault(Status::Error, message.into(), hint.into()))
}

/// A check without its input is not made. That is an error if a request failed.
impl From<&Unread> for Fault {
    fn from(unread: &Unread) -> Self {
        let (status, hint) = if unread.has_failed {
            (Status::Error, "Repeat the check, with --wait")
        } else {
            (Status::Skipped, "")
        };
        Self(status, unread.reason.clone(), hint.to_owned())
    }
}
