//! Long arithmetic on decimal digits, most significant first, for numbers beyond machine integers.

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

/// The number as a machine integer, if it fits.
pub(super) fn to_u64(digits: &[u8]) -> Option<u64> {
    u64::try_from(to_u128(digits, 0)?).ok()
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
