//! Parser for quantities that accepts exactly what the Kubernetes API server accepts.
//!
//! Source: `ParseQuantity` and `parseQuantityString` in `k8s.io/apimachinery/pkg/api/resource`.

use thiserror::Error;

use super::decimal::{Decimal, times_power_of_two};
use super::{Format, Quantity};

/// Errors in a quantity, with Kubernetes' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseQuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The largest magnitude of a quantity with a binary suffix; larger ones are clamped.
const MAX_BINARY: i128 = i64::MAX as i128;

struct Parts<'a> {
    negative: bool,
    /// Digits before the decimal point, without leading zeros.
    whole: &'a str,
    /// Digits after the decimal point.
    fraction: &'a str,
    /// Whether there are digits, including leading zeros.
    has_digits: bool,
    suffix: &'a str,
}

/// Value of a suffix: a power of two (binary) or of ten (others).
struct Suffix {
    format: Format,
    exponent: i32,
}

impl std::str::FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        plain(text).map_or_else(|| in_full(text), Ok)
    }
}

fn in_full(text: &str) -> Result<Quantity, ParseQuantityError> {
    let parts = split(text)?;
    let suffix = interpret(parts.suffix).ok_or(ParseQuantityError::Suffix)?;
    let short = is_short(&parts, &suffix);
    if !parts.has_digits && !short {
        return Err(ParseQuantityError::Numeric);
    }
    let (amount, format) = amount(&parts, &suffix);
    let parsed = Quantity {
        amount,
        format,
        written: None,
    };
    if short && keeps_writing(&parts, &suffix) && parsed.canonical().as_deref() != Ok(text) {
        return Ok(Quantity {
            written: Some(text.into()),
            ..parsed
        });
    }
    Ok(parsed)
}

/// Fast path for the common form, without a list of digits: an integer without leading zeros, and a
/// unit. Such a text is canonical or not preserved.
fn plain(text: &str) -> Option<Quantity> {
    let (number, suffix) = split_digits(text);
    if number.starts_with('0') {
        return None;
    }
    let (number, Suffix { format, exponent }) = (number.parse::<i64>().ok()?, interpret(suffix)?);
    let amount = match format {
        Format::DecimalSi => Decimal::new(number.into(), exponent.into()),
        Format::BinarySi => Decimal::new(number.checked_mul(1 << exponent)?.into(), 0),
        Format::DecimalExponent => return None,
    };
    Some(Quantity {
        amount,
        format,
        written: None,
    })
}

fn split(text: &str) -> Result<Parts<'_>, ParseQuantityError> {
    if text.is_empty() {
        return Err(ParseQuantityError::Format);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let after_zeros = unsigned.trim_start_matches('0');
    let (whole, rest) = split_digits(after_zeros);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if !is_suffix_shape(suffix) {
        return Err(ParseQuantityError::Format);
    }
    let has_digits =
        after_zeros.len() < unsigned.len() || !whole.is_empty() || !fraction.is_empty();
    Ok(Parts {
        negative: text.starts_with('-'),
        whole,
        fraction,
        has_digits,
        suffix,
    })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

fn is_suffix_shape(suffix: &str) -> bool {
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn interpret(suffix: &str) -> Option<Suffix> {
    let (format, exponent) = match suffix {
        "n" => (Format::DecimalSi, -9),
        "u" => (Format::DecimalSi, -6),
        "m" => (Format::DecimalSi, -3),
        "" => (Format::DecimalSi, 0),
        "k" => (Format::DecimalSi, 3),
        "M" => (Format::DecimalSi, 6),
        "G" => (Format::DecimalSi, 9),
        "T" => (Format::DecimalSi, 12),
        "P" => (Format::DecimalSi, 15),
        "E" => (Format::DecimalSi, 18),
        "Ki" => (Format::BinarySi, 10),
        "Mi" => (Format::BinarySi, 20),
        "Gi" => (Format::BinarySi, 30),
        "Ti" => (Format::BinarySi, 40),
        "Pi" => (Format::BinarySi, 50),
        "Ei" => (Format::BinarySi, 60),
        // Kubernetes truncates a 64-bit exponent to 32 bits; doing the same keeps the values equal.
        _ => (
            Format::DecimalExponent,
            suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()? as i32,
        ),
    };
    Some(Suffix { format, exponent })
}

/// Whether Kubernetes uses machine integers for the text. Only then does it preserve the text, and
/// only then is a number without digits zero.
fn is_short(parts: &Parts<'_>, suffix: &Suffix) -> bool {
    let whole = parts.whole.len().max(1) as i64;
    let fraction = parts.fraction.len() as i64;
    match suffix.format {
        Format::BinarySi => {
            fraction == 0
                && 14 - whole - i64::from(suffix.exponent * 3 / 10) >= 0
                && binary_fits(parts, suffix)
        }
        Format::DecimalSi | Format::DecimalExponent => {
            whole + fraction <= 18 && i64::from(suffix.exponent) - fraction >= -9
        }
    }
}

fn binary_fits(parts: &Parts<'_>, suffix: &Suffix) -> bool {
    whole_number(parts)
        .checked_mul(1 << suffix.exponent)
        .is_some()
}

/// The digits before the point, at most 18 for a short number.
fn whole_number(parts: &Parts<'_>) -> i64 {
    parts.whole.parse().unwrap_or(0)
}

/// Kubernetes preserves these texts, although not all of them are canonical (`+1`, `01`, `1.500`).
fn keeps_writing(parts: &Parts<'_>, suffix: &Suffix) -> bool {
    if suffix.format == Format::BinarySi {
        return whole_number(parts) & 7 != 0;
    }
    let scale = i64::from(suffix.exponent) - parts.fraction.len() as i64;
    let ends_in_thousands = match parts.fraction.len() {
        0 => parts.whole.ends_with("000"),
        1 | 2 => format!("{}{}", parts.whole, parts.fraction).ends_with("000"),
        _ => parts.fraction.ends_with("000"),
    };
    scale % 3 == 0 && !ends_in_thousands && !parts.whole.is_empty()
}

fn amount(parts: &Parts<'_>, suffix: &Suffix) -> (Decimal, Format) {
    let written = parts.whole.bytes().chain(parts.fraction.bytes());
    let written: Vec<u8> = written.map(|digit| digit - b'0').collect();
    let fraction = parts.fraction.len() as i64;
    if suffix.format != Format::BinarySi {
        let exponent = i64::from(suffix.exponent) - fraction;
        let amount = Decimal::from_digits(parts.negative, &written, exponent);
        return (amount, suffix.format);
    }
    let bytes = times_power_of_two(&written, suffix.exponent.unsigned_abs());
    let size = Decimal::from_digits(false, &bytes, -fraction).min(Decimal::new(MAX_BINARY, 0));
    let below_one = !size.is_zero() && size < Decimal::new(1, 0);
    let format = if below_one {
        Format::DecimalSi
    } else {
        Format::BinarySi
    };
    (if parts.negative { size.negate() } else { size }, format)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plain_quantities_are_read_as_all_others(number in 1..i64::MAX, places in 0..19_u32, suffix in "[numkMGTPE]?|[KMGTPE]i") {
            let text = format!("{}{suffix}", (number / 10_i64.pow(places)).max(1));
            let full = in_full(&text).expect("a quantity");
            if let Some(plain) = plain(&text) {
                let parts = |quantity: Quantity| (quantity.amount, quantity.format, quantity.written);
                prop_assert_eq!(parts(plain), parts(full));
            } else {
                prop_assert_eq!(full.value(), i64::MAX, "{}", text);
            }
        }
    }
}
