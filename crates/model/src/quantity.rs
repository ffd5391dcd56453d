//! Kubernetes resource quantities (`250m`, `1Gi`, `1e3`): exact arithmetic and text form.
//!
//! A quantity is a decimal number with at most nine decimals, and a suffix family for formatting.
//! Source: `k8s.io/apimachinery/pkg/api/resource.Quantity`. Two differences are intended: numbers
//! beyond 64 bits saturate in [`Quantity::value`] and [`Quantity::milli_value`] instead of
//! wrapping, and negative numbers always round away from zero.

mod decimal;
mod parse;

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::ops::{Add, Sub};

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use decimal::Decimal;
pub use parse::ParseQuantityError;

/// Suffix family for formatting a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of a thousand: `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`.
    BinarySi,
    /// `e` and a multiple of three.
    DecimalExponent,
}

/// Exact amount of a resource. Equality, order and hash use the value alone: `1` equals `1000m`.
#[derive(Clone)]
pub struct Quantity {
    amount: Decimal,
    format: Format,
    /// Original text, if Kubernetes preserves it although it is not canonical.
    written: Option<Box<str>>,
}

impl Quantity {
    pub const ZERO: Self = Self {
        amount: Decimal::ZERO,
        format: Format::DecimalSi,
        written: None,
    };

    /// `value` whole units.
    pub fn from_units(value: i64, format: Format) -> Self {
        Self {
            amount: Decimal::new(i128::from(value), 0),
            format,
            written: None,
        }
    }

    /// `value` thousandths with decimal suffixes, as for CPU.
    pub fn from_milli(value: i64) -> Self {
        Self {
            amount: Decimal::new(i128::from(value), -3),
            format: Format::DecimalSi,
            written: None,
        }
    }

    /// `value` thousandths in `format`.
    pub fn from_thousandths(value: i64, format: Format) -> Self {
        Self {
            format,
            ..Self::from_milli(value)
        }
    }

    /// `value` whole units with binary suffixes, as for memory.
    pub fn from_bytes(value: i64) -> Self {
        Self::from_units(value, Format::BinarySi)
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    pub fn is_negative(&self) -> bool {
        self.amount.negative
    }

    /// Whole units, rounded away from zero, saturated to 64 bits.
    pub fn value(&self) -> i64 {
        self.amount.in_units_of(0)
    }

    /// Thousandths, rounded away from zero, saturated to 64 bits.
    pub fn milli_value(&self) -> i64 {
        self.amount.in_units_of(-3)
    }

    /// The nearest double; infinite beyond its range.
    pub fn to_f64(&self) -> f64 {
        let mut text = String::new();
        let exponent = self.amount.exponent;
        let written = self
            .write_sign(&mut text)
            .and_then(|()| self.amount.write_digits(&mut text))
            .and_then(|()| write!(text, "e{exponent}"));
        let number = written.ok().and_then(|()| text.parse().ok());
        number.unwrap_or(f64::NAN)
    }

    /// The next multiple of `10^exponent` away from zero, in the same format: 0 gives whole units.
    #[must_use]
    pub fn round_up(&self, exponent: i32) -> Self {
        Self {
            amount: self.amount.round_up(exponent),
            format: self.format,
            written: None,
        }
    }

    /// The canonical text: the largest suffix that leaves an integer.
    fn write_canonical(&self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.is_zero() {
            return out.write_str("0");
        }
        self.write_sign(out)?;
        if self.format == Format::BinarySi
            && let Some((number, suffix)) = self.binary()
        {
            return match u64::try_from(number) {
                Ok(number) => write!(out, "{number}{suffix}"),
                Err(_) => write!(out, "{number}{suffix}"),
            };
        }
        let exponent = self.write_thousands(out)?;
        match (self.format, exponent) {
            (Format::DecimalExponent, 0) => Ok(()),
            (Format::DecimalExponent, _) => write!(out, "e{exponent}"),
            _ => out.write_str(decimal_suffix(exponent)),
        }
    }

    fn canonical(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.write_canonical(&mut text).map(|()| text)
    }

    fn write_sign(&self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.is_negative() {
            out.write_char('-')
        } else {
            Ok(())
        }
    }

    /// The number before a binary suffix; `None` if a binary suffix would lose precision or hide a
    /// small number.
    fn binary(&self) -> Option<(u128, &'static str)> {
        const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let number = self.amount.unsigned_integer();
        let number = number.filter(|number| *number >= 1024)?;
        let power = number.trailing_zeros() / 10;
        let suffix = SUFFIXES.get(power as usize).copied();
        Some((number >> (power * 10), suffix.unwrap_or_default()))
    }

    /// Writes the digits before a power of ten, a multiple of three, and returns the exponent.
    fn write_thousands(&self, out: &mut impl fmt::Write) -> Result<i64, fmt::Error> {
        let exponent = i64::from(self.amount.exponent);
        let zeros = exponent.rem_euclid(3);
        self.amount.write_digits(out)?;
        (0..zeros).try_for_each(|_| out.write_char('0'))?;
        Ok(exponent - zeros)
    }

    /// The format of a sum: a zero on the left takes the format of the right.
    fn joint_format(&self, other: &Self) -> Format {
        if self.is_zero() {
            other.format
        } else {
            self.format
        }
    }
}

/// Beyond `E` there is no suffix: Kubernetes omits it, although that changes the value.
fn decimal_suffix(exponent: i64) -> &'static str {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let place = usize::try_from(exponent / 3 + 3).ok();
    let suffix = place.and_then(|place| SUFFIXES.get(place));
    suffix.copied().unwrap_or_default()
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Add for &Quantity {
    type Output = Quantity;

    fn add(self, other: &Quantity) -> Quantity {
        Quantity {
            amount: self.amount.add(&other.amount),
            format: self.joint_format(other),
            written: None,
        }
    }
}

impl Sub for &Quantity {
    type Output = Quantity;

    fn sub(self, other: &Quantity) -> Quantity {
        Quantity {
            amount: self.amount.add(&other.amount.negate()),
            format: self.joint_format(other),
            written: None,
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.amount.hash(state);
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.written {
            Some(text) => f.pad(text),
            None if f.width().is_none() && f.precision().is_none() => self.write_canonical(f),
            None => f.pad(&self.canonical()?),
        }
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From text, number or null (zero), as by the API server.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity, as text or number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_units(value, Format::DecimalSi))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}
