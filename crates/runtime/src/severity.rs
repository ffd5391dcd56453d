//! klog's severities, for `--stderrthreshold`.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;

/// The minimum severity of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// All lines of the verbosity.
    #[default]
    Info,
    Warning,
    Error,
    /// Lines that end the process in klog. Here the same as errors.
    Fatal,
}

const INVALID: &str = "expected info, warning, error, fatal or 0 to 3";

impl FromStr for Severity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "info" | "0" => Ok(Self::Info),
            "warning" | "1" => Ok(Self::Warning),
            "error" | "2" => Ok(Self::Error),
            "fatal" | "3" => Ok(Self::Fatal),
            _ => Err(INVALID),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal",
        })
    }
}

impl Severity {
    /// The most verbose level of the severity.
    pub(crate) fn level(self) -> LevelFilter {
        match self {
            Self::Info => LevelFilter::TRACE,
            Self::Warning => LevelFilter::WARN,
            Self::Error | Self::Fatal => LevelFilter::ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_written_as_words_or_numbers() {
        for (text, expected) in [
            ("INFO", Ok(Severity::Info)),
            ("0", Ok(Severity::Info)),
            ("warning", Ok(Severity::Warning)),
            ("Error", Ok(Severity::Error)),
            ("3", Ok(Severity::Fatal)),
            ("4", Err(INVALID)),
            ("", Err(INVALID)),
        ] {
            assert_eq!(text.parse::<Severity>(), expected, "{text}");
        }
    }
}
