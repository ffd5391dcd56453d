//! Load of pods that the metrics of their node do not include yet.
//!
//! A pod counts from its binding until the metrics include it, at most for five minutes. The node
//! ranked first for a pod carries a tentative reservation until the pod is seen bound. The state
//! after a set of events does not depend on their order.

#[cfg(test)]
mod tests;

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

/// Pod of a reservation. The default names no pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodKey<'a> {
    pub namespace: &'a str,
    pub uid: &'a str,
}

#[derive(Clone, Debug)]
struct Pod {
    namespace: String,
    number: u64,
    tentative: Option<Reservation>,
    bound: Option<Reservation>,
    is_removed: bool,
    touched: Timestamp,
}

#[derive(Clone, Debug)]
struct Reservation {
    at: Timestamp,
    node: String,
    load: Amounts,
}

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

    pub fn remove(&mut self, pod: PodKey<'_>, now: Timestamp) {
        self.change(pod, Change::Removed, now);
    }

    /// Load on a node at `now` that metrics up to `metrics_end` do not include, without the
    /// reservation of a pod that is placed again.
    pub fn reserved_for(
        &self,
        pod: PodKey<'_>,
        node: &str,
        metrics_end: Option<Timestamp>,
        now: Timestamp,
    ) -> Amounts {
        let Some(uids) = self.nodes.get(node) else {
            return Amounts::default();
        };
        uids.iter()
            .filter(|uid| uid.as_str() != pod.uid)
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

    pub fn len(&self) -> usize {
        self.pods.len()
    }

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
