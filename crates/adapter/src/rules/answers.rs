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
use crate::refusal::Refusal;

/// The autoscaler has few workers, and one that waits holds up all that come after.
pub(super) const PATIENCE: Duration = Duration::from_millis(1800);
/// An answer serves all autoscalers that ask for the same within this time.
const FRESH_FOR: SignedDuration = SignedDuration::from_secs(5);
/// After a failure the store is left alone for this time.
const FAILED_FOR: SignedDuration = SignedDuration::from_secs(1);
/// Queries that nobody asks for any more are forgotten after this time, or after that of the last
/// good answer if it is longer.
const UNUSED_FOR: SignedDuration = SignedDuration::from_mins(2);
/// Without room for another query, those are forgotten that were not used for this time. The
/// autoscaler comes back after 15 s.
const ROOM_AFTER: SignedDuration = SignedDuration::from_secs(20);
/// The number of flows of one priority level for which room is made within a second. Each takes a
/// look at all queries.
const ROOM_PER_SECOND: usize = 4;
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
pub(super) enum From {
    /// The store has just given it, or did a short time ago.
    Store,
    /// It is the last good one, since the store fails.
    LastGood,
}

/// Why a query failed, in words that may be shown to whoever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) why: String,
    pub(super) is_timeout: bool,
}

/// All answers.
#[derive(Debug)]
pub(super) struct Answers {
    kept: Mutex<Kept>,
    /// Of all slots, those included that only somebody who waits still has.
    bytes: Arc<AtomicUsize>,
    max_bytes: usize,
    last_good_for: SignedDuration,
}

#[derive(Debug, Default)]
struct Kept {
    slots: Slots,
    /// The second in which room was made last, and the flows for which.
    made_room_at: i64,
    made_room_for: HashSet<Flow>,
}

#[derive(Debug)]
struct Slot {
    /// The flow that asked first, which the memory is charged to.
    flow: Flow,
    weight: Weight,
    /// Held by the one that asks the store.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    good: Option<(Timestamp, Samples)>,
    failed: Option<(Timestamp, Failure)>,
    used: Timestamp,
}

/// The memory that a slot takes, which counts until it is gone.
#[derive(Debug)]
struct Weight {
    query: usize,
    own: AtomicUsize,
    all: Arc<AtomicUsize>,
}

