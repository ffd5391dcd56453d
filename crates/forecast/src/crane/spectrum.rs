//! Discrete Fourier transform with the same rounding as Crane's.
//!
//! Bins below the upper half mirror those above, but not to the last bit. That bit decides whether
//! the weakest kept bin loses its mirror image, and whether a value is above zero. So the order of
//! operations follows the source: Bluestein for lengths that are no power of two, radix 2 for the
//! others. Source: mjibson/go-dsp `fft/bluestein.go`, `fft/radix2.go`, which Crane uses.

use std::f64::consts::PI;

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

const ZERO: Bin = Bin::new(0.0, 0.0);

pub(super) fn spectrum(values: &[f64]) -> Vec<Bin> {
    transform(values.iter().map(|value| Bin::new(*value, 0.0)).collect())
}

pub(super) fn real_parts(bins: &[Bin]) -> Vec<f64> {
    let scale = bins.len() as f64;
    let inverse = transform(reversed(bins)).into_iter();
    inverse.map(|bin| bin.re / scale).collect()
}

fn transform(values: Vec<Bin>) -> Vec<Bin> {
    if values.len() <= 1 {
        values
    } else if values.len().is_power_of_two() {
        radix2(&values)
    } else {
        bluestein(&values)
    }
}

/// The bins in reverse order except the first, which makes a transform its inverse.
fn reversed(bins: &[Bin]) -> Vec<Bin> {
    let (first, rest) = bins.split_at(bins.len().min(1));
    first.iter().chain(rest.iter().rev()).copied().collect()
}

/// The amplitude of a bin, with the rounding of Go's `cmplx.Abs`.
pub(super) fn magnitude(bin: Bin) -> f64 {
    let (re, im) = (bin.re.abs(), bin.im.abs());
    let (large, small) = if re < im { (im, re) } else { (re, im) };
    if large == 0.0 {
        return 0.0;
    }
    let ratio = small / large;
    large * (1.0 + ratio * ratio).sqrt()
}

/// Transforms any length by a convolution whose length is a power of two (Bluestein).
fn bluestein(values: &[Bin]) -> Vec<Bin> {
    let count = values.len();
    let padded = (count * 2 - 1).next_power_of_two();
    let factors: Vec<Bin> = (0..count)
        .map(|index| {
            let (sine, cosine) = sine_cosine(PI / count as f64 * (index * index) as f64);
            Bin::new(cosine, sine)
        })
        .collect();
    let left = values.iter().zip(&factors);
    let mut left: Vec<Bin> = left.map(|(value, factor)| value * factor.conj()).collect();
    left.resize(padded, ZERO);
    let mut right = vec![ZERO; padded];
    for (index, factor) in factors.iter().enumerate() {
        right[index] = *factor;
        right[(padded - index) % padded] = *factor;
    }
    let (left, right) = (radix2(&left), radix2(&right));
    let product = left.iter().zip(&right).map(|(left, right)| left * right);
    let product: Vec<Bin> = product.collect();
    let scale = padded as f64;
    let convolved = radix2(&reversed(&product)).into_iter();
    let convolved = convolved.map(|bin| Bin::new(bin.re / scale, bin.im / scale));
    let chirped = convolved.zip(&factors);
    chirped.map(|(bin, factor)| bin * factor.conj()).collect()
}

/// Transforms lengths that are a power of two (Cooley and Tukey, decimation in time).
fn radix2(values: &[Bin]) -> Vec<Bin> {
    let count = values.len();
    let bits = count.trailing_zeros();
    let factors = roots(count);
    let order = (0..count).map(|index| index.reverse_bits() >> (usize::BITS - bits));
    let mut from: Vec<Bin> = order.map(|index| values[index]).collect();
    let mut to = vec![ZERO; count];
    let mut stage = 2;
    while stage <= count {
        let half = stage / 2;
        let stride = count / stage;
        for start in (0..count).step_by(stage) {
            for offset in 0..half {
                let (low, high) = (from[start + offset], from[start + offset + half]);
                let turned = || high * factors[stride * offset];
                let reversed = if stage == 2 { high } else { turned() };
                to[start + offset] = low + reversed;
                to[start + offset + half] = low - reversed;
            }
        }
        std::mem::swap(&mut from, &mut to);
        stage *= 2;
    }
    from
}

/// Roots of unity, each computed at the shortest length that has it.
fn roots(count: usize) -> Vec<Bin> {
    let mut roots = vec![
        Bin::new(1.0, 0.0),
        Bin::new(0.0, -1.0),
        Bin::new(-1.0, 0.0),
        Bin::new(0.0, 1.0),
    ];
    while roots.len() < count {
        let length = roots.len() * 2;
        let step = -2.0 * PI / length as f64;
        roots = roots
            .iter()
            .enumerate()
            .flat_map(|(index, root)| {
                let (sine, cosine) = sine_cosine(step * (2 * index + 1) as f64);
                [*root, Bin::new(cosine, sine)]
            })
            .collect();
    }
    roots
}

