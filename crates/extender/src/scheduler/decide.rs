//! Answers of filter and prioritize: from the request and the state to bytes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use jiff::Timestamp;
use placement::{
    Commitment, FallbackReason, FreshLoad, LowRiskOverCommitment, NodeState, PodDemand, PodKey,
    PodSpec, Policy, Prioritizer, Window,
};

use super::node_table::NodeTable;
use super::protocol::{
    ExtenderArgs, InvalidArgs, POLICY_ANNOTATION, Pod, filter_result, full_nodes, host_priorities,
};
use super::{Basis, NeutralReason, Scheduler};

/// Number of nodes between two looks at the deadline.
const CHUNK: usize = 512;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    pub(super) basis: Basis,
}

/// The offered nodes that are known, with their places in the request.
struct Offered<'a> {
    places: Vec<usize>,
    states: Vec<NodeState<'a>>,
    fallback: Option<FallbackReason>,
}

impl Scheduler {
    /// Scores the offered nodes. `None` is the default profile.
    pub(super) fn prioritize(
        &self,
        body: &[u8],
        profile: Option<Policy>,
        deadline: Instant,
    ) -> Result<Answer, InvalidArgs> {
        let mut args = ExtenderArgs::parse(body)?;
        let spec = args.pod.take_spec();
        let (names, _) = args.names();
        let neutral = self.config.max_score / 2;
        let scores = self.scores(&args.pod, &spec, &names, profile, deadline);
        let (scores, basis) = scores.unwrap_or_else(|why| (Vec::new(), Basis::Neutral(why)));
        let scores = scores.into_iter().chain(std::iter::repeat(neutral));
        Ok(Answer {
            body: host_priorities(&names, scores),
            basis,
        })
    }

    pub(super) fn filter(&self, body: &[u8], deadline: Instant) -> Result<Answer, InvalidArgs> {
        let mut args = ExtenderArgs::parse(body)?;
        let spec = args.pod.take_spec();
        let (names, has_full_nodes) = args.names();
        let removals = self.removals(&args.pod, &spec, &names, deadline);
        let none = |why| (BTreeMap::new(), Basis::Neutral(why));
        let (reasons, basis) = removals.unwrap_or_else(none);
        let full = has_full_nodes.then(|| full_nodes(body)).transpose()?;
        Ok(Answer {
            body: filter_result(&names, &reasons, full),
            basis,
        })
    }

    /// Scores in the order of the names, 0 to the largest score, and their basis.
    fn scores(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        names: &[&str],
        profile: Option<Policy>,
        deadline: Instant,
    ) -> Result<(Vec<i64>, Basis), NeutralReason> {
        self.ensure_synced()?;
        let now = (self.clock)();
        let prioritizer = self.prioritizer(pod, profile);
        let demand = self.demand(pod, spec, &prioritizer.policy, now);
        let snapshot = self.snapshots.borrow().clone();
        let fresh = snapshot.fresh(Window::Fifteen, now, self.config.max_age);
        let max = self.config.max_score;
        let mut scores = vec![max / 2; names.len()];
        let table = self.nodes.read();
        let key = pod.key();
        let offered = self.offered(&table, key, names, &fresh, now, deadline)?;
        // `Peaks` compares all nodes; the others are scored one by one.
        let chunk = match prioritizer.policy {
            Policy::Peaks => offered.states.len().max(1),
            _ => CHUNK,
        };
        let chunks = offered.states.chunks(chunk);
        for (states, places) in chunks.zip(offered.places.chunks(chunk)) {
            in_time(deadline)?;
            let found = prioritizer.scores(&demand, states, offered.fallback);
            for (place, score) in places.iter().zip(found) {
                scores[*place] = (score * max + 50) / 100;
            }
        }
        let basis = offered.fallback.map_or(Basis::Load, Basis::Allocation);
        let best = first_ranked(&scores, &offered.places, &pod.metadata.uid);
        drop(table);
        if let Some(place) = best
            && !pod.metadata.uid.is_empty()
        {
            let reservations = &mut self.nodes.write().reservations;
            reservations.reserve(key, names[place], demand.load, now);
        }
        Ok((scores, basis))
    }

    /// Computes the load risks of all nodes after a change of the measured load, since the first pod
    /// after it would wait for them.
    pub(super) fn cache_load_risks(&self, plugin: &LowRiskOverCommitment) {
        let now = (self.clock)();
        let snapshot = self.snapshots.borrow().clone();
        let Ok(fresh) = snapshot.fresh(Window::Fifteen, now, self.config.max_age) else {
            return;
        };
        let names = self.nodes.read().names();
        for chunk in names.chunks(CHUNK) {
            // Locked by parts, so that changes of nodes and pods do not wait.
            let table = self.nodes.read();
            for name in chunk {
                if let Some(state) = table.state(name, PodKey::default(), Some(&fresh), now) {
                    state.cache_load_risk(plugin);
                }
            }
        }
    }

