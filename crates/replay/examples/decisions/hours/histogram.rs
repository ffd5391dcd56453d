//! Weights over exponential buckets, each 4 % above the one before.

const GROWTH: f64 = 1.04;
const BUCKETS: usize = 300;
/// Upper bound of the first bucket. The last one is 1,240.
const FIRST: f64 = 0.01;

/// Amounts that may be needed, with weights, in rising order.
pub(super) type Needs = Vec<(f64, f64)>;

/// Amounts above the highest one, as factors, and their shares of the weight of novelty: those of the
/// policy "price of failure".
const NOVELTIES: [(f64, f64); 4] = [(1.05, 0.4), (1.125, 0.3), (1.25, 0.2), (1.5, 0.1)];

#[derive(Clone, Debug)]
pub(super) struct Histogram(Vec<f64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0.0; BUCKETS])
    }
}

impl Histogram {
    pub(super) fn add(&mut self, amount: f64, weight: f64) {
        let bucket = ((amount / FIRST).max(1.0).ln() / GROWTH.ln()).ceil() as usize;
        self.0[bucket.min(BUCKETS - 1)] += weight;
    }

    pub(super) fn add_above(&mut self, highest: f64, weight: f64) {
        for (factor, share) in NOVELTIES {
            self.add(highest * factor, share * weight);
        }
    }

    pub(super) fn scale(&mut self, factor: f64) {
        for weight in &mut self.0 {
            *weight *= factor;
        }
    }

    /// The upper bounds of the used buckets, multiplied.
    pub(super) fn needs(&self, unit: f64) -> Needs {
        let used = self.0.iter().enumerate().filter(|it| *it.1 > 0.0);
        let need = |(bucket, weight): (usize, &f64)| {
            let bound = FIRST * GROWTH.powi(bucket as i32);
            (bound * unit, *weight)
        };
        used.map(need).collect()
    }
}
