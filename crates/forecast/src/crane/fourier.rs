//! Discrete Fourier transform of real values and its inverse. Any length; the forward transform is
//! not scaled, the inverse is divided by the length.

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

/// One bin: amplitude and phase of one frequency.
pub(super) type Bin = Complex<f64>;

/// Transforms of one length, planned once.
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
