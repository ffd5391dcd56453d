//! Memory limits of forecasts: of one namespace, and of all. The namespaces with the most memory
//! lose what exceeds the total.

/// Fraction of a share that stays free when a metric is admitted: an eighth.
const RESERVE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    pub namespace_bytes: usize,
    pub total_bytes: usize,
}

impl MemoryLimits {
    /// Largest memory of one namespace such that all of them fit: each gets the memory that it
    /// needs or this much.
    pub(super) fn share(&self, mut needed: Vec<usize>) -> usize {
        needed.sort_unstable();
        let mut rest = self.total_bytes;
        let count = needed.len();
        for (index, bytes) in needed.into_iter().enumerate() {
            let equal = rest / (count - index);
            let bytes = bytes.min(self.namespace_bytes);
            if bytes > equal {
                return equal;
            }
            rest -= bytes;
        }
        self.namespace_bytes
    }

    /// Largest used memory of a share after a metric is admitted. The reserve lets histories grow,
    /// and prevents a refused metric from being read anew whenever a little memory becomes free.
    pub(super) fn most_to_begin(share: usize) -> usize {
        share - share / RESERVE
    }

    /// The reason for refusing a metric of a namespace that gets `share`.
    pub(super) fn reason(&self, share: usize) -> String {
        let (whose, part, bytes) = if share < self.namespace_bytes {
            ("all namespaces", "", self.total_bytes)
        } else {
            ("the namespace", "a quarter of ", self.namespace_bytes)
        };
        let mib = bytes >> 20;
        format!(
            "the forecasts of {whose} take more memory than {part}predictions.memoryLimit, {mib} MiB"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(needed: &[usize], expected: usize) {
        let limits = MemoryLimits {
            namespace_bytes: 60,
            total_bytes: 100,
        };
        let share = limits.share(needed.to_vec());
        assert_eq!(share, expected, "{needed:?}");
        let used: usize = needed.iter().map(|bytes| bytes.min(&share)).sum();
        assert!(used <= 100, "{needed:?}");
    }

    #[test]
    fn small_needs_are_met_and_the_rest_is_divided() {
        check(&[], 60);
        check(&[10, 50, 30], 60);
        check(&[1000, 10, 30], 60);
        check(&[1000, 10, 40], 50);
        check(&[1000, 1000, 10], 45);
        check(&[1000; 200], 0);
    }

    #[test]
    fn the_reason_names_the_limit_that_is_reached() {
        let limits = MemoryLimits {
            namespace_bytes: 64 << 20,
            total_bytes: 256 << 20,
        };
        let namespace = "the forecasts of the namespace take more memory than a quarter of predictions.memoryLimit, 64 MiB";
        assert_eq!(limits.reason(64 << 20), namespace);
        let all = "the forecasts of all namespaces take more memory than predictions.memoryLimit, 256 MiB";
        assert_eq!(limits.reason(30 << 20), all);
    }
}
