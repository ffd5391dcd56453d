//! Reports of the updater: whether the pods of a VPA have the recommended requests.

use crate::proto;

/// Most reports of one call.
pub const MAX_REPORTS: usize = 200;
/// Longest reason in bytes.
const MAX_REASON: usize = 64;
/// Longest message in bytes.
const MAX_MESSAGE: usize = 512;

/// Report about one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationReport {
    /// UID of the object.
    pub uid: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Whether no pod needs other requests.
    pub applied: bool,
    /// Reason in CamelCase.
    pub reason: String,
    /// Sentence with numbers of pods.
    pub message: String,
}

/// Errors in a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// There are too many reports.
    #[error("{0} reports, at most {MAX_REPORTS} are allowed")]
    TooMany(usize),
    /// The reason is no CamelCase word of at most 64 bytes.
    #[error(
        "{uid}: the reason {reason:?} is not a word in CamelCase of at most {MAX_REASON} bytes"
    )]
    Reason {
        /// UID of the object.
        uid: String,
        /// The reason, cut off at 64 characters.
        reason: String,
    },
    /// The message is too long.
    #[error("{uid}: a message of {bytes} bytes, at most {MAX_MESSAGE} are allowed")]
    Message {
        /// UID of the object.
        uid: String,
        /// Its length.
        bytes: usize,
    },
}

impl ApplicationReport {
    /// Parses the reports of a call.
    pub(crate) fn from_request(
        request: proto::ReportApplicationsRequest,
    ) -> Result<Vec<Self>, ReportError> {
        let count = request.reports.len();
        if count > MAX_REPORTS {
            return Err(ReportError::TooMany(count));
        }
        request.reports.into_iter().map(Self::parse).collect()
    }

    fn parse(message: proto::ApplicationReport) -> Result<Self, ReportError> {
        let proto::ApplicationReport {
            uid,
            namespace,
            name,
            applied,
            reason,
            message,
        } = message;
        let is_word = reason.starts_with(|first: char| first.is_ascii_uppercase())
            && reason.chars().all(|other| other.is_ascii_alphanumeric());
        if !is_word || reason.len() > MAX_REASON {
            let reason = reason.chars().take(MAX_REASON).collect();
            return Err(ReportError::Reason { uid, reason });
        }
        let bytes = message.len();
        if bytes > MAX_MESSAGE {
            return Err(ReportError::Message { uid, bytes });
        }
        Ok(Self {
            uid,
            namespace,
            name,
            applied,
            reason,
            message,
        })
    }
}

impl From<ApplicationReport> for proto::ApplicationReport {
    /// Cuts off a message that is too long.
    fn from(report: ApplicationReport) -> Self {
        let mut message = report.message;
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        Self {
            uid: report.uid,
            namespace: report.namespace,
            name: report.name,
            applied: report.applied,
            reason: report.reason,
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(reason: &str, message: &str) -> ApplicationReport {
        ApplicationReport {
            uid: "u-1".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            applied: false,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    fn parsed(reports: Vec<proto::ApplicationReport>) -> Result<Vec<ApplicationReport>, String> {
        let request = proto::ReportApplicationsRequest { reports };
        ApplicationReport::from_request(request).map_err(|error| error.to_string())
    }

    #[test]
    fn reports_are_bounded() {
        let sent = report("DisruptionBudget", "1 of 2 pods need other requests");
        assert_eq!(parsed(vec![sent.clone().into()]), Ok(vec![sent.clone()]));
        let many = vec![sent.into(); MAX_REPORTS + 1];
        let expected = "201 reports, at most 200 are allowed";
        assert_eq!(parsed(many), Err(expected.to_owned()));
        for reason in ["", "lower", "Two Words", &"A".repeat(65)] {
            let error = parsed(vec![report(reason, "").into()]).unwrap_err();
            assert!(error.starts_with("u-1: the reason"), "{error}");
        }
        let mut long: proto::ApplicationReport = report("A", "").into();
        long.message = "é".repeat(257);
        let expected = "u-1: a message of 514 bytes, at most 512 are allowed";
        assert_eq!(parsed(vec![long]), Err(expected.to_owned()));
        let cut = parsed(vec![report("A", &"é".repeat(300)).into()]).unwrap();
        assert_eq!(cut[0].message, "é".repeat(256));
    }
}