/// A quarter of pi in three parts; the first two are short enough that small multiples are exact.
const EIGHTH: [f64; 3] = [
    f64::from_bits(0x3fe9_21fb_4000_0000),
    f64::from_bits(0x3e64_442d_0000_0000),
    f64::from_bits(0x3ce8_4698_98cc_5170),
];
const SINE: [u64; 6] = [
    0x3de5_d8fd_1fd1_9ccd,
    0xbe5a_e5e5_a929_1f5d,
    0x3ec7_1de3_567d_48a1,
    0xbf2a_01a0_19bf_df03,
    0x3f81_1111_1110_f7d0,
    0xbfc5_5555_5555_5548,
];
const COSINE: [u64; 6] = [
    0xbda8_fa49_a086_1a9b,
    0x3e21_ee9d_7b4e_3f05,
    0xbe92_7e4f_7eac_4bc6,
    0x3efa_01a0_19c8_44f5,
    0xbf56_c16c_16c1_4f91,
    0x3fa5_5555_5555_554b,
];

/// Sine and cosine of an angle of at most 2^29 either way.
/// The bits are those of Go's `math.Sincos`: the Cephes polynomials over an eighth of a turn.
pub(super) fn sine_cosine(angle: f64) -> (f64, f64) {
    let size = angle.abs();
    let eighths = (size * (4.0 / std::f64::consts::PI)) as u64;
    let eighths = eighths + (eighths & 1);
    let whole = eighths as f64;
    let rest = ((size - whole * EIGHTH[0]) - whole * EIGHTH[1]) - whole * EIGHTH[2];
    let square = rest * rest;
    let even = 1.0 - 0.5 * square + square * square * polynomial(COSINE, square);
    let odd = rest + rest * square * polynomial(SINE, square);
    let sign = if angle < 0.0 { -1.0 } else { 1.0 };
    match eighths & 7 {
        0 => (sign * odd, even),
        2 => (sign * even, -odd),
        4 => (sign * -odd, -even),
        _ => (sign * -even, odd),
    }
}

fn polynomial(coefficients: [u64; 6], at: f64) -> f64 {
    let [first, rest @ ..] = coefficients;
    let step = |sum: f64, coefficient| sum * at + f64::from_bits(coefficient);
    rest.into_iter().fold(f64::from_bits(first), step)
}

/// One bin: amplitude and phase of one frequency.
pub(super) type Bin = Complex<f64>;

/// Transforms of one length, planned once.
/// Any length; the forward transform is not scaled, the inverse is divided by the length.
pub(super) struct Fourier {
    length: usize,
    planner: RealFftPlanner<f64>,
}

impl Fourier {
    pub(super) fn new(length: usize) -> Self {
        Self {
            length,
            planner: RealFftPlanner::new(),
        }
    }

    /// Bins 0 to half the length; those above are their mirror images.
    pub(super) fn forward(&mut self, values: &[f64]) -> Vec<Bin> {
        if self.length == 0 {
            return Vec::new();
        }
        let transform = self.planner.plan_fft_forward(self.length);
        let mut input = transform.make_input_vec();
        copy(values, &mut input);
        let mut bins = transform.make_output_vec();
        transform
            .process(&mut input, &mut bins)
            .expect("both lists were made for this transform");
        bins
    }

    /// The inverse transform of the bins 0 to half the length.
    pub(super) fn back(&mut self, bins: &[Bin]) -> Vec<f64> {
        if self.length == 0 {
            return Vec::new();
        }
        let transform = self.planner.plan_fft_inverse(self.length);
        let mut input = transform.make_input_vec();
        copy(bins, &mut input);
        // Real values have no phase at the mean and at the highest frequency, so the rounding
        // errors there are cleared.
        if let Some(first) = input.first_mut() {
            first.im = 0.0;
        }
        if self.length.is_multiple_of(2)
            && let Some(last) = input.last_mut()
        {
            last.im = 0.0;
        }
        let mut values = transform.make_output_vec();
        transform
            .process(&mut input, &mut values)
            .expect("both lists were made for this transform");
        let scale = 1.0 / self.length as f64;
        for value in &mut values {
            *value *= scale;
        }
        values
    }
}

/// Copies as many values as both lists have.
fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(angle: f64) {
        let (sine, cosine) = sine_cosine(angle);
        assert!((sine - angle.sin()).abs() < 1e-15, "sine of {angle}");
        assert!((cosine - angle.cos()).abs() < 1e-15, "cosine of {angle}");
    }

    #[test]
    fn every_eighth_of_a_turn_has_its_own_signs() {
        for step in -40_i32..=40 {
            check(f64::from(step) * 0.37);
        }
    }
}
