//! What the store answered, kept for a short time, and for a bounded time beyond where the store
//! fails.
//!
//! Of one query there is one question at a time; whoever else wants to know waits for its answer. A
//! question goes on when nobody waits any more, so that the next one finds the answer.

use parking_lot::{Mutex, MutexGuard};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use sources::prometheus::InstantSample;
use tokio::time::timeout;

use crate::flow::Flow;
use crate::status_error::StatusError;

/// The autoscaler has few workers, and one that waits holds up all that come after.
pub(super) const TIMEOUT: Duration = Duration::from_millis(1800);
/// An answer serves all autoscalers that ask for the same within this time.
const FRESH_FOR: SignedDuration = SignedDuration::from_secs(5);
/// After a failure the store is left alone for this time.
const FAILED_FOR: SignedDuration = SignedDuration::from_secs(1);
/// Queries that nobody asks for any more are forgotten after this time, or after that of the last
/// good answer if it is longer.
const UNUSED_FOR: SignedDuration = SignedDuration::from_mins(2);
/// Without room for another query, those are forgotten that were not used for this time. The
/// autoscaler comes back after 15 s.
const EVICT_AFTER: SignedDuration = SignedDuration::from_secs(20);
/// The number of flows of one priority level for which room is made within a second. Each takes a
/// look at all queries.
const EVICTIONS_PER_SECOND: usize = 4;
/// The most queries that are kept.
const MAX_QUERIES: usize = 20_000;
/// About the most memory that queries and their answers take. A query may name thousands of pods,
/// and whoever asks chooses which.
const MAX_BYTES: usize = 128 << 20;
/// Of a sample, and of each of its labels, besides their texts.
const SAMPLE_BYTES: usize = 64;
const LABEL_BYTES: usize = 64;

/// The samples of one answer.
pub(super) type Samples = Arc<Vec<InstantSample>>;

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The store has just given it, or did a short time ago.
    Store,
    /// It is the last good one, since the store fails.
    LastGood,
}

/// Why a query failed, in words that may be shown to whoever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryFailure {
    pub(super) why: String,
    pub(super) is_timeout: bool,
}

/// All answers.
#[derive(Debug)]
pub(super) struct QueryCache {
    entries: Mutex<Entries>,
    /// Of all slots, those included that only somebody who waits still has.
    bytes: Arc<AtomicUsize>,
    max_bytes: usize,
    last_good_for: SignedDuration,
}

#[derive(Debug, Default)]
struct Entries {
    map: EntryMap,
    /// The second in which room was made last, and the flows for which.
    evicted_at: i64,
    evicted_for: HashSet<Flow>,
}

#[derive(Debug)]
struct Entry {
    /// The flow that asked first, which the memory is charged to.
    flow: Flow,
    memory: MemoryUsage,
    /// Held by the one that asks the store.
    fetching: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    good: Option<(Timestamp, Samples)>,
    failed: Option<(Timestamp, QueryFailure)>,
    used: Timestamp,
}

