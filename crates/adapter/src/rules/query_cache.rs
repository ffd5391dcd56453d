//! A cache of query results. A result is fresh for a few seconds; if the store fails, the last good
//! result is served for a longer time.
//!
//! A query is in flight once at a time, and all requests for it share the result. It runs to its
//! end even if all callers go away, so that the next caller finds the result: the HPA controller
//! gets the value of a query that takes longer than a request with its next request.
//!
//! This cache is our own because it evicts by flow: the flow that holds the most memory makes room
//! for others. `moka` coalesces requests and bounds memory, but evicts by entry, so one namespace
//! would displace the entries of all others (`the_flow_that_holds_the_most_makes_room_for_others`).

use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sources::prometheus::InstantSample;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};

use crate::flow_limiter::Flow;
use crate::request::StatusError;

/// The timeout of a request. The HPA controller has few workers, and a slow request blocks one of
/// them.
pub(super) const TIMEOUT: Duration = Duration::from_millis(1800);
/// The timeout of a query. Requests do not wait for it: the next one finds the result.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(15);
const FRESH_FOR: SignedDuration = SignedDuration::from_secs(5);
const FAILED_FOR: SignedDuration = SignedDuration::from_secs(1);
/// The time after which an unused query is removed, unless its last good result is valid for
/// longer.
const UNUSED_FOR: SignedDuration = SignedDuration::from_mins(2);
/// The time after which an unused query makes room for another. The HPA controller repeats its
/// requests after 15 s.
const EVICT_AFTER: SignedDuration = SignedDuration::from_secs(20);
/// The number of flows of a priority level that may evict entries per second. Each eviction scans
/// all entries.
const EVICTIONS_PER_SECOND: usize = 4;
const MAX_QUERIES: usize = 20_000;
/// The approximate limit of memory for queries and results. Callers choose the pods in a query,
/// which can be thousands.
const MAX_BYTES: usize = 128 << 20;
/// The overhead of a sample, and of each of its labels.
const SAMPLE_BYTES: usize = 64;
const LABEL_BYTES: usize = 64;

pub(super) type Samples = Arc<Vec<InstantSample>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The store, at most a few seconds ago.
    Store,
    /// The last good result, because the store fails or is slow.
    LastGood,
}

/// The reason that a query failed, without details that callers may not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryFailure {
    pub(super) message: String,
    pub(super) is_timeout: bool,
}

impl QueryFailure {
    fn late(time: Duration) -> Self {
        Self {
            message: format!("Prometheus did not answer within {time:?}"),
            is_timeout: true,
        }
    }
}

#[derive(Debug)]
pub(super) struct QueryCache {
    entries: Mutex<Entries>,
    /// The memory of all entries, including those that only a waiting caller holds.
    bytes: Arc<AtomicUsize>,
    max_bytes: usize,
    last_good_for: SignedDuration,
}

#[derive(Debug, Default)]
struct Entries {
    map: EntryMap,
    /// The last second with an eviction, and the flows that it was for.
    evicted_at: i64,
    evicted_for: HashSet<Flow>,
}

#[derive(Debug)]
struct Entry {
    /// The flow that requested the query first, which is charged for the memory.
    flow: Flow,
    memory: MemoryUsage,
    /// Held while the query is in flight.
    fetching: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    good: Option<(Timestamp, Samples)>,
    failed: Option<(Timestamp, QueryFailure)>,
    used: Timestamp,
}

/// The memory of an entry, counted until the entry is dropped.
#[derive(Debug)]
struct MemoryUsage {
    query: usize,
    own: AtomicUsize,
    all: Arc<AtomicUsize>,
}

impl MemoryUsage {
    fn new(query: usize, all: Arc<AtomicUsize>) -> Self {
        let memory = Self {
            query,
            own: AtomicUsize::default(),
            all,
        };
        memory.update(&[]);
        memory
    }