    /// Reasons for removing nodes, by their places in the request.
    fn removals(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        names: &[&str],
        deadline: Instant,
    ) -> Result<(BTreeMap<usize, String>, Basis), NeutralReason> {
        let filter = &self.config.filter;
        if filter.is_off() {
            return Err(NeutralReason::Off);
        }
        self.ensure_synced()?;
        let now = (self.clock)();
        // The annotation of a pod is about scores.
        let policy = &self.config.prioritizer.policy;
        let demand = self.demand(pod, spec, policy, now);
        let snapshot = self.snapshots.borrow().clone();
        let fresh = snapshot.fresh(Window::Fifteen, now, self.config.max_age);
        let table = self.nodes.read();
        let key = pod.key();
        let offered = self.offered(&table, key, names, &fresh, now, deadline)?;
        if let Some(reason) = offered.fallback {
            return Ok((BTreeMap::new(), Basis::Allocation(reason)));
        }
        let overloads = offered.places.iter().zip(&offered.states);
        let overloads: Vec<_> = overloads
            .filter_map(|(place, state)| Some((*place, filter.check(&demand, state)?)))
            .collect();
        drop(table);
        if !filter.permits(overloads.len(), names.len()) {
            self.metrics.suspended_filters.inc();
            return Ok((BTreeMap::new(), Basis::Load));
        }
        in_time(deadline)?;
        let reasons = overloads
            .into_iter()
            .map(|(place, overload)| (place, overload.to_string()));
        Ok((reasons.collect(), Basis::Load))
    }

    fn ensure_synced(&self) -> Result<(), NeutralReason> {
        let is_synced = self.is_synced.load(Ordering::Acquire);
        is_synced.then_some(()).ok_or(NeutralReason::NotSynced)
    }

    /// States of the offered nodes that are known.
    fn offered<'a>(
        &self,
        table: &'a NodeTable,
        pod: PodKey<'_>,
        names: &[&str],
        fresh: &'a Result<FreshLoad<'a>, FallbackReason>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Offered<'a>, NeutralReason> {
        let load = fresh.as_ref().ok();
        let mut places = Vec::with_capacity(names.len());
        let mut states = Vec::with_capacity(names.len());
        let mut covered = 0;
        for (place, name) in names.iter().enumerate() {
            if place % CHUNK == 0 {
                in_time(deadline)?;
            }
            let Some(state) = table.state(name, pod, load, now) else {
                continue;
            };
            // A node without pods is idle, with or without metrics.
            covered += usize::from(state.load.is_some() || state.pods == 0);
            places.push(place);
            states.push(state);
        }
        let unknown = names.len() - places.len();
        self.metrics.unknown_nodes.inc_by(unknown as u64);
        let nodes = states.len();
        let least = nodes.saturating_mul(self.config.min_coverage_percent);
        let fallback = match fresh {
            Err(reason) => Some(*reason),
            Ok(_) if covered * 100 < least => Some(FallbackReason::LowCoverage { covered, nodes }),
            Ok(_) => None,
        };
        Ok(Offered {
            places,
            states,
            fallback,
        })
    }

    /// Policy of the pod's annotation, else of the profile, else the default.
    fn prioritizer(&self, pod: &Pod, profile: Option<Policy>) -> Prioritizer {
        let default = self.config.prioritizer;
        let mut policy = profile.unwrap_or(default.policy);
        match pod.policy().map(str::parse) {
            Some(Ok(own)) => policy = own,
            Some(Err(error)) => {
                self.metrics.invalid_policies.inc();
                let (namespace, uid, annotation) = (
                    &pod.metadata.namespace,
                    &pod.metadata.uid,
                    POLICY_ANNOTATION,
                );
                tracing::debug!(namespace, uid, annotation, %error, "invalid policy; using that of the profile");
            }
            None => {}
        }
        Prioritizer { policy, ..default }
    }

    fn demand(&self, pod: &Pod, spec: &PodSpec, policy: &Policy, now: Timestamp) -> PodDemand {
        let predicted = self.predict(spec, pod.owner(), |key| pod.label(key), policy, now);
        PodDemand {
            load: predicted.load,
            commitment: Commitment {
                requests: spec.requests(),
                limits: spec.limits(),
            },
        }
    }
}

fn in_time(deadline: Instant) -> Result<(), NeutralReason> {
    let is_in_time = Instant::now() < deadline;
    is_in_time.then_some(()).ok_or(NeutralReason::Deadline)
}

/// Place of a known node with the highest score. kube-scheduler chooses among equals at random, so
/// the UID decides here.
fn first_ranked(scores: &[i64], places: &[usize], uid: &str) -> Option<usize> {
    let start = uid.bytes().fold(0_usize, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    let (after, before) = places.split_at(start.checked_rem(places.len())?);
    let from_start = before.iter().chain(after).copied();
    from_start.reduce(|best, place| {
        if scores[place] > scores[best] {
            place
        } else {
            best
        }
    })
}