/// The memory that a slot takes, which counts until it is gone.
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
        memory.answered(&[]);
        memory
    }

    fn answered(&self, samples: &[InstantSample]) {
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
    /// None yet. The last good ones are given for so long when the store fails.
    pub(super) fn new(last_good_for: Duration) -> Self {
        let last_good_for = SignedDuration::try_from(last_good_for).unwrap_or(SignedDuration::MAX);
        Self {
            entries: Mutex::default(),
            bytes: Arc::default(),
            max_bytes: MAX_BYTES,
            last_good_for,
        }
    }

    /// The answer to a query, which `ask` puts to the store if that is necessary. Memory is charged
    /// to `flow`.
    pub(super) async fn get(
        &self,
        query: &str,
        flow: &Flow,
        now: Timestamp,
        fetch: impl Future<Output = Result<Vec<InstantSample>, QueryFailure>> + Send + 'static,
    ) -> Result<(Samples, Source), StatusError> {
        let entry = self.entry(query, flow, now)?;
        if !entry.state().is_current(now) {
            let fetch = tokio::spawn(Arc::clone(&entry).fetch(now, fetch));
            // Too late or not: the state says what came of it.
            let _ = timeout(TIMEOUT, fetch).await;
        }
        entry.state().result(now, self.last_good_for)
    }

    /// Forgets what nobody has asked for in a while, or what was asked for before the clock was put
    /// back that far.
    pub(super) fn sweep(&self, now: Timestamp) {
        remove_unused(
            &mut self.lock().map,
            UNUSED_FOR.max(self.last_good_for),
            now,
        );
    }

    fn entry(&self, query: &str, flow: &Flow, now: Timestamp) -> Result<Arc<Entry>, StatusError> {
        let mut entries = self.lock();
        if let Some(entry) = entries.map.get(query) {
            entry.state().used = now;
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
            fetching: tokio::sync::Mutex::default(),
            state,
        });
        entries.map.insert(query.into(), Arc::clone(&entry));
        Ok(entry)
    }

    /// Takes room from the flows that hold the most, the answers first that were not used for
    /// longest, until an eighth is free. For a flow only those make room whose priority level is
    /// lower, or that hold more than it does, for as long as they do.
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
                .push(Reverse((entry.state().used, Arc::clone(query), bytes)));
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
            // All that follow are of this level, and no larger.
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

    /// A slot's part of what may be kept, in bytes: a short query counts for its part of the number
    /// of queries.
    fn size(&self, bytes: usize) -> usize {
        bytes.max(self.max_bytes / MAX_QUERIES)
    }

    fn is_full(&self, entries: &EntryMap) -> bool {
        entries.len() >= MAX_QUERIES || self.bytes.load(Ordering::Relaxed) >= self.max_bytes
    }

    /// How many queries are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().map.len()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

/// By query.
type EntryMap = HashMap<Arc<str>, Arc<Entry>>;

/// The answers of one flow.
#[derive(Debug, Default)]
struct FlowUsage {
    size: usize,
    entries: BinaryHeap<Reverse<(Timestamp, Arc<str>, usize)>>,
}

impl Entries {
    /// Whether to look at all slots for room now: once a second for each flow, for a few flows of
    /// each priority level.
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
    entries.retain(|_, entry| now.duration_since(entry.state().used).abs() <= unused_for);
}

impl Entry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    async fn fetch(
        self: Arc<Self>,
        now: Timestamp,
        fetch: impl Future<Output = Result<Vec<InstantSample>, QueryFailure>>,
    ) {
        let started = Instant::now();
        let at = || now.saturating_add(started.elapsed()).unwrap_or(now);
        let _fetching = self.fetching.lock().await;
        if self.state().is_current(at()) {
            return;
        }
        let late = || {
            Err(QueryFailure {
                why: format!("Prometheus did not answer within {TIMEOUT:?}"),
                is_timeout: true,
            })
        };
        let answer = timeout(TIMEOUT, fetch).await.unwrap_or_else(|_| late());
        let at = at();
        let mut state = self.state();
        match answer {
            Ok(samples) => {
                self.memory.answered(&samples);
                state.good = Some((at, Arc::new(samples)));
                state.failed = None;
            }
            Err(failure) => state.failed = Some((at, failure)),
        }
    }
}

impl State {
    /// Whether the store need not be asked now. What is of a time to come is as old as that is far:
    /// the clock was put back since.
    fn is_current(&self, now: Timestamp) -> bool {
        let is_within = |at: &Timestamp, time| now.duration_since(*at).abs() <= time;
        self.good
            .as_ref()
            .is_some_and(|(at, _)| is_within(at, FRESH_FOR))
            || self
                .failed
                .as_ref()
                .is_some_and(|(at, _)| is_within(at, FAILED_FOR))
    }