    fn update(&self, samples: &[InstantSample]) {
        let label = |(name, value): (&String, &String)| LABEL_BYTES + name.len() + value.len();
        let sample =
            |sample: &InstantSample| SAMPLE_BYTES + sample.labels.iter().map(label).sum::<usize>();
        let bytes = self.query + samples.iter().map(sample).sum::<usize>();
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.all
            .fetch_sub(self.own.swap(bytes, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for MemoryUsage {
    fn drop(&mut self) {
        self.all.fetch_sub(*self.own.get_mut(), Ordering::Relaxed);
    }
}

impl QueryCache {
    /// Creates a cache that serves the last good result for `last_good_for` if the store fails.
    pub(super) fn new(last_good_for: Duration) -> Self {
        let last_good_for = SignedDuration::try_from(last_good_for).unwrap_or(SignedDuration::MAX);
        Self {
            entries: Mutex::default(),
            bytes: Arc::default(),
            max_bytes: MAX_BYTES,
            last_good_for,
        }
    }

    /// Returns the result of a query; runs `fetch` unless a fresh result is cached. Charges the
    /// memory to `flow`.
    pub(super) async fn get(
        &self,
        query: &str,
        flow: &Flow,
        now: Timestamp,
        fetch: impl Future<Output = Result<Vec<InstantSample>, QueryFailure>> + Send + 'static,
    ) -> Result<(Samples, Source), StatusError> {
        let entry = self.entry(query, flow, now)?;
        if !entry.state.lock().is_current(now) {
            // After the timeout, the state has the last result.
            let _ = timeout(TIMEOUT, entry.fetched(now, fetch)).await;
        }
        entry.state.lock().result(now, self.last_good_for)
    }

    /// Removes unused entries, and those used after `now`: the clock was set back.
    pub(super) fn sweep(&self, now: Timestamp) {
        let unused_for = UNUSED_FOR.max(self.last_good_for);
        remove_unused(&mut self.entries.lock().map, unused_for, now);
    }

    fn entry(&self, query: &str, flow: &Flow, now: Timestamp) -> Result<Arc<Entry>, StatusError> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.map.get(query) {
            entry.state.lock().used = now;
            return Ok(Arc::clone(entry));
        }
        if self.is_full(&entries.map) {
            if entries.may_evict_for(flow, now) {
                remove_unused(&mut entries.map, EVICT_AFTER, now);
                self.evict_for(&mut entries.map, flow);
            }
            if self.is_full(&entries.map) {
                return Err(StatusError::TooManyRequests);
            }
        }
        let memory = MemoryUsage::new(query.len(), Arc::clone(&self.bytes));
        let state = Mutex::new(State {
            used: now,
            ..State::default()
        });
        let entry = Arc::new(Entry {
            flow: flow.clone(),
            memory,
            fetching: Arc::default(),
            state,
        });
        entries.map.insert(query.into(), Arc::clone(&entry));
        Ok(entry)
    }

    /// Evicts entries of the flows that hold the most memory, the least recently used ones first,
    /// until an eighth is free. A flow may displace flows of a lower priority level, and flows that
    /// hold more than it does.
    fn evict_for(&self, entries: &mut EntryMap, flow: &Flow) {
        if !self.is_full(entries) {
            return;
        }
        let mut holders: HashMap<Flow, FlowUsage> = HashMap::new();
        for (query, entry) in &*entries {
            let holder = holders.entry(entry.flow.clone()).or_default();
            let bytes = entry.memory.own.load(Ordering::Relaxed);
            holder.size += self.size(bytes);
            holder
                .entries
                .push(Reverse((entry.state.lock().used, Arc::clone(query), bytes)));
        }
        let own = holders.remove(flow).map_or(0, |holder| holder.size);
        let mut largest: BinaryHeap<_> = holders
            .into_iter()
            .filter(|(holder, _)| holder.level <= flow.level)
            .map(|(holder, held)| {
                (
                    Reverse(holder.level),
                    held.size,
                    held.entries.into_sorted_vec(),
                )
            })
            .collect();
        let (mut bytes, enough) = (self.bytes.load(Ordering::Relaxed), |limit: usize| {
            limit - limit / 8
        });
        while bytes >= enough(self.max_bytes) || entries.len() >= enough(MAX_QUERIES) {
            let Some((level, size, mut oldest_last)) = largest.pop() else {
                return;
            };
            // The remaining flows have this level and are not larger.
            if level == Reverse(flow.level) && size <= own {
                return;
            }
            let Some(Reverse((_, query, memory))) = oldest_last.pop() else {
                continue;
            };
            entries.remove(&query);
            bytes = bytes.saturating_sub(memory);
            largest.push((level, size.saturating_sub(self.size(memory)), oldest_last));
        }
    }

    /// Returns the share of an entry in the limits, in bytes. A short query counts for its share of
    /// the number of queries.
    fn size(&self, bytes: usize) -> usize {
        bytes.max(self.max_bytes / MAX_QUERIES)
    }

    fn is_full(&self, entries: &EntryMap) -> bool {
        entries.len() >= MAX_QUERIES || self.bytes.load(Ordering::Relaxed) >= self.max_bytes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.lock().map.len()
    }
}

type EntryMap = HashMap<Arc<str>, Arc<Entry>>;

/// The memory of a flow and its entries.
#[derive(Debug, Default)]
struct FlowUsage {
    size: usize,
    entries: BinaryHeap<Reverse<(Timestamp, Arc<str>, usize)>>,
}

impl Entries {
    /// Whether to scan for entries to evict: once per second and flow, for a few flows of each
    /// priority level.
    fn may_evict_for(&mut self, flow: &Flow, now: Timestamp) -> bool {
        let second = now.as_second();
        if self.evicted_at != second {
            self.evicted_at = second;
            self.evicted_for.clear();
        }
        let of_level = self
            .evicted_for
            .iter()
            .filter(|other| other.level == flow.level)
            .count();
        of_level < EVICTIONS_PER_SECOND && self.evicted_for.insert(flow.clone())
    }
}

fn remove_unused(entries: &mut EntryMap, unused_for: SignedDuration, now: Timestamp) {
    entries.retain(|_, entry| now.duration_since(entry.state.lock().used).abs() <= unused_for);
}

impl Entry {
    /// Waits for the query in flight, or starts it.
    async fn fetched(
        self: &Arc<Self>,
        now: Timestamp,
        fetch: impl Future<Output = Result<Vec<InstantSample>, QueryFailure>> + Send + 'static,
    ) {
        match Arc::clone(&self.fetching).try_lock_owned() {
            Ok(fetching) => {
                let fetch = Arc::clone(self).fetch(fetching, now, fetch);
                let _ = tokio::spawn(fetch).await;
            }
            Err(_) => drop(self.fetching.lock().await),
        }
    }

    async fn fetch(
        self: Arc<Self>,
        _fetching: OwnedMutexGuard<()>,
        now: Timestamp,
        fetch: impl Future<Output = Result<Vec<InstantSample>, QueryFailure>>,
    ) {
        let started = Instant::now();
        if self.state.lock().is_current(now) {
            return;
        }
        let answer = timeout(QUERY_TIMEOUT, fetch).await;
        let answer = answer.unwrap_or_else(|_| Err(QueryFailure::late(QUERY_TIMEOUT)));
        let at = now.saturating_add(started.elapsed()).unwrap_or(now);
        let mut state = self.state.lock();
        match answer {
            Ok(samples) => {
                self.memory.update(&samples);
                state.good = Some((at, Arc::new(samples)));
                state.failed = None;
            }
            Err(failure) => state.failed = Some((at, failure)),
        }
    }
}

impl State {
    /// Whether the result or the last failure is recent. A time in the future is as old as it is
    /// far: the clock was set back.
    fn is_current(&self, now: Timestamp) -> bool {
        let is_within = |at: Timestamp, time| now.duration_since(at).abs() <= time;
        let (good, failed) = (self.good.as_ref(), self.failed.as_ref());
        good.is_some_and(|(at, _)| is_within(*at, FRESH_FOR))
            || failed.is_some_and(|(at, _)| is_within(*at, FAILED_FOR))
    }

    fn result(
        &self,
        now: Timestamp,
        last_good_for: SignedDuration,
    ) -> Result<(Samples, Source), StatusError> {
        let failure = self.failed.as_ref().map(|(_, failure)| failure.clone());
        let failure = failure.unwrap_or_else(|| QueryFailure::late(TIMEOUT));
        let Some((at, samples)) = &self.good else {
            return Err(if failure.is_timeout {
                StatusError::Timeout(failure.message)
            } else {
                StatusError::Unavailable(failure.message)
            });
        };
        let age = now.duration_since(*at).abs();
        if age <= FRESH_FOR {
            return Ok((Arc::clone(samples), Source::Store));
        }
        if age <= last_good_for {
            return Ok((Arc::clone(samples), Source::LastGood));
        }
        let (age, limit) = (age.as_secs_f64().round(), last_good_for.as_secs());
        Err(StatusError::NotFound(format!(
            "{} (the last answer is {age}s old, limit {limit}s)",
            failure.message
        )))
    }
}

#[cfg(test)]
mod tests;
