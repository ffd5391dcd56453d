//! Exact signed decimal numbers: digits times a power of ten, with at most nine decimals (nano).
//!
//! Most amounts fit 64 bits; longer ones, which the Kubernetes API accepts as well, are kept as
//! decimal digits. Source: the amounts behind `k8s.io/apimachinery/pkg/api/resource.Quantity`
//! (`int64Amount` and `inf.Dec`).

use std::cmp::Ordering;
use std::fmt;

use super::digits;

/// The smallest power of ten; finer numbers are rounded away from zero.
const NANO: i64 = -9;

/// Maximum distance in decimal places for an addition; beyond it the smaller number is dropped. It
/// limits the memory of `1e2000000000 + 1`.
const MAX_ALIGNED_PLACES: i64 = 4096;

/// A sign, an integer without trailing zeros, and a power of ten. Zero is `0 * 10^0`, so equal
/// values are equal structs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    negative: bool,
    magnitude: Magnitude,
    exponent: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Magnitude {
    Small(u64),
    /// Most significant digit first, each 0 to 9; only for numbers above `u64::MAX`.
    Large(Box<[u8]>),
}

impl Decimal {
    pub(super) const ZERO: Self = Self {
        negative: false,
        magnitude: Magnitude::Small(0),
        exponent: 0,
    };

    /// `value * 10^exponent`, rounded away from zero to whole nanos.
    pub(super) fn new(value: i128, exponent: i64) -> Self {
        let magnitude = value.unsigned_abs();
        let small = u64::try_from(magnitude)
            .ok()
            .and_then(|small| Self::of_small(value < 0, small, exponent));
        small.unwrap_or_else(|| Self::from_digits(value < 0, &digits::of(magnitude), exponent))
    }

    /// Fast path for most numbers, without a list of digits; `None` if rounding is needed.
    fn of_small(negative: bool, mut magnitude: u64, mut exponent: i64) -> Option<Self> {
        if magnitude == 0 {
            return Some(Self::ZERO);
        }
        while magnitude.is_multiple_of(10) {
            magnitude /= 10;
            exponent += 1;
        }
        let magnitude = Magnitude::Small(magnitude);
        (exponent >= NANO).then(|| Self {
            negative,
            magnitude,
            exponent: clamp_exponent(exponent),
        })
    }