    fn result(
        &self,
        now: Timestamp,
        last_good_for: SignedDuration,
    ) -> Result<(Samples, Source), StatusError> {
        let late = || QueryFailure {
            why: format!("Prometheus did not answer within {TIMEOUT:?}"),
            is_timeout: true,
        };
        let failure = self
            .failed
            .as_ref()
            .map_or_else(late, |(_, failure)| failure.clone());
        let Some((at, samples)) = &self.good else {
            return Err(if failure.is_timeout {
                StatusError::Timeout(failure.why)
            } else {
                StatusError::Unavailable(failure.why)
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
            failure.why
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::flow::PriorityLevel;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn one(value: f64) -> Vec<InstantSample> {
        vec![InstantSample {
            labels: BTreeMap::new(),
            at: at(0),
            value,
        }]
    }

    fn failure(why: &str) -> QueryFailure {
        QueryFailure {
            why: why.to_owned(),
            is_timeout: false,
        }
    }

    /// Asks at a second; `answer` is what the store would say. Gives the value that is served.
    async fn check(
        answers: &QueryCache,
        second: i64,
        answer: Result<f64, &str>,
        expected: Result<(f64, Source), &str>,
    ) {
        let answer = answer.map(one).map_err(failure);
        let got = answers
            .get("up", &Flow::default(), at(second), async move { answer })
            .await;
        let got = got
            .map(|(samples, from)| (samples[0].value, from))
            .map_err(|refusal| refusal.to_string());
        assert_eq!(got, expected.map_err(str::to_owned), "at {second}");
    }

    #[tokio::test]
    async fn answers_are_kept_for_a_short_time() {
        let answers = QueryCache::new(Duration::from_mins(1));
        check(&answers, 0, Ok(1.0), Ok((1.0, Source::Store))).await;
        check(&answers, 4, Ok(2.0), Ok((1.0, Source::Store))).await;
        check(&answers, 6, Ok(3.0), Ok((3.0, Source::Store))).await;
    }

    #[tokio::test]
    async fn the_last_good_answer_stands_in_for_a_bounded_time() {
        let answers = QueryCache::new(Duration::from_mins(1));
        check(&answers, 0, Ok(1.0), Ok((1.0, Source::Store))).await;
        check(&answers, 10, Err("gone"), Ok((1.0, Source::LastGood))).await;
        check(&answers, 60, Err("gone"), Ok((1.0, Source::LastGood))).await;
        check(
            &answers,
            62,
            Err("gone"),
            Err("gone (the last answer is 62s old, limit 60s)"),
        )
        .await;
        check(&answers, 64, Ok(2.0), Ok((2.0, Source::Store))).await;
    }

    #[tokio::test]
    async fn an_answer_is_old_also_after_the_clock_was_put_back() {
        let answers = QueryCache::new(Duration::from_mins(1));
        check(&answers, 3600, Ok(1.0), Ok((1.0, Source::Store))).await;
        check(
            &answers,
            0,
            Err("gone"),
            Err("gone (the last answer is 3600s old, limit 60s)"),
        )
        .await;
        check(&answers, 2, Ok(2.0), Ok((2.0, Source::Store))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn many_long_queries_and_answers_are_refused_until_some_are_forgotten() {
        let answers = QueryCache {
            max_bytes: 1000,
            ..QueryCache::new(Duration::from_mins(1))
        };
        let labels = BTreeMap::from([("pod".to_owned(), "x".repeat(200))]);
        let fetch = async |query: String, second| {
            let samples = vec![InstantSample {
                labels: labels.clone(),
                at: at(0),
                value: 1.0,
            }];
            let answer = answers
                .get(
                    &query,
                    &Flow::default(),
                    at(second),
                    async move { Ok(samples) },
                )
                .await;
            answer.map(|(samples, _)| samples[0].value.to_string())
        };
        let mut refused = Vec::new();
        for number in 0..10 {
            refused.push(fetch(format!("{number}"), 0).await == Err(StatusError::TooManyRequests));
        }
        assert_eq!(
            refused.iter().filter(|refused| **refused).count(),
            6,
            "{refused:?}"
        );
        assert_eq!(
            fetch("0".to_owned(), 1).await,
            Ok("1".to_owned()),
            "what is known is answered"
        );
        answers.sweep(at(200));
        assert_eq!(answers.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(fetch("x".repeat(2000), 200).await, Ok("1".to_owned()));
        assert_eq!(
            fetch("y".to_owned(), 200).await,
            Err(StatusError::TooManyRequests)
        );
    }

    #[tokio::test]
    async fn where_there_is_no_room_it_is_made_by_those_that_nobody_asks_for() {
        let answers = QueryCache {
            max_bytes: 10_000,
            ..QueryCache::new(Duration::from_mins(1))
        };
        let fetch = async |query: &str, second| {
            let answer = answers
                .get(query, &Flow::default(), at(second), async { Ok(one(1.0)) })
                .await;
            answer.map(|(samples, _)| samples.len())
        };
        assert_eq!(fetch("up", 0).await, Ok(1));
        for number in 0..10 {
            assert_eq!(
                fetch(&format!("{number}{}", "x".repeat(1000)), 0).await,
                Ok(1)
            );
        }
        assert_eq!(
            (fetch("full", 1).await, answers.len()),
            (Err(StatusError::TooManyRequests), 11)
        );
        assert_eq!(fetch("up", 15).await, Ok(1));
        assert_eq!(
            (fetch("full", 16).await, answers.len()),
            (Err(StatusError::TooManyRequests), 11)
        );
        assert_eq!(
            (fetch("other", 21).await, answers.len()),
            (Ok(1), 2),
            "what is asked for stays"
        );
        assert!(answers.lock().map.contains_key("up"));
    }

    #[tokio::test]
    async fn the_flow_that_holds_the_most_makes_room_for_others() {
        let answers = QueryCache {
            max_bytes: 100_000,
            ..QueryCache::new(Duration::from_mins(1))
        };
        let namespaced = |namespace: &str| Flow {
            namespace: namespace.into(),
            ..Flow::default()
        };
        let cluster_wide = |namespace: &str| Flow {
            level: PriorityLevel::ClusterWide,
            namespace: namespace.into(),
        };
        let fetch_at = async |flow: &Flow, query: &str, second| {
            let labels = BTreeMap::from([("pod".to_owned(), "x".repeat(5000))]);
            let samples = vec![InstantSample {
                labels,
                at: at(0),
                value: 1.0,
            }];
            let query = format!("{}/{query}", flow.namespace);
            answers
                .get(&query, flow, at(second), async { Ok(samples) })
                .await
                .map(|_| ())
        };
        let fetch = async |flow: &Flow, query: &str| fetch_at(flow, query, 0).await;
        let (hostile, shop) = (namespaced("hostile"), namespaced("shop"));
        let refused = async |flow: &Flow| {
            let mut refused = 0;
            for number in 0..32 {
                refused += usize::from(
                    fetch(flow, &number.to_string()).await == Err(StatusError::TooManyRequests),
                );
            }
            refused
        };
        assert_eq!(fetch(&shop, "first").await, Ok(()));
        assert!(refused(&hostile).await > 10, "what it holds is used");
        assert_eq!(fetch(&cluster_wide("hostile"), "new pods").await, Ok(()));
        assert_eq!(fetch(&shop, "second").await, Ok(()));
        assert!(answers.lock().map.contains_key("shop/first"));
        // Autoscalers of many namespaces take all room of callers of one namespace, and none of
        // each other.
        for number in 0..64 {
            let answer =
                fetch_at(&cluster_wide(&number.to_string()), "query", 1 + number / 4).await;
            assert!(answer.is_ok() || number > 15, "{number}");
        }
        assert!(answers.lock().map.contains_key("0/query"));
        assert_eq!(
            fetch(&hostile, "other").await,
            Err(StatusError::TooManyRequests)
        );
        assert!(answers.bytes.load(Ordering::Relaxed) <= 110_000);
    }

    #[tokio::test]
    async fn a_flow_makes_room_until_it_holds_no_more_than_the_one_that_asks() {
        let answers = QueryCache {
            max_bytes: 10_000,
            ..QueryCache::new(Duration::from_mins(1))
        };
        let flow = |namespace: &str| Flow {
            namespace: namespace.into(),
            ..Flow::default()
        };
        let fetch = async |namespace: &str, number: usize, length: usize, second| {
            let query = format!("{namespace}{number}{}", "x".repeat(length));
            answers
                .get(&query, &flow(namespace), at(second), async { Ok(one(1.0)) })
                .await
                .map(|_| ())
        };
        for namespace in ["a", "b", "c", "d"] {
            for number in 0..5 {
                let length = if namespace == "a" { 444 } else { 434 };
                assert_eq!(fetch(namespace, number, length, 0).await, Ok(()));
            }
        }
        let held = |namespace: &str| {
            answers
                .lock()
                .map
                .values()
                .filter(|entry| entry.flow == flow(namespace))
                .count()
        };
        assert_eq!(fetch("b", 5, 434, 1).await, Ok(()));
        assert_eq!(["a", "b", "c", "d"].map(held), [4, 6, 5, 5]);
    }

    #[test]
    fn room_is_made_for_a_few_flows_of_each_level_in_a_second() {
        let mut entries = Entries::default();
        for second in 0..2 {
            for level in [PriorityLevel::Namespaced, PriorityLevel::ClusterWide] {
                let flow = |number: usize| Flow {
                    level,
                    namespace: (number / 2).to_string().into(),
                };
                let made = (0..1000)
                    .filter(|number| entries.may_evict_for(&flow(*number), at(second)))
                    .count();
                assert_eq!(made, EVICTIONS_PER_SECOND, "{level:?}");
            }
        }
    }

    #[tokio::test]
    async fn after_a_failure_the_store_is_left_alone_for_a_moment() {
        let answers = QueryCache::new(Duration::from_mins(1));
        check(&answers, 0, Err("gone"), Err("gone")).await;
        check(&answers, 1, Ok(1.0), Err("gone")).await;
        check(&answers, 3, Ok(1.0), Ok((1.0, Source::Store))).await;
    }

    #[tokio::test]
    async fn one_question_serves_all_who_ask_at_once() {
        let answers = Arc::new(QueryCache::new(Duration::from_mins(1)));
        let fetches = Arc::new(AtomicUsize::new(0));
        let (open, opened) = tokio::sync::watch::channel(false);
        let everybody = (0..50).map(|_| {
            let (answers, asked, mut opened) =
                (Arc::clone(&answers), Arc::clone(&fetches), opened.clone());
            tokio::spawn(async move {
                let fetch = async move {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let _ = opened.wait_for(|open| *open).await;
                    Ok(one(7.0))
                };
                answers
                    .get("up", &Flow::default(), at(0), fetch)
                    .await
                    .expect("an answer")
                    .0[0]
                    .value
            })
        });
        let everybody: Vec<_> = everybody.collect();
        open.send(true).expect("somebody waits");
        for one in everybody {
            assert!((one.await.expect("no panic") - 7.0).abs() < f64::EPSILON);
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let answers = QueryCache::new(Duration::from_mins(1));
        let got = answers
            .get("up", &Flow::default(), at(0), std::future::pending())
            .await;
        assert!(matches!(got, Err(StatusError::Timeout(_))), "{got:?}");
    }

    #[tokio::test]
    async fn queries_that_nobody_asks_for_are_forgotten() {
        let answers = QueryCache::new(Duration::from_mins(1));
        check(&answers, 0, Ok(1.0), Ok((1.0, Source::Store))).await;
        answers.sweep(at(100));
        assert_eq!(answers.lock().map.len(), 1);
        answers.sweep(at(130));
        assert_eq!(answers.lock().map.len(), 0);
        check(&answers, 3600, Ok(1.0), Ok((1.0, Source::Store))).await;
        answers.sweep(at(0));
        assert_eq!(answers.lock().map.len(), 0, "the clock was put back");
    }
}
