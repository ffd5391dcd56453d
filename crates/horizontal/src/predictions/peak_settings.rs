//! Settings of the peak method from annotations: window and price of failure.

use forecast::PriceOfFailure;

use super::annotations::{Annotations, CAUTION, WINDOW};
use super::crane_settings;
use super::quoted;

/// Minimum window, a slot of the forecast, in seconds.
pub(crate) const MIN_WINDOW: u32 = 300;
const MAX_WINDOW: u32 = 86_400;
const MAX_PRICE: f64 = 10.0;

/// Window of the annotation in seconds; `None` without one, or with an invalid one, which a note
/// reports.
pub(super) fn requested_window(
    annotations: Annotations<'_>,
    notes: &mut Vec<String>,
) -> Option<u32> {
    let text = annotations.get(WINDOW).filter(|text| !text.is_empty())?;
    let seconds = crane_settings::seconds(WINDOW, text).ok();
    let seconds = seconds.filter(|seconds| (MIN_WINDOW..=MAX_WINDOW).contains(seconds));
    if seconds.is_none() {
        notes.push(format!(
            "annotation {WINDOW}: {} is not a duration from 5m to 24h; the measured window is used",
            quoted(text)
        ));
    }
    seconds
}

/// Price of failure of the annotation. An invalid one is reported by a note and replaced by the
/// default.
pub(super) fn price_of_failure(
    annotations: Annotations<'_>,
    notes: &mut Vec<String>,
) -> PriceOfFailure {
    match annotations.get(CAUTION) {
        None | Some("" | "normal") => PriceOfFailure::NORMAL,
        Some("low") => PriceOfFailure::LOW,
        Some("high") => PriceOfFailure::HIGH,
        Some(text) => {
            let price = text.parse().ok();
            let price = price.filter(|price| (0.0..=MAX_PRICE).contains(price));
            if price.is_none() {
                notes.push(format!(
                    "annotation {CAUTION}: {} is not low, normal, high or a number from 0 to {MAX_PRICE}; normal is used",
                    quoted(text)
                ));
            }
            price.map_or(PriceOfFailure::NORMAL, PriceOfFailure)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read<T>(
        key: &str,
        value: Option<&str>,
        read: impl Fn(Annotations<'_>, &mut Vec<String>) -> T,
    ) -> (T, String) {
        let own: BTreeMap<_, _> = value
            .map(|value| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        let mut notes = Vec::new();
        let annotations = Annotations {
            own: &own,
            owner: None,
        };
        let found = read(annotations, &mut notes);
        (found, notes.join("; "))
    }

    #[test]
    fn caution_is_a_word_or_a_price() {
        for (value, expected) in [
            (None, 0.5),
            (Some(""), 0.5),
            (Some(" normal "), 0.5),
            (Some("low"), 0.25),
            (Some("high"), 1.0),
            (Some("0"), 0.0),
            (Some("2.5"), 2.5),
            (Some("10"), 10.0),
        ] {
            let found = read(CAUTION, value, price_of_failure);
            assert_eq!(
                found,
                (PriceOfFailure(expected), String::new()),
                "{value:?}"
            );
        }
        for value in ["-0.1", "10.1", "NaN", "inf", "much", "1,5"] {
            let (price, note) = read(CAUTION, Some(value), price_of_failure);
            assert_eq!(price, PriceOfFailure::NORMAL, "{value}");
            let expected = format!(
                "annotation plimsoll.dev/forecast-caution: \"{value}\" is not low, normal, high or a number from 0 to 10; normal is used"
            );
            assert_eq!(note, expected);
        }
    }

    #[test]
    fn a_requested_window_is_from_five_minutes_to_a_day() {
        for (value, expected) in [
            (None, None),
            (Some(""), None),
            (Some("5m"), Some(300)),
            (Some("1h30m"), Some(5400)),
            (Some("24h"), Some(86_400)),
        ] {
            let found = read(WINDOW, value, requested_window);
            assert_eq!(found, (expected, String::new()), "{value:?}");
        }
        for value in ["299s", "25h", "-5m", "soon", "600"] {
            let (window, note) = read(WINDOW, Some(value), requested_window);
            assert_eq!(window, None, "{value}");
            let expected = format!(
                "annotation plimsoll.dev/forecast-window: \"{value}\" is not a duration from 5m to 24h; the measured window is used"
            );
            assert_eq!(note, expected);
        }
    }
}
