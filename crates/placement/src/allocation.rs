//! Scores by requests, as kube-scheduler's `LeastAllocated` and `MostAllocated` with weights 1.

use crate::Amounts;

/// Preference by the requested share of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Nodes with the smallest share.
    Least,
    /// Nodes with the largest share: best fit.
    Most,
}

impl Allocation {
    /// Score of a node: the mean over CPU and memory, without those that the node lacks.
    /// `requested` includes the pod to place.
    pub fn score(self, requested: Amounts, allocatable: Amounts) -> i64 {
        let resources = [
            (requested.cpu_millicores, allocatable.cpu_millicores),
            (requested.memory_bytes, allocatable.memory_bytes),
        ];
        let (mut sum, mut count) = (0, 0);
        for (requested, size) in resources.into_iter().filter(|(_, size)| *size > 0) {
            sum += self.of_resource(requested.max(0), size);
            count += 1;
        }
        if count == 0 { 0 } else { sum / count }
    }

    fn of_resource(self, requested: i64, size: i64) -> i64 {
        let part = |amount: i64| (i128::from(amount) * 100 / i128::from(size)) as i64;
        match self {
            Self::Least => part((size - requested).max(0)),
            Self::Most => part(requested.min(size)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_cpu_and_memory_are_averaged() {
        for (requested, size, least, most) in [
            ((1000, 500), (4000, 1000), 62, 37),
            ((0, 0), (4000, 1000), 100, 0),
            ((5000, 1000), (4000, 1000), 0, 100),
            ((1000, 0), (4000, 0), 75, 25),
            ((1000, 10), (0, 0), 0, 0),
            ((1, i64::MAX), (3, i64::MAX), 33, 66),
        ] {
            let amounts = |(cpu_millicores, memory_bytes)| Amounts {
                cpu_millicores,
                memory_bytes,
            };
            let score = |by: Allocation| by.score(amounts(requested), amounts(size));
            let found = (score(Allocation::Least), score(Allocation::Most));
            assert_eq!(found, (least, most), "{requested:?} of {size:?}");
        }
    }
}
