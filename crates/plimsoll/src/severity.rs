//! Severity of a container's finding: the difference between present and recommended request.
//!
//! | severity | finding for a resource |
//! |---|---|
//! | critical | the request is below the recommended one: memory by more than 10 %, CPU by more than half of it |
//! | warning | the CPU request is more than 10 % below the recommended one; there is no request; the request is more than twice the recommended one, and at least 100m or 128Mi above it |
//! | info | the request is more than 10 % above the recommended one |
//! | ok | the others |

use clap::ValueEnum;
use comfy_table::Color;
use serde::{Deserialize, Serialize};

/// Relative difference below which a request needs no change.
const TOLERANCE: f64 = 0.1;
/// Least excess of a warning, in millicores and MiB.
const NOTABLE: [f64; 2] = [100.0, 128.0];

/// Severities, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// No change is needed.
    Ok,
    /// A smaller request would do.
    Info,
    /// There is no request, a much smaller one would do, or CPU is short.
    Warning,
    /// Containers risk OOM kills, or CPU is far too short.
    Critical,
}

impl Severity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// Its colour; `None` for the terminal's own.
    pub(crate) fn color(self) -> Option<Color> {
        match self {
            Self::Ok | Self::Info => None,
            Self::Warning => Some(Color::DarkYellow),
            Self::Critical => Some(Color::DarkRed),
        }
    }
}

/// Present and recommended request, in millicores or MiB.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) present: Option<f64>,
    pub(crate) recommended: Option<f64>,
}

impl Change {
    /// The present and the recommended request; without a recommendation the present one stays.
    pub(crate) fn amounts(self) -> [f64; 2] {
        [self.present, self.recommended.or(self.present)].map(Option::unwrap_or_default)
    }

    /// The excess of the present request; negative if it is too small.
    pub(crate) fn saved(self) -> f64 {
        self.recommended
            .map_or(0.0, |recommended| self.present.unwrap_or(0.0) - recommended)
    }

    pub(crate) fn judge(self, is_memory: bool) -> (Severity, String) {
        let Some(recommended) = self.recommended else {
            return (Severity::Ok, "no usage recorded".to_owned());
        };
        let Some(present) = self.present else {
            return (Severity::Warning, "no request".to_owned());
        };
        let percent = |ratio: f64| format!("{:.0} %", 100.0 * ratio);
        if present < recommended * (1.0 - TOLERANCE) {
            let reason = if present >= recommended / 2.0 {
                format!("request {} too small", percent(1.0 - present / recommended))
            } else {
                format!("needs {:.1} times the request", recommended / present)
            };
            let is_critical = is_memory || present < recommended / 2.0;
            let severity = if is_critical {
                Severity::Critical
            } else {
                Severity::Warning
            };
            return (severity, reason);
        }
        if present <= recommended * (1.0 + TOLERANCE) {
            return (Severity::Ok, "fits".to_owned());
        }
        let unused = percent(1.0 - recommended / present);
        let reason = format!("{unused} of the request unused");
        let is_notable = present - recommended >= NOTABLE[usize::from(is_memory)];
        let severity = if present > 2.0 * recommended && is_notable {
            Severity::Warning
        } else {
            Severity::Info
        };
        (severity, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_depends_on_the_difference_of_requests() {
        let (ok, info) = (Severity::Ok, Severity::Info);
        let (warning, critical) = (Severity::Warning, Severity::Critical);
        for (present, recommended, is_memory, expected, words) in [
            (None, 100.0, false, warning, "no request"),
            (Some(95.0), 100.0, true, ok, "fits"),
            (Some(110.0), 100.0, true, ok, "fits"),
            (Some(80.0), 100.0, false, warning, "request 20 % too small"),
            (Some(80.0), 100.0, true, critical, "request 20 % too small"),
            (
                Some(40.0),
                100.0,
                false,
                critical,
                "needs 2.5 times the request",
            ),
            (
                Some(150.0),
                100.0,
                false,
                info,
                "33 % of the request unused",
            ),
            (
                Some(190.0),
                90.0,
                false,
                warning,
                "53 % of the request unused",
            ),
            (Some(200.0), 90.0, true, info, "55 % of the request unused"),
        ] {
            let change = Change {
                present,
                recommended: Some(recommended),
            };
            let (severity, reason) = change.judge(is_memory);
            assert_eq!((severity, reason.as_str()), (expected, words), "{change:?}");
        }
    }
}
