//! Load of pods that the metrics of their node do not include yet.
//!
//! A pod counts from its binding until the metrics include it, at most for five minutes. The node
//! ranked first for a pod carries a tentative reservation until the pod is seen bound. The state
//! after a set of events does not depend on their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};

use crate::Amounts;

/// Times and bound of [`Reservations`].
#[derive(Clone, Copy, Debug)]
pub struct ReservationConfig {
    /// Longest time that a bound pod counts; default five minutes.
    pub expiry: SignedDuration,
    /// Metrics include a pod when their window ends this long after its binding; default 60 s.
    pub settle: SignedDuration,
    /// Longest time that a tentative reservation counts; default 5 s.
    pub tentative: SignedDuration,
    /// Largest number of pods; default 20,000. The oldest pod of the namespace that has most makes
    /// room for another one.
    pub max_pods: usize,
    /// Largest number of pods of one namespace; default 5,000. Its oldest pod makes room.
    pub max_pods_per_namespace: usize,
}

/// Reservations of pods, by node.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    config: ReservationConfig,
    pods: HashMap<String, Pod>,
    /// UIDs of pods by the node that they count on.
    nodes: HashMap<String, BTreeSet<String>>,
    /// UIDs of the pods of each namespace by their numbers, the oldest first.
    namespaces: HashMap<String, BTreeMap<u64, String>>,
    next_number: u64,
    pruned_at: Option<Timestamp>,
    evicted: u64,
}

/// Pod of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodKey<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Unique identifier.
    pub uid: &'a str,
}

#[derive(Clone, Debug)]
struct Pod {
    namespace: String,
    number: u64,
    tentative: Option<Reservation>,
    bound: Option<Reservation>,
    is_removed: bool,
    /// Time of the last event.
    touched: Timestamp,
}

#[derive(Clone, Debug)]
struct Reservation {
    at: Timestamp,
    node: String,
    load: Amounts,
}

/// Change of a reservation.
enum Change {
    Tentative(Reservation),
    Bound(Reservation),
    Removed,
}

impl Default for ReservationConfig {
    fn default() -> Self {
        Self {
            expiry: SignedDuration::from_mins(5),
            settle: SignedDuration::from_secs(60),
            tentative: SignedDuration::from_secs(5),
            max_pods: 20_000,
            max_pods_per_namespace: 5_000,
        }
    }
}

impl Reservation {
    /// The node and a load of at least 0; `at` is not after `now`.
    fn new(node: &str, load: Amounts, at: Timestamp, now: Timestamp) -> Self {
        Self {
            at: at.min(now),
            node: node.to_owned(),
            load: load.max(Amounts::default()),
        }
    }

    /// Replaces an older reservation. Equal times are decided by the content.
    fn replace(self, old: &mut Option<Self>) {
        let key = |it: &Self| {
            let amounts = (it.load.cpu_millicores, it.load.memory_bytes);
            (it.at, it.node.clone(), amounts)
        };
        if old.as_ref().is_none_or(|old| key(old) < key(&self)) {
            *old = Some(self);
        }
    }
}

impl Pod {
    /// The reservation that counts, if it is not too old.
    fn current(&self) -> Option<&Reservation> {
        if self.is_removed {
            return None;
        }
        self.bound.as_ref().or(self.tentative.as_ref())
    }

    /// The load that counts at `now` with metrics up to `metrics_end`.
    fn load(
        &self,
        config: &ReservationConfig,
        metrics_end: Option<Timestamp>,
        now: Timestamp,
    ) -> Amounts {
        let Some(current) = self.current() else {
            return Amounts::default();
        };
        let age = now.duration_since(current.at);
        let is_measured =
            metrics_end.is_some_and(|end| end.duration_since(current.at) >= config.settle);
        let counts = if self.bound.is_some() {
            age < config.expiry && !is_measured
        } else {
            age < config.tentative
        };
        if counts {
            current.load
        } else {
            Amounts::default()
        }
    }
}

