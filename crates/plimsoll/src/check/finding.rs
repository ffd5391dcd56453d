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

pub(crate) struct Findings {
    category: &'static str,
    pub(crate) list: Vec<Finding>,
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
    pub(crate) fn new(category: &'static str) -> Self {
        Self {
            category,
            list: Vec::new(),
        }
    }

    fn add(&mut self, status: Status, check: (&str, &str), message: String, hint: String) {
        self.list.push(Finding {
            category: self.category,
            id: check.0.to_owned(),
            title: check.1.to_owned(),
            status,
            message,
            hint,
        });
    }

    /// Adds a check that passed. `check` is its identifier and its title.
    pub(crate) fn ok(&mut self, check: (&str, &str), message: impl Into<String>) {
        self.add(Status::Ok, check, message.into(), String::new());
    }

    /// Adds a check that was not made.
    pub(crate) fn skip(&mut self, check: (&str, &str), reason: impl Into<String>) {
        self.add(Status::Skipped, check, reason.into(), String::new());
    }

    /// Adds a warning.
    pub(crate) fn warn(
        &mut self,
        check: (&str, &str),
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Status::Warning, check, message.into(), hint.into());
    }

    pub(crate) fn error(
        &mut self,
        check: (&str, &str),
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Status::Error, check, message.into(), hint.into());
    }

    /// The value that was read; otherwise adds a skipped check.
    pub(crate) fn read<'a, T>(&mut self, check: (&str, &str), read: &'a Read<T>) -> Option<&'a T> {
        match read {
            Ok(value) => Some(value),
            Err(Unread(reason)) => {
                self.skip(check, reason.clone());
                None
            }
        }
    }
}
