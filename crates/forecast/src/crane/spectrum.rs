//! Discrete Fourier transform with the same rounding as Crane's.
//!
//! Bins below the upper half mirror those above, but not to the last bit. That bit decides whether
//! the weakest kept bin loses its mirror image, and whether a value is above zero. So the order of
//! operations follows the source: Bluestein for lengths that are no power of two, radix 2 for the
//! others. Source: mjibson/go-dsp `fft/bluestein.go`, `fft/radix2.go`, which Crane uses.

use std::f64::consts::PI;

use super::fourier::Bin;
use super::sine::sine_cosine;

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
