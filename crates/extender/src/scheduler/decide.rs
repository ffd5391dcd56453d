//! Answers of filter and prioritize: from the request and the state to bytes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use jiff::Timestamp;
use placement::{
    Commitment, FallbackReason, FreshLoad, LowRiskOverCommitment, NodeState, PodDemand, PodKey,
    PodSpec, Policy, Prioritizer, Window,
};

use super::Scheduler;
use super::metrics::{Basis, NeutralReason};
use super::node_table::NodeTable;
use super::protocol::{
    ExtenderArgs, InvalidArgs, POLICY_ANNOTATION, Pod, filter_result, full_nodes, host_priorities,
};

/// Number of nodes between two looks at the deadline.
const CHUNK: usize = 512;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    /// Basis of the scores or removals.
    pub(super) basis: Basis,
}

/// The offered nodes that are known, with their places in the request.
struct Offered<'a> {
    places: Vec<usize>,
    states: Vec<NodeState<'a>>,
    fallback: Option<FallbackReason>,
}

/// The deadline has passed.
struct Late;

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
        let (scores, basis) = if self.is_synced.load(Ordering::Acquire) {
            match self.scores(&args.pod, &spec, &names, profile, deadline) {
                Ok((scores, fallback)) => (scores, fallback.map_or(Basis::Load, Basis::Allocation)),
                Err(Late) => (Vec::new(), Basis::Neutral(NeutralReason::Deadline)),
            }
        } else {
            (Vec::new(), Basis::Neutral(NeutralReason::NotSynced))
        };
        let scores = scores.into_iter().chain(std::iter::repeat(neutral));
        Ok(Answer {
            body: host_priorities(&names, scores),
            basis,
        })
    }

    /// Removes the offered nodes that are too loaded.
    pub(super) fn filter(&self, body: &[u8], deadline: Instant) -> Result<Answer, InvalidArgs> {
        let mut args = ExtenderArgs::parse(body)?;
        let spec = args.pod.take_spec();
        let (names, has_full_nodes) = args.names();
        let (reasons, basis) = if self.config.filter.is_off() {
            (BTreeMap::new(), Basis::Neutral(NeutralReason::Off))
        } else if self.is_synced.load(Ordering::Acquire) {
            self.removals(&args.pod, &spec, &names, deadline)
                .unwrap_or_else(|Late| {
                    let basis = Basis::Neutral(NeutralReason::Deadline);
                    (BTreeMap::new(), basis)
                })
        } else {
            let basis = Basis::Neutral(NeutralReason::NotSynced);
            (BTreeMap::new(), basis)
        };
        let full = has_full_nodes.then(|| full_nodes(body)).transpose()?;
        Ok(Answer {
            body: filter_result(&names, &reasons, full),
            basis,
        })
    }

    /// Scores in the order of the names, 0 to the largest score, and the reason for scores by
    /// allocation.
    fn scores(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        names: &[&str],
        profile: Option<Policy>,
        deadline: Instant,
    ) -> Result<(Vec<i64>, Option<FallbackReason>), Late> {
        let now = (self.clock)();
        let demand = self.demand(pod, spec, now);
        let prioritizer = self.prioritizer(pod, profile);
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
        let fallback = offered.fallback;
        let best = first_ranked(&scores, &offered.places, &pod.metadata.uid);
        drop(table);
        if let Some(place) = best
            && !pod.metadata.uid.is_empty()
        {
            let mut table = self.nodes.write();
            table
                .reservations
                .reserve(key, names[place], demand.load, now);
        }
        Ok((scores, fallback))
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
    ) -> Result<(BTreeMap<usize, String>, Basis), Late> {
        let now = (self.clock)();
        let demand = self.demand(pod, spec, now);
        let snapshot = self.snapshots.borrow().clone();
        let fresh = snapshot.fresh(Window::Fifteen, now, self.config.max_age);
        let table = self.nodes.read();
        let key = pod.key();
        let offered = self.offered(&table, key, names, &fresh, now, deadline)?;
        if let Some(reason) = offered.fallback {
            return Ok((BTreeMap::new(), Basis::Allocation(reason)));
        }
        let filter = &self.config.filter;
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

    /// States of the offered nodes that are known.
    fn offered<'a>(
        &self,
        table: &'a NodeTable,
        pod: PodKey<'_>,
        names: &[&str],
        fresh: &'a Result<FreshLoad<'a>, FallbackReason>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Offered<'a>, Late> {
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
        let policy = profile.unwrap_or(default.policy);
        let policy = match pod.policy().map(str::parse::<Policy>) {
            Some(Ok(own)) => own,
            Some(Err(error)) => {
                self.metrics.invalid_policies.inc();
                let (namespace, uid) = (&pod.metadata.namespace, &pod.metadata.uid);
                tracing::debug!(
                    namespace,
                    uid,
                    annotation = POLICY_ANNOTATION,
                    %error,
                    "invalid policy; using that of the profile"
                );
                policy
            }
            None => policy,
        };
        Prioritizer { policy, ..default }
    }

    fn demand(&self, pod: &Pod, spec: &PodSpec, now: Timestamp) -> PodDemand {
        let predicted = self.predict(spec, pod.owner(), |key| pod.label(key), now);
        PodDemand {
            load: predicted.load,
            commitment: Commitment {
                requests: spec.requests(),
                limits: spec.limits(),
            },
        }
    }
}

fn in_time(deadline: Instant) -> Result<(), Late> {
    if Instant::now() < deadline {
        Ok(())
    } else {
        Err(Late)
    }
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
