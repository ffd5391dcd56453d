//! Reports of the updater: whether the pods of a VPA have the recommended requests.

use anyhow::{Result, ensure};

pub use crate::proto::ApplicationReport;

pub const MAX_REPORTS: usize = 200;
/// Longest reason in bytes.
const MAX_REASON: usize = 64;
/// Longest message in bytes.
const MAX_MESSAGE: usize = 512;

/// Checks the reports of a call.
pub(crate) fn check(reports: &[ApplicationReport]) -> Result<()> {
    let count = reports.len();
    ensure!(
        count <= MAX_REPORTS,
        "{count} reports, at most {MAX_REPORTS} are allowed"
    );
    for report in reports {
        let (uid, reason) = (&report.uid, &report.reason);
        let is_word = reason.starts_with(|first: char| first.is_ascii_uppercase())
            && reason.chars().all(|other| other.is_ascii_alphanumeric());
        ensure!(
            is_word && reason.len() <= MAX_REASON,
            "{uid}: the reason {:?} is not a word in CamelCase of at most {MAX_REASON} bytes",
            reason.chars().take(MAX_REASON).collect::<String>()
        );
        let bytes = report.message.len();
        ensure!(
            bytes <= MAX_MESSAGE,
            "{uid}: a message of {bytes} bytes, at most {MAX_MESSAGE} are allowed"
        );
    }
    Ok(())
}

/// Cuts off a message that is too long.
pub(crate) fn cut(mut report: ApplicationReport) -> ApplicationReport {
    let end = report.message.floor_char_boundary(MAX_MESSAGE);
    report.message.truncate(end);
    report
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

    fn error(reports: &[ApplicationReport]) -> String {
        check(reports).unwrap_err().to_string()
    }

    #[test]
    fn reports_are_bounded() {
        let sent = report("DisruptionBudget", "1 of 2 pods need other requests");
        assert!(check(std::slice::from_ref(&sent)).is_ok());
        let many = vec![sent; MAX_REPORTS + 1];
        assert_eq!(error(&many), "201 reports, at most 200 are allowed");
        for reason in ["", "lower", "Two Words", &"A".repeat(65)] {
            let error = error(&[report(reason, "")]);
            assert!(error.starts_with("u-1: the reason"), "{error}");
        }
        let long = report("A", &"é".repeat(257));
        let expected = "u-1: a message of 514 bytes, at most 512 are allowed";
        assert_eq!(error(&[long]), expected);
        let cut = cut(report("A", &"é".repeat(300)));
        assert!(check(std::slice::from_ref(&cut)).is_ok());
        assert_eq!(cut.message, "é".repeat(256));
    }
}
