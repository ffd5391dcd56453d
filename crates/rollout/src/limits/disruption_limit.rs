//! Disruption limit of a group: the number of its pods that may be unavailable. A group is the pods
//! of one VPA object with the same direct owner, so the old and the new `ReplicaSet` of a rollout
//! are two groups.
//!
//! Two rules apply, with `tolerance` = the tolerated fraction of `configured`, rounded down.
//! Upstream's rule counts running pods: more than `configured - tolerance` must run, less those
//! reserved in this pass; a complete group of tolerance 0 may lose one. Our rule counts available
//! pods: an available pod may only go if at most `tolerance` pods (at least 1) are unavailable
//! then. So an evicted pod counts until its replacement is ready, also if others evicted it.
//!
//! Example: of 4 configured pods with a tolerance of 0.5, 2 may be unavailable. After 2 evictions,
//! the next one waits until a replacement is ready.
//!
//! Pods beyond `configured` are no spares. Either their controller is about to delete them, and
//! which ones is not known, or `configured` is out of date. So our rule counts as if the surplus
//! were gone already. Source: upstream `pkg/updater/restriction/pods_restriction_factory.go` and
//! `pods_eviction_restriction.go`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodAvailability {
    /// Bound to a node, but not started.
    Pending,
    Running {
        /// Whether it is ready, and no restart by a resize is to come.
        available: bool,
    },
}

/// The disruption of a workload by an action on one of its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disruption {
    Eviction,
    /// The pod stays, and some of its containers restart.
    Restart,
    /// The pod stays, and no container restarts.
    Resize,
}

/// Kind and name of a group's owner; `None` for pods without an owner.
pub(crate) type OwnerName<'a> = Option<(&'a str, &'a str)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupSize {
    /// The number of pods that it should have.
    pub(crate) configured: i64,
    /// The largest number of live pods since the group scales down; the number of live pods
    /// otherwise.
    pub(crate) peak: i64,
}

/// The pods of one controller, as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) configured: i64,
    /// Pods of those that may be unavailable.
    pub(crate) tolerance: i64,
    pub(crate) pending: i64,
    pub(crate) running: i64,
    pub(crate) available_pods: i64,
    /// Whether there are fewer than the minimum. Then only resizes without disruption are allowed.
    pub(crate) below_min_replicas: bool,
    /// Pods beyond `configured`, at the peak since the group scales down: those deleted since count
    /// as lost.
    surplus: i64,
    /// Running pods with an action of this pass or in flight.
    reserved: i64,
    /// Those of them that were available and are disrupted.
    reserved_available: i64,
}

impl Group {
    /// A group of pods with these availabilities. Pods whose eviction is in flight must be left
    /// out. `peak` is the largest number of live pods since the group scales down.
    pub(crate) fn new(
        availabilities: impl IntoIterator<Item = PodAvailability>,
        configured: i64,
        peak: i64,
        required: i64,
        tolerance: f64,
    ) -> Self {
        let (mut pending, mut running, mut available_pods) = (0, 0, 0);
        for availability in availabilities {
            match availability {
                PodAvailability::Pending => pending += 1,
                PodAvailability::Running { available } => {
                    running += 1;
                    available_pods += i64::from(available);
                }
            }
        }
        Self {
            configured,
            tolerance: (configured as f64 * tolerance) as i64,
            pending,
            running,
            available_pods,
            below_min_replicas: pending + running < required,
            surplus: (peak - configured).max(0),
            reserved: 0,
            reserved_available: 0,
        }
    }

    /// Pods that there should be and are not, or have no node.
    pub(crate) fn missing(&self) -> i64 {
        (self.configured - self.pending - self.running).max(0)
    }

    /// Upstream's rule: whether one more running pod may go.
    pub(crate) fn tolerates_one_less_running(&self) -> bool {
        let enough = self.running - self.reserved > self.configured - self.tolerance;
        enough || (self.configured == self.running && self.tolerance == 0 && self.reserved == 0)
    }

    pub(crate) fn allows(&self, disruption: Disruption, availability: PodAvailability) -> bool {
        let PodAvailability::Running { available } = availability else {
            return disruption == Disruption::Eviction && !self.below_min_replicas;
        };
        let keeps_available =
            disruption == Disruption::Resize || !available || self.tolerates_one_more_unavailable();
        self.tolerates_one_less_running()
            && keeps_available
            && (disruption == Disruption::Resize || !self.below_min_replicas)
    }

    /// Our rule: whether one more pod may be unavailable.
    fn tolerates_one_more_unavailable(&self) -> bool {
        self.unavailable() < self.tolerance.max(1)
    }

    /// Whether an eviction of unknown outcome, which is counted already, may be sent again.
    pub(crate) fn allows_retry(&self, availability: PodAvailability) -> bool {
        availability != (PodAvailability::Running { available: true })
            || self.unavailable() <= self.tolerance.max(1)
    }

    fn unavailable(&self) -> i64 {
        self.configured - (self.available_pods - self.surplus - self.reserved_available)
    }

