//! Holidays: dates without cron windows. Crane's objects have no field for them, so an annotation
//! carries them.

use jiff::civil::Date;
use kube::ResourceExt as _;
use thiserror::Error;

use super::EffectiveHorizontalPodAutoscaler;

/// Annotation that users set on an EHPA: dates without schedules; see docs/horizontal.md#schedules.
///
/// Dates such as `2026-12-25`, separated by commas. Each is a day in the time zone of the window.
pub const HOLIDAYS: &str = "plimsoll.dev/holidays";
/// Maximum number of dates, about a century of public holidays.
const MOST: usize = 2000;

/// Errors in the holidays annotation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HolidaysError {
    /// Invalid date.
    #[error("annotation {HOLIDAYS}: {0:?} is not a date such as 2026-12-25")]
    Date(String),
    /// More than the maximum number of dates.
    #[error("annotation {HOLIDAYS}: there are more than {MOST} dates")]
    TooMany,
}

/// The holidays of an object in order; empty without the annotation. On an error, windows should
/// open on every day.
pub fn holidays(object: &EffectiveHorizontalPodAutoscaler) -> Result<Vec<Date>, HolidaysError> {
    let text = object
        .annotations()
        .get(HOLIDAYS)
        .map_or("", String::as_str);
    let dates = text
        .split(',')
        .map(str::trim)
        .filter(|date| !date.is_empty());
    let read = |date: &str| {
        date.parse::<Date>()
            .map_err(|_| HolidaysError::Date(date.chars().take(40).collect()))
    };
    let mut dates = dates
        .take(MOST + 1)
        .map(read)
        .collect::<Result<Vec<_>, _>>()?;
    if dates.len() > MOST {
        return Err(HolidaysError::TooMany);
    }
    dates.sort_unstable();
    dates.dedup();
    Ok(dates)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use serde_json::json;

    use super::*;

    fn check(annotation: Option<&str>, expected: Result<&[Date], HolidaysError>) {
        let mut object = json!({
            "metadata": {"name": "web"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3},
        });
        if let Some(annotation) = annotation {
            object["metadata"]["annotations"] = json!({ HOLIDAYS: annotation });
        }
        let object = serde_json::from_value(object).expect("an object");
        assert_eq!(
            holidays(&object),
            expected.map(<[Date]>::to_vec),
            "{annotation:?}"
        );
    }

    #[test]
    fn holidays_are_dates_in_an_annotation() {
        check(None, Ok(&[]));
        check(Some(""), Ok(&[]));
        check(Some("2026-12-25"), Ok(&[date(2026, 12, 25)]));
        check(
            Some(" 2026-12-26, 2026-12-25,2026-12-26,"),
            Ok(&[date(2026, 12, 25), date(2026, 12, 26)]),
        );
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for wrong in ["Christmas", "2026-02-30", "25.12.2026", "2026-12"] {
            check(
                Some(&format!("2026-12-25,{wrong}")),
                Err(HolidaysError::Date(wrong.to_owned())),
            );
        }
        check(
            Some(&"2026-12-25,".repeat(MOST + 1)),
            Err(HolidaysError::TooMany),
        );
    }
}