impl Reservations {
    /// No reservations.
    pub fn new(config: ReservationConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Records a tentative reservation on the node ranked first for a pod. A later one for the same
    /// pod moves it; a pod that is bound keeps its node.
    pub fn reserve(&mut self, pod: PodKey<'_>, node: &str, load: Amounts, now: Timestamp) {
        let reservation = Reservation::new(node, load, now, now);
        self.change(pod, Change::Tentative(reservation), now);
    }

    /// Records the binding of a pod, which confirms or moves its tentative reservation.
    ///
    /// `at` is the transition time of the condition `PodScheduled`, not the time of the watch event:
    /// after a restart, running pods must not count as new.
    pub fn bind(
        &mut self,
        pod: PodKey<'_>,
        node: &str,
        load: Amounts,
        at: Timestamp,
        now: Timestamp,
    ) {
        if self.counts(at, now) {
            let reservation = Reservation::new(node, load, at, now);
            self.change(pod, Change::Bound(reservation), now);
        }
    }

    /// Whether a pod that was bound at `at` still counts.
    pub fn counts(&self, at: Timestamp, now: Timestamp) -> bool {
        now.duration_since(at) < self.config.expiry
    }

    /// Records that a pod was deleted, failed or succeeded.
    pub fn remove(&mut self, pod: PodKey<'_>, now: Timestamp) {
        self.change(pod, Change::Removed, now);
    }

    /// Load on a node at `now` that metrics up to `metrics_end` do not include.
    pub fn reserved(&self, node: &str, metrics_end: Option<Timestamp>, now: Timestamp) -> Amounts {
        let Some(uids) = self.nodes.get(node) else {
            return Amounts::default();
        };
        uids.iter()
            .filter_map(|uid| self.pods.get(uid))
            .map(|pod| pod.load(&self.config, metrics_end, now))
            .fold(Amounts::default(), Amounts::plus)
    }

    /// Removes pods without an event for longer than the expiry.
    pub fn prune(&mut self, now: Timestamp) {
        self.pruned_at = Some(now);
        let expiry = self.config.expiry.max(self.config.tentative);
        let expired: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, pod)| now.duration_since(pod.touched) >= expiry)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in expired {
            self.forget(&uid);
        }
    }

    /// Number of pods, with those that were removed lately.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there are no pods.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Number of pods that made room for others.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    fn change(&mut self, key: PodKey<'_>, change: Change, now: Timestamp) {
        if !self.pods.contains_key(key.uid) {
            self.make_room(key.namespace, now);
            self.insert(key, now);
        }
        self.unlist(key.uid);
        let Some(pod) = self.pods.get_mut(key.uid) else {
            return;
        };
        pod.touched = pod.touched.max(now);
        match change {
            Change::Tentative(reservation) => reservation.replace(&mut pod.tentative),
            Change::Bound(reservation) => reservation.replace(&mut pod.bound),
            Change::Removed => pod.is_removed = true,
        }
        if let Some(current) = pod.current() {
            let uids = self.nodes.entry(current.node.clone()).or_default();
            uids.insert(key.uid.to_owned());
        }
    }

    fn insert(&mut self, key: PodKey<'_>, now: Timestamp) {
        let number = self.next_number;
        self.next_number += 1;
        let pod = Pod {
            namespace: key.namespace.to_owned(),
            number,
            tentative: None,
            bound: None,
            is_removed: false,
            touched: now,
        };
        self.pods.insert(key.uid.to_owned(), pod);
        let uids = self.namespaces.entry(key.namespace.to_owned());
        uids.or_default().insert(number, key.uid.to_owned());
    }

    /// Makes room for another pod of a namespace. Prunes first, at most once per second.
    fn make_room(&mut self, namespace: &str, now: Timestamp) {
        let is_full = |this: &Self| {
            let of_namespace = this.namespaces.get(namespace).map_or(0, BTreeMap::len);
            let is_full = this.pods.len() >= this.config.max_pods.max(1);
            (
                is_full,
                of_namespace >= this.config.max_pods_per_namespace.max(1),
            )
        };
        let is_due = self
            .pruned_at
            .is_none_or(|at| now.duration_since(at) >= SignedDuration::from_secs(1));
        if is_full(self) != (false, false) && is_due {
            self.prune(now);
        }
        let uids = match is_full(self) {
            (_, true) => self.namespaces.get(namespace),
            // The name decides between equals, so that replicas agree.
            (true, false) => self
                .namespaces
                .iter()
                .max_by_key(|(name, uids)| (uids.len(), *name))
                .map(|(_, uids)| uids),
            (false, false) => None,
        };
        if let Some(uid) = uids.and_then(|uids| uids.values().next()).cloned() {
            self.forget(&uid);
            self.evicted = self.evicted.saturating_add(1);
        }
    }

    fn forget(&mut self, uid: &str) {
        self.unlist(uid);
        let Some(pod) = self.pods.remove(uid) else {
            return;
        };
        if let Some(uids) = self.namespaces.get_mut(&pod.namespace) {
            uids.remove(&pod.number);
            if uids.is_empty() {
                self.namespaces.remove(&pod.namespace);
            }
        }
    }

    /// Takes a pod off the list of the node that it counts on.
    fn unlist(&mut self, uid: &str) {
        let Some(current) = self.pods.get(uid).and_then(Pod::current) else {
            return;
        };
        if let Some(uids) = self.nodes.get_mut(&current.node) {
            uids.remove(uid);
            if uids.is_empty() {
                let node = current.node.clone();
                self.nodes.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn cores(count: i64) -> Amounts {
        Amounts {
            cpu_millicores: count * 1000,
            memory_bytes: count,
        }
    }

    fn pod(uid: &str) -> PodKey<'_> {
        PodKey {
            namespace: "shop",
            uid,
        }
    }

    fn check(ledger: &Reservations, node: &str, end: Option<i64>, now: i64, expected: i64) {
        let found = ledger.reserved(node, end.map(at), at(now));
        assert_eq!(
            found,
            cores(expected),
            "{node} at {now}, metrics to {end:?}"
        );
    }

    #[test]
    fn a_bound_pod_counts_until_the_metrics_include_it_or_five_minutes() {
        let mut ledger = Reservations::default();
        ledger.bind(pod("a"), "n1", cores(2), at(100), at(101));
        for (end, now, expected) in [
            (None, 101, 2),
            (Some(90), 110, 2),
            (Some(159), 170, 2),
            (Some(160), 170, 0),
            (None, 399, 2),
            (None, 400, 0),
        ] {
            check(&ledger, "n1", end, now, expected);
        }
        check(&ledger, "n2", None, 101, 0);
    }

    #[test]
    fn a_tentative_reservation_moves_is_confirmed_or_expires() {
        let mut ledger = Reservations::default();
        ledger.reserve(pod("a"), "n1", cores(1), at(0));
        check(&ledger, "n1", Some(1000), 4, 1);
        check(&ledger, "n1", None, 5, 0);
        ledger.reserve(pod("a"), "n2", cores(1), at(6));
        check(&ledger, "n1", None, 6, 0);
        check(&ledger, "n2", None, 6, 1);
        ledger.bind(pod("a"), "n3", cores(1), at(7), at(7));
        ledger.reserve(pod("a"), "n2", cores(1), at(8));
        check(&ledger, "n2", None, 8, 0);
        check(&ledger, "n3", None, 60, 1);
        ledger.remove(pod("a"), at(61));
        check(&ledger, "n3", None, 61, 0);
    }

    #[test]
    fn pods_that_run_for_long_do_not_count_after_a_restart() {
        let mut ledger = Reservations::default();
        ledger.bind(pod("a"), "n1", cores(1), at(-9000), at(0));
        assert!(ledger.is_empty());
        ledger.bind(pod("a"), "n1", cores(1), at(50), at(0));
        check(&ledger, "n1", None, 299, 1);
        check(&ledger, "n1", None, 300, 0);
    }

    #[test]
    fn a_namespace_makes_room_for_itself_and_the_largest_one_for_others() {
        let mut ledger = Reservations::new(ReservationConfig {
            max_pods: 4,
            max_pods_per_namespace: 3,
            ..ReservationConfig::default()
        });
        let mut second = 0;
        let mut bind = |ledger: &mut Reservations, namespace, uid: &str| {
            second += 1;
            let key = PodKey { namespace, uid };
            ledger.bind(key, uid, cores(1), at(second), at(second));
        };
        for uid in ["a1", "a2", "a3", "a4", "a4"] {
            bind(&mut ledger, "a", uid);
        }
        for (node, expected) in [("a1", 0), ("a2", 1), ("a3", 1), ("a4", 1)] {
            check(&ledger, node, None, 10, expected);
        }
        bind(&mut ledger, "b", "b1");
        bind(&mut ledger, "b", "b2");
        bind(&mut ledger, "c", "c1");
        // The largest namespace gave way, down to as many pods as others have.
        for (node, expected) in [
            ("a2", 0),
            ("a3", 1),
            ("a4", 1),
            ("b1", 0),
            ("b2", 1),
            ("c1", 1),
        ] {
            check(&ledger, node, None, 10, expected);
        }
        assert_eq!((ledger.len(), ledger.evicted()), (4, 3));
        // Expired pods go first.
        let late = PodKey {
            namespace: "c",
            uid: "c2",
        };
        ledger.bind(late, "c2", cores(1), at(400), at(400));
        assert_eq!((ledger.len(), ledger.evicted()), (1, 3));
    }

    /// Kind, pod, node, load and time.
    type Event = (u8, u8, u8, i64, i64);

    fn apply(ledger: &mut Reservations, (kind, number, node, load, second): Event) {
        let (uid, node, now) = (format!("p{number}"), format!("n{node}"), at(second));
        let pod = pod(&uid);
        match kind {
            0 => ledger.reserve(pod, &node, cores(load), now),
            1 => ledger.bind(pod, &node, cores(load), now, now),
            _ => ledger.remove(pod, now),
        }
    }

    fn event() -> impl Strategy<Value = Event> {
        (0..3_u8, 0..6_u8, 0..3_u8, -2..9_i64, 0..400_i64)
    }

    proptest! {
        #[test]
        fn the_order_of_events_is_irrelevant_and_all_expire(
            (events, shuffled) in prop::collection::vec(event(), 0..40)
                .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
            end in prop::option::of(0..500_i64),
            now in 400..460_i64,
        ) {
            let [mut ledger, mut other] = [Reservations::default(), Reservations::default()];
            for (one, two) in events.iter().zip(&shuffled) {
                apply(&mut ledger, *one);
                apply(&mut other, *two);
            }
            for node in ["n0", "n1", "n2"] {
                let found = ledger.reserved(node, end.map(at), at(now));
                prop_assert!(Amounts::default().fits(found), "{found:?}");
                prop_assert_eq!(found, other.reserved(node, end.map(at), at(now)));
                prop_assert_eq!(ledger.reserved(node, None, at(700)), Amounts::default());
            }
            ledger.prune(at(700));
            prop_assert!(ledger.is_empty() && ledger.nodes.is_empty());
            prop_assert!(ledger.namespaces.is_empty());
        }
    }
}
