//! Exact signed decimal numbers: digits times a power of ten, with at most nine decimals (nano).
//!
//! Most amounts fit 64 bits; longer ones, which the Kubernetes API accepts as well, are kept as
//! decimal digits. Source: the amounts behind `k8s.io/apimachinery/pkg/api/resource.Quantity`
//! (`int64Amount` and `inf.Dec`).

use std::cmp::Ordering;
use std::fmt;

/// The smallest power of ten; finer numbers are rounded away from zero.
const NANO: i64 = -9;

/// Maximum distance in decimal places for an addition; beyond it the smaller number is dropped. It
/// limits the memory of `1e2000000000 + 1`.
const MAX_ALIGNED_PLACES: i64 = 4096;

/// A sign, an integer without trailing zeros, and a power of ten. Zero is `0 * 10^0`, so equal
/// values are equal structs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    magnitude: Magnitude,
    pub(super) exponent: i32,
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
        small.unwrap_or_else(|| Self::from_digits(value < 0, &of(magnitude), exponent))
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
        let mut kept = trim_leading_zeros(all).to_vec();
        let mut exponent = exponent + drop_trailing_zeros(&mut kept);
        if kept.is_empty() {
            return Self::ZERO;
        }
        if exponent < NANO {
            drop_rounding_up(&mut kept, exponent.abs_diff(NANO));
            exponent = NANO + drop_trailing_zeros(&mut kept);
        }
        let magnitude = match to_u128(&kept, 0).and_then(|value| u64::try_from(value).ok()) {
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

    pub(super) fn negate(&self) -> Self {
        Self {
            negative: !self.negative && !self.is_zero(),
            ..self.clone()
        }
    }

    /// The digits, most significant first, without trailing zeros.
    pub(super) fn digits(&self) -> Vec<u8> {
        match &self.magnitude {
            Magnitude::Small(value) => of(u128::from(*value)),
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
            return to_u128(&self.digits(), u64::try_from(self.exponent).ok()?);
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
            drop_rounding_up(&mut kept, shift.unsigned_abs());
        }
        to_u128(&kept, shift.max(0).unsigned_abs()).unwrap_or(u128::MAX)
    }

    /// The next multiple of `10^exponent` away from zero, or the number itself if it is one.
    pub(super) fn round_up(&self, exponent: i32) -> Self {
        if self.exponent >= exponent {
            return self.clone();
        }
        let mut kept = self.digits();
        drop_rounding_up(&mut kept, u64::from(exponent.abs_diff(self.exponent)));
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
            add(&a, &b)
        } else {
            subtract(&a, &b)
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

/// The digits of `value`; empty for zero.
pub(super) fn of(value: u128) -> Vec<u8> {
    let text = if value == 0 {
        String::new()
    } else {
        value.to_string()
    };
    text.bytes().map(|digit| digit - b'0').collect()
}

/// The part after the leading zeros.
pub(super) fn trim_leading_zeros(digits: &[u8]) -> &[u8] {
    let start = digits.iter().position(|&digit| digit != 0);
    &digits[start.unwrap_or(digits.len())..]
}

/// Removes trailing zeros and returns their number.
pub(super) fn drop_trailing_zeros(digits: &mut Vec<u8>) -> i64 {
    let last = digits.iter().rposition(|&digit| digit != 0);
    let kept = last.map_or(0, |last| last + 1);
    let dropped = digits.len() - kept;
    digits.truncate(kept);
    dropped as i64
}

/// Divides by `10^places`, rounding any remainder up.
pub(super) fn drop_rounding_up(digits: &mut Vec<u8>, places: u64) {
    let kept = usize::try_from(places).map_or(0, |places| digits.len().saturating_sub(places));
    let remainder = digits[kept..].iter().any(|&digit| digit != 0);
    digits.truncate(kept);
    if remainder {
        *digits = add(digits, &[1]);
    }
}

pub(super) fn add(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut sum = Vec::with_capacity(a.len().max(b.len()) + 1);
    let mut carry = 0;
    for place in 0..a.len().max(b.len()) {
        let total = from_end(a, place) + from_end(b, place) + carry;
        sum.push(total % 10);
        carry = total / 10;
    }
    if carry > 0 {
        sum.push(carry);
    }
    sum.reverse();
    sum
}

/// `a - b`, for `a >= b`.
pub(super) fn subtract(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut difference = Vec::with_capacity(a.len());
    let mut borrow = 0;
    for place in 0..a.len() {
        let taken = from_end(b, place) + borrow;
        let digit = from_end(a, place);
        borrow = u8::from(digit < taken);
        difference.push(digit + 10 * borrow - taken);
    }
    difference.reverse();
    difference
}

/// `digits * 2^power`, for `power` at most 64.
pub(super) fn times_power_of_two(digits: &[u8], power: u32) -> Vec<u8> {
    let mut product = Vec::with_capacity(digits.len() + 20);
    let mut carry = 0_u128;
    for &digit in digits.iter().rev() {
        carry += u128::from(digit) << power;
        product.push((carry % 10) as u8);
        carry /= 10;
    }
    while carry > 0 {
        product.push((carry % 10) as u8);
        carry /= 10;
    }
    product.reverse();
    product
}

/// `digits * 10^zeros` as a machine integer, if it fits.
pub(super) fn to_u128(digits: &[u8], zeros: u64) -> Option<u128> {
    let significant = trim_leading_zeros(digits);
    if significant.is_empty() {
        return Some(0);
    }
    if significant.len() as u64 + zeros.min(100) > 39 {
        return None;
    }
    let zeros = std::iter::repeat_n(0, usize::try_from(zeros).ok()?);
    let mut digits = significant.iter().copied().chain(zeros);
    digits.try_fold(0_u128, |value, digit| {
        value.checked_mul(10)?.checked_add(u128::from(digit))
    })
}

fn from_end(digits: &[u8], place: usize) -> u8 {
    let index = digits.len().checked_sub(place + 1);
    index.map_or(0, |index| digits[index])
}
