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
    /// Category of the checks that follow.
    pub(crate) category: &'static str,
    pub(crate) list: Vec<Finding>,
}

/// A check, whose result is to be added.
pub(crate) struct Check<'a> {
    findings: &'a mut Findings,
    id: String,
    title: String,
}

/// An object or a list that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread(pub(crate) String);

/// The reason why something was not read.
pub(crate) fn unread(subject: &str) -> impl Fn(kube::Error) -> Unread {
    move |error| match error {
        kube::Error::Api(status) if status.code == 403 => {
            Unread(format!("you have no right to read {subject}"))
        }
        kube::Error::Api(status) => Unread(format!(
            "cannot read {subject}: {}",
            status.message.trim_end_matches('.')
        )),
        error => Unread(format!("cannot read {subject}: {error}")),
    }
}

/// A value that was read, or the reason why not.
pub(crate) type Read<T> = Result<T, Unread>;

impl Findings {
    pub(crate) fn check(&mut self, id: impl Into<String>, title: impl Into<String>) -> Check<'_> {
        Check {
            findings: self,
            id: id.into(),
            title: title.into(),
        }
    }
}

impl Check<'_> {
    fn add(&mut self, status: Status, message: impl Into<String>, hint: impl Into<String>) {
        self.findings.list.push(Finding {
            category: self.findings.category,
            id: self.id.clone(),
            title: self.title.clone(),
            status,
            message: message.into(),
            hint: hint.into(),
        });
    }

    /// Adds that it passed.
    pub(crate) fn ok(&mut self, message: impl Into<String>) {
        self.add(Status::Ok, message, "");
    }

    /// Adds that it was not made.
    pub(crate) fn skip(&mut self, reason: impl Into<String>) {
        self.add(Status::Skipped, reason, "");
    }

    pub(crate) fn warn(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        self.add(Status::Warning, message, hint);
    }

    pub(crate) fn error(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        self.add(Status::Error, message, hint);
    }

    /// The value that was read; otherwise adds that the check was not made.
    pub(crate) fn read<'a, T>(&mut self, read: &'a Read<T>) -> Option<&'a T> {
        let value = read.as_ref();
        value.map_err(|Unread(reason)| self.skip(reason)).ok()
    }
}