    pub(crate) fn reserve(&mut self, disruption: Disruption, availability: PodAvailability) {
        let PodAvailability::Running { available } = availability else {
            return;
        };
        self.reserved += 1;
        self.reserved_available += i64::from(available && disruption != Disruption::Resize);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UP: PodAvailability = PodAvailability::Running { available: true };
    const DOWN: PodAvailability = PodAvailability::Running { available: false };

    /// The number of pods that can be evicted one after the other, in this order.
    fn check(pods: &[(usize, PodAvailability)], configured: i64, expected: usize) {
        let pods = pods.iter();
        let pods = pods.flat_map(|(count, pod)| std::iter::repeat_n(*pod, *count));
        let pods: Vec<PodAvailability> = pods.collect();
        let mut group = Group::new(pods.iter().copied(), configured, pods.len() as i64, 1, 0.5);
        let mut evicted = 0;
        for pod in &pods {
            if group.allows(Disruption::Eviction, *pod) {
                group.reserve(Disruption::Eviction, *pod);
                evicted += 1;
            }
        }
        assert_eq!(evicted, expected, "{pods:?} of {configured}");
    }

    #[test]
    fn as_many_may_go_as_are_tolerated() {
        check(&[(1, UP)], 1, 1);
        check(&[(2, UP)], 2, 1);
        check(&[(3, UP)], 3, 1);
        check(&[(10, UP)], 10, 5);
        check(&[(8, UP)], 10, 3);
        check(&[(5, UP)], 10, 0);
    }

    #[test]
    fn pods_that_have_not_started_may_always_go() {
        check(&[(3, PodAvailability::Pending)], 3, 3);
        check(&[(2, PodAvailability::Pending), (5, UP)], 10, 2);
    }

    #[test]
    fn pods_beyond_those_wanted_are_no_spares() {
        check(&[(10, UP)], 4, 2);
        check(&[(10, UP)], 5, 2);
        check(&[(2, DOWN), (8, UP)], 5, 2);
        check(&[(6, DOWN), (4, UP)], 5, 6);
        check(&[(3, UP)], 1, 1);
    }

    #[test]
    fn a_replacement_counts_once_it_is_ready() {
        check(&[(5, DOWN), (5, UP)], 10, 5);
        check(&[(5, UP), (5, DOWN)], 10, 5);
        let mut group = Group::new([DOWN, UP, UP, UP], 4, 4, 1, 0.5);
        assert!(group.allows(Disruption::Eviction, UP));
        group.reserve(Disruption::Eviction, UP);
        // Two of four are away.
        assert!(!group.allows(Disruption::Eviction, UP) && !group.allows(Disruption::Restart, UP));
        assert!(
            group.allows(Disruption::Eviction, DOWN),
            "it does not serve"
        );
        assert!(group.allows(Disruption::Resize, UP), "it goes on serving");
    }

    #[test]
    fn a_small_group_is_left_alone() {
        let group = Group::new([UP], 1, 1, 2, 0.5);
        assert!(group.below_min_replicas);
        assert!(!group.allows(Disruption::Eviction, UP) && group.allows(Disruption::Resize, UP));
        let group = Group::new([PodAvailability::Pending], 1, 1, 2, 0.5);
        assert!(!group.allows(Disruption::Eviction, PodAvailability::Pending));
    }

    fn availability() -> impl Strategy<Value = PodAvailability> {
        prop_oneof![
            1 => Just(PodAvailability::Pending),
            2 => Just(DOWN),
            6 => Just(UP),
        ]
    }

    fn disruption() -> impl Strategy<Value = Disruption> {
        prop_oneof![
            Just(Disruption::Eviction),
            Just(Disruption::Restart),
            Just(Disruption::Resize)
        ]
    }

    proptest! {
        /// In any order of actions, no more available pods go than tolerated, and nothing is
        /// disrupted below the minimum number of pods.
        #[test]
        fn never_more_are_away_than_are_tolerated(
            pods in proptest::collection::vec((availability(), disruption()), 0..20),
            configured in 1i64..20,
            lost in 0i64..5,
            required in 0i64..6,
            tolerance in prop_oneof![Just(0.0), Just(0.5), 0.0f64..=1.0],
        ) {
            let peak = pods.len() as i64 + lost;
            let availabilities = pods.iter().map(|(availability, _)| *availability);
            let mut group = Group::new(availabilities, configured, peak, required, tolerance);
            let (mut running, mut available_pods) = (group.running, group.available_pods);
            let allowed = ((configured as f64 * tolerance) as i64).max(1);
            // Whichever pods of the surplus the controller deletes.
            let at_least = configured.max(peak) - allowed;
            for (availability, disruption) in pods.iter().copied() {
                if !group.allows(disruption, availability) {
                    continue;
                }
                group.reserve(disruption, availability);
                let PodAvailability::Running { available } = availability else { continue };
                running -= 1;
                prop_assert!(running >= configured - allowed, "{running} of {configured} run on");
                if disruption != Disruption::Resize {
                    prop_assert!(pods.len() as i64 >= required);
                    available_pods -= i64::from(available);
                    prop_assert!(!available || available_pods >= at_least, "{available_pods} of {peak} serve, {configured} are wanted");
                }
            }
        }
    }
}
