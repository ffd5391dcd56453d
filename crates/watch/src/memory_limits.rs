//! Bounds on the memory that one tenant's objects of one kind take. The weight of an object estimates
//! the memory of the fields that are read.
//!
//! An object that grows above a limit is treated as deleted. One that is too large by itself is
//! accepted once it becomes smaller; one that exceeds its namespace's allowance at its next change, if
//! there is room then. When other large objects are deleted or shrink, the kind is listed again.

use std::collections::HashMap;

/// Limits on the weight of objects, in bytes. The allowances of one namespace for all kinds that a
/// program reads add up to less than half of the memory limit in `deploy/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Usual weight of an object; any number of objects up to this weight is kept.
    pub(crate) usual: usize,
    pub(crate) object: usize,
    /// Limit of the sum over a namespace's objects above the usual weight.
    pub(crate) namespace: usize,
}

impl Limits {
    /// Limits of pods. A pod with ten containers has about the usual weight.
    pub(crate) const PODS: Self = Self {
        namespace: 16 << 20,
        ..Self::OTHERS
    };
    /// Limits of kinds without limits of their own. Hardly any object is larger.
    pub(crate) const OTHERS: Self = Self {
        usual: 32 << 10,
        object: 512 << 10,
        namespace: 4 << 20,
    };
    /// Limits of `VerticalPodAutoscaler` objects. One with policies and recommendations of 200
    /// containers weighs about 700 kB.
    pub(crate) const VPAS: Self = Self {
        object: 2 << 20,
        namespace: 16 << 20,
        ..Self::OTHERS
    };
    /// Limits of workload controllers, of which little more than the selector is read.
    pub(crate) const CONTROLLERS: Self = Self {
        usual: 8 << 10,
        namespace: 8 << 20,
        ..Self::OTHERS
    };
    /// Limits of predictions. The longest that is written has 10,000 points and weighs 3.4 MB.
    pub(crate) const PREDICTIONS: Self = Self {
        object: 4 << 20,
        namespace: 128 << 20,
        ..Self::OTHERS
    };
}

/// The sum over a namespace's large objects would exceed this many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the large objects of this kind in the namespace take more than {0} bytes of memory together"
)]
pub(crate) struct TooMuch(usize);

/// The weights of the large objects of one kind.
#[derive(Debug)]
pub(crate) struct MemoryLimits {
    limits: Limits,
    namespaces: HashMap<String, Large>,
    may_admit_refused: bool,
}

#[derive(Debug, Default)]
struct Large {
    weights: HashMap<String, usize>,
    total: usize,
    refused: Option<usize>,
}