impl Weight {
    fn new(query: usize, all: Arc<AtomicUsize>) -> Self {
        let weight = Self {
            query,
            own: AtomicUsize::default(),
            all,
        };
        weight.answered(&[]);
        weight
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

impl Drop for Weight {
    fn drop(&mut self) {
        self.all.fetch_sub(*self.own.get_mut(), Ordering::Relaxed);
    }
}

impl Answers {
    /// None yet. The last good ones are given for so long when the store fails.
    pub(super) fn new(last_good_for: Duration) -> Self {
        let last_good_for = SignedDuration::try_from(last_good_for).unwrap_or(SignedDuration::MAX);
        Self {
            kept: Mutex::default(),
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
        ask: impl Future<Output = Result<Vec<InstantSample>, Failure>> + Send + 'static,
    ) -> Result<(Samples, From), Refusal> {
        let slot = self.slot(query, flow, now)?;
        if !slot.state().is_settled(now) {
            let asked = tokio::spawn(Arc::clone(&slot).ask(now, ask));
            // Too late or not: the state says what came of it.
            let _ = timeout(PATIENCE, asked).await;
        }
        slot.state().outcome(now, self.last_good_for)
    }

    /// Forgets what nobody has asked for in a while, or what was asked for before the clock was put
    /// back that far.
    pub(super) fn sweep(&self, now: Timestamp) {
        forget(
            &mut self.kept().slots,
            UNUSED_FOR.max(self.last_good_for),
            now,
        );
    }

    fn slot(&self, query: &str, flow: &Flow, now: Timestamp) -> Result<Arc<Slot>, Refusal> {
        let mut kept = self.kept();
        if let Some(slot) = kept.slots.get(query) {
            slot.state().used = now;
            return Ok(Arc::clone(slot));
        }
        if self.is_full(&kept.slots) {
            if kept.may_make_room(flow, now) {
                forget(&mut kept.slots, ROOM_AFTER, now);
                self.make_room(&mut kept.slots, flow);
            }
            if self.is_full(&kept.slots) {
                return Err(Refusal::TooMany);
            }
        }
        let weight = Weight::new(query.len(), Arc::clone(&self.bytes));
        let state = Mutex::new(State {
            used: now,
            ..State::default()
        });
        let slot = Arc::new(Slot {
            flow: flow.clone(),
            weight,
            turn: tokio::sync::Mutex::default(),
            state,
        });
        kept.slots.insert(query.into(), Arc::clone(&slot));
        Ok(slot)
    }

    /// Takes room from the flows that hold the most, the answers first that were not used for
    /// longest, until an eighth is free. For a flow only those make room whose priority level is
    /// lower, or that hold more than it does, for as long as they do.
    fn make_room(&self, slots: &mut Slots, flow: &Flow) {
        if !self.is_full(slots) {
            return;
        }
        let mut holders: HashMap<Flow, Holder> = HashMap::new();
        for (query, slot) in &*slots {
            let holder = holders.entry(slot.flow.clone()).or_default();
            let bytes = slot.weight.own.load(Ordering::Relaxed);
            holder.size += self.size(bytes);
            holder
                .slots
                .push(Reverse((slot.state().used, Arc::clone(query), bytes)));
        }
        let own = holders.remove(flow).map_or(0, |holder| holder.size);
        let mut largest: BinaryHeap<_> = holders
            .into_iter()
            .filter(|(holder, _)| holder.level <= flow.level)
            .map(|(holder, held)| {
                (
                    Reverse(holder.level),
                    held.size,
                    held.slots.into_sorted_vec(),
                )
            })
            .collect();
        let (mut bytes, enough) = (self.bytes.load(Ordering::Relaxed), |limit: usize| {
            limit - limit / 8
        });
        while bytes >= enough(self.max_bytes) || slots.len() >= enough(MAX_QUERIES) {
            let Some((level, size, mut oldest_last)) = largest.pop() else {
                return;
            };
            // All that follow are of this level, and no larger.
            if level == Reverse(flow.level) && size <= own {
                return;
            }
            let Some(Reverse((_, query, weight))) = oldest_last.pop() else {
                continue;
            };
            slots.remove(&query);
            bytes = bytes.saturating_sub(weight);
            largest.push((level, size.saturating_sub(self.size(weight)), oldest_last));
        }
    }

    /// A slot's part of what may be kept, in bytes: a short query counts for its part of the number
    /// of queries.
    fn size(&self, bytes: usize) -> usize {
        bytes.max(self.max_bytes / MAX_QUERIES)
    }

    fn is_full(&self, slots: &Slots) -> bool {
        slots.len() >= MAX_QUERIES || self.bytes.load(Ordering::Relaxed) >= self.max_bytes
    }

    /// How many queries are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept().slots.len()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }
}

/// By query.
type Slots = HashMap<Arc<str>, Arc<Slot>>;

/// The answers of one flow.
#[derive(Debug, Default)]
struct Holder {
    size: usize,
    slots: BinaryHeap<Reverse<(Timestamp, Arc<str>, usize)>>,
}

impl Kept {
    /// Whether to look at all slots for room now: once a second for each flow, for a few flows of
    /// each priority level.
    fn may_make_room(&mut self, flow: &Flow, now: Timestamp) -> bool {
        let second = now.as_second();
        if self.made_room_at != second {
            self.made_room_at = second;
            self.made_room_for.clear();
        }
        let of_level = self
            .made_room_for
            .iter()
            .filter(|other| other.level == flow.level)
            .count();
        of_level < ROOM_PER_SECOND && self.made_room_for.insert(flow.clone())
    }
}

fn forget(slots: &mut Slots, unused_for: SignedDuration, now: Timestamp) {
    slots.retain(|_, slot| now.duration_since(slot.state().used).abs() <= unused_for);
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    async fn ask(
        self: Arc<Self>,
        now: Timestamp,
        ask: impl Future<Output = Result<Vec<InstantSample>, Failure>>,
    ) {
        let started = Instant::now();
        let at = || now.saturating_add(started.elapsed()).unwrap_or(now);
        let _turn = self.turn.lock().await;
        if self.state().is_settled(at()) {
            return;
        }
        let late = || {
            Err(Failure {
                why: format!("Prometheus did not answer within {PATIENCE:?}"),
                is_timeout: true,
            })
        };
        let answer = timeout(PATIENCE, ask).await.unwrap_or_else(|_| late());
        let at = at();
        let mut state = self.state();
        match answer {
            Ok(samples) => {
                self.weight.answered(&samples);
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
    fn is_settled(&self, now: Timestamp) -> bool {
        let is_within = |at: &Timestamp, time| now.duration_since(*at).abs() <= time;
        self.good
            .as_ref()
            .is_some_and(|(at, _)| is_within(at, FRESH_FOR))
            || self
                .failed
                .as_ref()
                .is_some_and(|(at, _)| is_within(at, FAILED_FOR))
    }

    fn outcome(
        &self,
        now: Timestamp,
        last_good_for: SignedDuration,
    ) -> Result<(Samples, From), Refusal> {
        let late = || Failure {
            why: format!("Prometheus did not answer within {PATIENCE:?}"),
            is_timeout: true,
        };
        let failure = self
            .failed
            .as_ref()
            .map_or_else(late, |(_, failure)| failure.clone());
        let Some((at, samples)) = &self.good else {
            return Err(if failure.is_timeout {
                Refusal::Timeout(failure.why)
            } else {
                Refusal::Unavailable(failure.why)
            });
        };
        let age = now.duration_since(*at).abs();
        if age <= FRESH_FOR {
            return Ok((Arc::clone(samples), From::Store));
        }
        if age <= last_good_for {
            return Ok((Arc::clone(samples), From::LastGood));
        }
        let (age, limit) = (age.as_secs_f64().round(), last_good_for.as_secs());
        Err(Refusal::NotFound(format!(
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

    fn failure(why: &str) -> Failure {
        Failure {
            why: why.to_owned(),
            is_timeout: false,
        }
    }

    /// Asks at a second; `answer` is what the store would say. Gives the value that is served.
    async fn check(
        answers: &Answers,
        second: i64,
        answer: Result<f64, &str>,
        expected: Result<(f64, From), &str>,
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
        let answers = Answers::new(Duration::from_mins(1));
        check(&answers, 0, Ok(1.0), Ok((1.0, From::Store))).await;
        check(&answers, 4, Ok(2.0), Ok((1.0, From::Store))).await;
        check(&answers, 6, Ok(3.0), Ok((3.0, From::Store))).await;
    }

    #[tokio::test]
    async fn the_last_good_answer_stands_in_for_a_bounded_time() {
        let answers = Answers::new(Duration::from_mins(1));
        check(&answers, 0, Ok(1.0), Ok((1.0, From::Store))).await;
        check(&answers, 10, Err("gone"), Ok((1.0, From::LastGood))).await;
        check(&answers, 60, Err("gone"), Ok((1.0, From::LastGood))).await;
        check(
            &answers,
            62,
            Err("gone"),
            Err("gone (the last answer is 62s old, limit 60s)"),
        )
        .await;
        check(&answers, 64, Ok(2.0), Ok((2.0, From::Store))).await;
    }

    #[tokio::test]
    async fn an_answer_is_old_also_after_the_clock_was_put_back() {
        let answers = Answers::new(Duration::from_mins(1));
        check(&answers, 3600, Ok(1.0), Ok((1.0, From::Store))).await;
        check(
            &answers,
            0,
            Err("gone"),
            Err("gone (the last answer is 3600s old, limit 60s)"),
        )
        .await;
        check(&answers, 2, Ok(2.0), Ok((2.0, From::Store))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn many_long_queries_and_answers_are_refused_until_some_are_forgotten() {
        let answers = Answers {
            max_bytes: 1000,
            ..Answers::new(Duration::from_mins(1))
        };
        let labels = BTreeMap::from([("pod".to_owned(), "x".repeat(200))]);
        let ask = async |query: String, second| {
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
            refused.push(ask(format!("{number}"), 0).await == Err(Refusal::TooMany));
        }
        assert_eq!(
            refused.iter().filter(|refused| **refused).count(),
            6,
            "{refused:?}"
        );
        assert_eq!(
            ask("0".to_owned(), 1).await,
            Ok("1".to_owned()),
            "what is known is answered"
        );
        answers.sweep(at(200));
        assert_eq!(answers.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(ask("x".repeat(2000), 200).await, Ok("1".to_owned()));
        assert_eq!(ask("y".to_owned(), 200).await, Err(Refusal::TooMany));
    }

    #[tokio::test]
    async fn where_there_is_no_room_it_is_made_by_those_that_nobody_asks_for() {
        let answers = Answers {
            max_bytes: 10_000,
            ..Answers::new(Duration::from_mins(1))
        };
        let ask = async |query: &str, second| {
            let answer = answers
                .get(query, &Flow::default(), at(second), async { Ok(one(1.0)) })
                .await;
            answer.map(|(samples, _)| samples.len())
        };
        assert_eq!(ask("up", 0).await, Ok(1));
        for number in 0..10 {
            assert_eq!(
                ask(&format!("{number}{}", "x".repeat(1000)), 0).await,
                Ok(1)
            );
        }
        assert_eq!(
            (ask("full", 1).await, answers.len()),
            (Err(Refusal::TooMany), 11)
        );
        assert_eq!(ask("up", 15).await, Ok(1));
        assert_eq!(
            (ask("full", 16).await, answers.len()),
            (Err(Refusal::TooMany), 11)
        );
        assert_eq!(
            (ask("other", 21).await, answers.len()),
            (Ok(1), 2),
            "what is asked for stays"
        );
        assert!(answers.kept().slots.contains_key("up"));
    }

    #[tokio::test]
    async fn the_flow_that_holds_the_most_makes_room_for_others() {
        let answers = Answers {
            max_bytes: 100_000,
            ..Answers::new(Duration::from_mins(1))
        };
        let namespaced = |namespace: &str| Flow {
            namespace: namespace.into(),
            ..Flow::default()
        };
        let cluster_wide = |namespace: &str| Flow {
            level: PriorityLevel::ClusterWide,
            namespace: namespace.into(),
        };
        let ask_at = async |flow: &Flow, query: &str, second| {
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
        let ask = async |flow: &Flow, query: &str| ask_at(flow, query, 0).await;
        let (hostile, shop) = (namespaced("hostile"), namespaced("shop"));
        let refused = async |flow: &Flow| {
            let mut refused = 0;
            for number in 0..32 {
                refused +=
                    usize::from(ask(flow, &number.to_string()).await == Err(Refusal::TooMany));
            }
            refused
        };
        assert_eq!(ask(&shop, "first").await, Ok(()));
        assert!(refused(&hostile).await > 10, "what it holds is used");
        assert_eq!(ask(&cluster_wide("hostile"), "new pods").await, Ok(()));
        assert_eq!(ask(&shop, "second").await, Ok(()));
        assert!(answers.kept().slots.contains_key("shop/first"));
        // Autoscalers of many namespaces take all room of callers of one namespace, and none of
        // each other.
        for number in 0..64 {
            let answer = ask_at(&cluster_wide(&number.to_string()), "query", 1 + number / 4).await;
            assert!(answer.is_ok() || number > 15, "{number}");
        }
        assert!(answers.kept().slots.contains_key("0/query"));
        assert_eq!(ask(&hostile, "other").await, Err(Refusal::TooMany));
        assert!(answers.bytes.load(Ordering::Relaxed) <= 110_000);
    }

    #[tokio::test]
    async fn a_flow_makes_room_until_it_holds_no_more_than_the_one_that_asks() {
        let answers = Answers {
            max_bytes: 10_000,
            ..Answers::new(Duration::from_mins(1))
        };
        let flow = |namespace: &str| Flow {
            namespace: namespace.into(),
            ..Flow::default()
        };
        let ask = async |namespace: &str, number: usize, length: usize, second| {
            let query = format!("{namespace}{number}{}", "x".repeat(length));
            answers
                .get(&query, &flow(namespace), at(second), async { Ok(one(1.0)) })
                .await
                .map(|_| ())
        };
        for namespace in ["a", "b", "c", "d"] {
            for number in 0..5 {
                let length = if namespace == "a" { 444 } else { 434 };
                assert_eq!(ask(namespace, number, length, 0).await, Ok(()));
            }
        }
        let held = |namespace: &str| {
            answers
                .kept()
                .slots
                .values()
                .filter(|slot| slot.flow == flow(namespace))
                .count()
        };
        assert_eq!(ask("b", 5, 434, 1).await, Ok(()));
        assert_eq!(["a", "b", "c", "d"].map(held), [4, 6, 5, 5]);
    }

    #[test]
    fn room_is_made_for_a_few_flows_of_each_level_in_a_second() {
        let mut kept = Kept::default();
        for second in 0..2 {
            for level in [PriorityLevel::Namespaced, PriorityLevel::ClusterWide] {
                let flow = |number: usize| Flow {
                    level,
                    namespace: (number / 2).to_string().into(),
                };
                let made = (0..1000)
                    .filter(|number| kept.may_make_room(&flow(*number), at(second)))
                    .count();
                assert_eq!(made, ROOM_PER_SECOND, "{level:?}");
            }
        }
    }

    #[tokio::test]
    async fn after_a_failure_the_store_is_left_alone_for_a_moment() {
        let answers = Answers::new(Duration::from_mins(1));
        check(&answers, 0, Err("gone"), Err("gone")).await;
        check(&answers, 1, Ok(1.0), Err("gone")).await;
        check(&answers, 3, Ok(1.0), Ok((1.0, From::Store))).await;
    }

    #[tokio::test]
    async fn one_question_serves_all_who_ask_at_once() {
        let answers = Arc::new(Answers::new(Duration::from_mins(1)));
        let asked = Arc::new(AtomicUsize::new(0));
        let (open, opened) = tokio::sync::watch::channel(false);
        let everybody = (0..50).map(|_| {
            let (answers, asked, mut opened) =
                (Arc::clone(&answers), Arc::clone(&asked), opened.clone());
            tokio::spawn(async move {
                let ask = async move {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let _ = opened.wait_for(|open| *open).await;
                    Ok(one(7.0))
                };
                answers
                    .get("up", &Flow::default(), at(0), ask)
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
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let answers = Answers::new(Duration::from_mins(1));
        let got = answers
            .get("up", &Flow::default(), at(0), std::future::pending())
            .await;
        assert!(matches!(got, Err(Refusal::Timeout(_))), "{got:?}");
    }

    #[tokio::test]
    async fn queries_that_nobody_asks_for_are_forgotten() {
        let answers = Answers::new(Duration::from_mins(1));
        check(&answers, 0, Ok(1.0), Ok((1.0, From::Store))).await;
        answers.sweep(at(100));
        assert_eq!(answers.kept().slots.len(), 1);
        answers.sweep(at(130));
        assert_eq!(answers.kept().slots.len(), 0);
        check(&answers, 3600, Ok(1.0), Ok((1.0, From::Store))).await;
        answers.sweep(at(0));
        assert_eq!(answers.kept().slots.len(), 0, "the clock was put back");
    }
}
