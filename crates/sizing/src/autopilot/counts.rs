//! Number of samples per bucket in one window: the paper's `s[t]`.

use serde::{Deserialize, Serialize};

use crate::Buckets;

/// Counts in bucket order, without empty buckets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts(Vec<(u8, u32)>);

impl Counts {
    pub(super) fn add(&mut self, bucket: u8) {
        match self.0.binary_search_by_key(&bucket, |(known, _)| *known) {
            Ok(index) => self.0[index].1 = self.0[index].1.saturating_add(1),
            Err(index) => self.0.insert(index, (bucket, 1)),
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        let buckets = || self.0.iter().map(|(bucket, _)| *bucket);
        buckets().is_sorted_by(|one, next| one < next)
            && buckets().all(|bucket| usize::from(bucket) < Buckets::COUNT)
            && self.0.iter().all(|(_, count)| *count > 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, f64)> + '_ {
        self.0
            .iter()
            .map(|(bucket, count)| (*bucket, f64::from(*count)))
    }

    pub(super) fn total(&self) -> f64 {
        self.iter().map(|(_, count)| count).sum()
    }

    /// The highest bucket with a sample.
    pub(super) fn highest(&self) -> Option<u8> {
        self.0.last().map(|(bucket, _)| *bucket)
    }
}