impl MemoryLimits {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            namespaces: HashMap::new(),
            may_admit_refused: false,
        }
    }

    /// Counts an object in place of the one with its name. If there is no room, neither counts.
    /// Cluster-scoped objects are written by administrators and always have room. An object that is
    /// too large by itself has no text and is never admitted.
    pub(crate) fn admit(
        &mut self,
        namespace: &str,
        name: &str,
        weight: usize,
    ) -> Result<(), TooMuch> {
        if weight <= self.limits.usual || namespace.is_empty() {
            self.release(namespace, name);
            return Ok(());
        }
        let large = self.namespaces.entry(namespace.to_owned()).or_default();
        let others = large.total - large.weights.get(name).copied().unwrap_or_default();
        let total = others.saturating_add(weight);
        if total > self.limits.namespace {
            self.release(namespace, name);
            if let Some(large) = self.namespaces.get_mut(namespace) {
                large.refused = Some(large.refused.map_or(weight, |least| least.min(weight)));
            }
            return Err(TooMuch(self.limits.namespace));
        }
        large.total = total;
        large.weights.insert(name.to_owned(), weight);
        self.look_for_room(namespace);
        Ok(())
    }

    /// Weight of a counted object; 0 if it is not counted.
    pub(crate) fn weight(&self, namespace: &str, name: &str) -> usize {
        self.namespaces
            .get(namespace)
            .and_then(|large| large.weights.get(name))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn release(&mut self, namespace: &str, name: &str) {
        let Some(large) = self.namespaces.get_mut(namespace) else {
            return;
        };
        large.total -= large.weights.remove(name).unwrap_or_default();
        self.look_for_room(namespace);
        if self
            .namespaces
            .get(namespace)
            .is_some_and(|large| large.weights.is_empty())
        {
            self.namespaces.remove(namespace);
        }
    }

    /// Whether a refused object may have room now, since others were deleted or shrank.
    pub(crate) fn may_admit_refused(&self) -> bool {
        self.may_admit_refused
    }

    fn look_for_room(&mut self, namespace: &str) {
        let Some(Large {
            total,
            refused: Some(refused),
            ..
        }) = self.namespaces.get(namespace)
        else {
            return;
        };
        self.may_admit_refused |= total.saturating_add(*refused) <= self.limits.namespace;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: usize = 1000;
    const LARGE: usize = USUAL + 1;
    const LIMITS: Limits = Limits {
        usual: USUAL,
        object: 2 * LARGE,
        namespace: 3 * LARGE,
    };

    /// Admits or, without a weight, releases objects of one namespace; gives what became of each.
    fn check(steps: &[(&str, Option<usize>)], expected: &[Result<(), TooMuch>]) {
        let mut allowance = MemoryLimits::new(LIMITS);
        let found: Vec<_> = steps
            .iter()
            .map(|(name, weight)| {
                let Some(weight) = weight else {
                    allowance.release("shop", name);
                    return Ok(());
                };
                allowance.admit("shop", name, *weight)
            })
            .collect();
        assert_eq!(found, expected, "{steps:?}");
        // Another namespace has an allowance of its own.
        assert_eq!(allowance.admit("other", "a", LARGE), Ok(()));
        assert_eq!(allowance.admit("", "node", LIMITS.object), Ok(()));
    }

    #[test]
    fn large_objects_of_a_namespace_share_its_allowance() {
        let full = Err(TooMuch(LIMITS.namespace));
        let large = Some(LARGE);
        check(
            &[("a", large), ("b", large), ("c", large), ("d", large)],
            &[Ok(()), Ok(()), Ok(()), full],
        );
        check(
            &[("a", Some(2 * LARGE)), ("b", Some(2 * LARGE)), ("b", large)],
            &[Ok(()), full, Ok(())],
        );
        check(
            &[("a", Some(2 * LARGE)), ("a", large), ("b", Some(2 * LARGE))],
            &[Ok(()); 3],
        );
        let most = Some(2 * LARGE);
        check(
            &[("a", most), ("a", None), ("b", most), ("c", large)],
            &[Ok(()); 4],
        );
    }

    #[test]
    fn objects_of_the_usual_size_need_no_allowance() {
        check(&[("a", Some(USUAL)); 10], &[Ok(()); 10]);
        let all = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, Some(USUAL)));
        check(&all, &[Ok(()); 8]);
    }

    #[test]
    fn an_object_that_is_too_large_gives_its_allowance_back() {
        let too_large = Err(TooMuch(LIMITS.namespace));
        let most = Some(2 * LARGE);
        check(
            &[("a", most), ("a", Some(usize::MAX)), ("b", most)],
            &[Ok(()), too_large, Ok(())],
        );
    }

    /// Whether a refused object may have room after each step, which are as in [`check`].
    fn check_room(steps: &[(&str, Option<usize>, bool)]) {
        let mut allowance = MemoryLimits::new(LIMITS);
        for (index, (name, weight, expected)) in steps.iter().enumerate() {
            match weight {
                None => allowance.release("shop", name),
                Some(weight) => allowance.admit("shop", name, *weight).unwrap_or(()),
            }
            let found = allowance.may_admit_refused();
            assert_eq!(found, *expected, "step {index} of {steps:?}");
        }
    }

    #[test]
    fn an_object_that_goes_or_shrinks_makes_room_for_refused_ones() {
        let [large, most] = [LARGE, 2 * LARGE].map(Some);
        let (first, second) = (("a", most, false), ("b", large, false));
        let (large_more, most_more) = (("c", large, false), ("c", most, false));
        let is_gone = ("b", None, false);
        check_room(&[first, second, is_gone, ("a", None, false)]);
        check_room(&[first, second, large_more, second, ("b", None, true)]);
        check_room(&[first, second, most_more, is_gone, ("a", large, true)]);
        check_room(&[
            first,
            most_more,
            ("c", None, false),
            ("a", Some(USUAL), true),
        ]);
        check_room(&[first, second, large_more, ("a", Some(3 * LARGE), true)]);
    }
}