    /// The number with these digits (most significant first) times `10^exponent`, rounded away from
    /// zero to whole nanos.
    pub(super) fn from_digits(negative: bool, all: &[u8], exponent: i64) -> Self {
        let mut kept = digits::trim_leading_zeros(all).to_vec();
        let mut exponent = exponent + digits::drop_trailing_zeros(&mut kept);
        if kept.is_empty() {
            return Self::ZERO;
        }
        if exponent < NANO {
            digits::drop_rounding_up(&mut kept, exponent.abs_diff(NANO));
            exponent = NANO + digits::drop_trailing_zeros(&mut kept);
        }
        let magnitude = match digits::to_u64(&kept) {
            Some(small) => Magnitude::Small(small),
            None => Magnitude::Large(kept.into()),
        };
        Self {
            negative,
            magnitude,
            exponent: clamp_exponent(exponent),
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.magnitude == Magnitude::Small(0)
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    /// The power of ten including all trailing zeros.
    pub(super) fn exponent(&self) -> i32 {
        self.exponent
    }

    pub(super) fn negate(&self) -> Self {
        Self {
            negative: !self.negative && !self.is_zero(),
            ..self.clone()
        }
    }

    /// The digits, most significant first, without trailing zeros.
    pub(super) fn digits(&self) -> Vec<u8> {
        match &self.magnitude {
            Magnitude::Small(value) => digits::of(u128::from(*value)),
            Magnitude::Large(digits) => digits.to_vec(),
        }
    }

    /// Writes the digits; `0` for zero.
    pub(super) fn write_digits(&self, out: &mut impl fmt::Write) -> fmt::Result {
        match &self.magnitude {
            Magnitude::Small(value) => write!(out, "{value}"),
            Magnitude::Large(digits) => digits
                .iter()
                .try_for_each(|digit| out.write_char(char::from(b'0' + digit))),
        }
    }

    /// The absolute value if it is an integer of at most 128 bits.
    pub(super) fn unsigned_integer(&self) -> Option<u128> {
        let Magnitude::Small(value) = self.magnitude else {
            return digits::to_u128(&self.digits(), u64::try_from(self.exponent).ok()?);
        };
        u128::from(value).checked_mul(10_u128.checked_pow(u32::try_from(self.exponent).ok()?)?)
    }

    /// The multiple of `10^exponent`, rounded away from zero and saturated to 64 bits.
    pub(super) fn in_units_of(&self, exponent: i32) -> i64 {
        let shift = i64::from(self.exponent) - i64::from(exponent);
        let magnitude = match self.magnitude {
            Magnitude::Small(0) => 0,
            Magnitude::Small(value) if shift >= 0 => power_of_ten(shift)
                .map_or(u64::MAX, |factor| value.saturating_mul(factor))
                .into(),
            Magnitude::Small(value) => power_of_ten(-shift)
                .map_or(1, |divisor| value.div_ceil(divisor))
                .into(),
            Magnitude::Large(_) => self.large_in_units(shift),
        };
        saturate(self.negative, magnitude)
    }

    fn large_in_units(&self, shift: i64) -> u128 {
        let mut kept = self.digits();
        if shift < 0 {
            digits::drop_rounding_up(&mut kept, shift.unsigned_abs());
        }
        digits::to_u128(&kept, shift.max(0).unsigned_abs()).unwrap_or(u128::MAX)
    }

    /// The next multiple of `10^exponent` away from zero, or the number itself if it is one.
    pub(super) fn round_up(&self, exponent: i32) -> Self {
        if self.exponent >= exponent {
            return self.clone();
        }
        let mut kept = self.digits();
        digits::drop_rounding_up(&mut kept, u64::from(exponent.abs_diff(self.exponent)));
        Self::from_digits(self.negative, &kept, i64::from(exponent))
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        if self.is_zero() {
            return other.clone();
        }
        if other.is_zero() {
            return self.clone();
        }
        let low = self.exponent.min(other.exponent);
        if let (Some(a), Some(b)) = (self.aligned(low), other.aligned(low))
            && let Some(sum) = a.checked_add(b)
        {
            return Self::new(sum, i64::from(low));
        }
        self.add_digits(other)
    }

    /// The integer that times `10^exponent` equals this number, if it fits 127 bits.
    fn aligned(&self, exponent: i32) -> Option<i128> {
        let Magnitude::Small(value) = self.magnitude else {
            return None;
        };
        let gap = u32::try_from(i64::from(self.exponent) - i64::from(exponent)).ok()?;
        let value = i128::from(value).checked_mul(10_i128.checked_pow(gap)?)?;
        Some(if self.negative { -value } else { value })
    }

    fn add_digits(&self, other: &Self) -> Self {
        let (large, small) = if self.cmp_magnitude(other).is_ge() {
            (self, other)
        } else {
            (other, self)
        };
        let low = i64::from(large.exponent.min(small.exponent));
        let high = i64::from(large.exponent.max(small.exponent));
        if high - low > MAX_ALIGNED_PLACES {
            return large.clone();
        }
        let a = large.digits_at(low);
        let b = small.digits_at(low);
        let result = if large.negative == small.negative {
            digits::add(&a, &b)
        } else {
            digits::subtract(&a, &b)
        };
        Self::from_digits(large.negative, &result, low)
    }

    fn digits_at(&self, exponent: i64) -> Vec<u8> {
        let mut digits = self.digits();
        let zeros = usize::try_from(i64::from(self.exponent) - exponent).unwrap_or(0);
        digits.extend(std::iter::repeat_n(0, zeros));
        digits
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        if self.is_zero() || other.is_zero() {
            return other.is_zero().cmp(&self.is_zero());
        }
        if let (Magnitude::Small(a), Magnitude::Small(b)) = (&self.magnitude, &other.magnitude) {
            return cmp_small((*a, self.exponent), (*b, other.exponent));
        }
        let (a, b) = (self.digits(), other.digits());
        let places = |digits: &[u8], exponent: i32| digits.len() as i64 + i64::from(exponent);
        // Without trailing zeros, numbers with the same number of places compare like their digits.
        places(&a, self.exponent)
            .cmp(&places(&b, other.exponent))
            .then_with(|| a.cmp(&b))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn clamp_exponent(exponent: i64) -> i32 {
    exponent.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

fn power_of_ten(exponent: i64) -> Option<u64> {
    10_u64.checked_pow(u32::try_from(exponent).ok()?)
}

/// Compares `value * 10^exponent` of two numbers that are not zero.
fn cmp_small((a, a_exponent): (u64, i32), (b, b_exponent): (u64, i32)) -> Ordering {
    let gap = a_exponent.abs_diff(b_exponent);
    // A power of ten beyond 128 bits exceeds every 64-bit number.
    let raised = |value: u64| {
        10_u128
            .checked_pow(gap)
            .map_or(u128::MAX, |power| power.saturating_mul(value.into()))
    };
    match a_exponent.cmp(&b_exponent) {
        Ordering::Equal => a.cmp(&b),
        Ordering::Greater => raised(a).cmp(&b.into()),
        Ordering::Less => u128::from(a).cmp(&raised(b)),
    }
}

fn saturate(negative: bool, magnitude: u128) -> i64 {
    let limited = i128::try_from(magnitude).unwrap_or(i128::MAX);
    let signed = if negative { -limited } else { limited };
    signed.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
