//! Answers to dear questions: each is asked once at a time, kept for a while, and there are never
//! too many of either.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::recent::Recent;

/// Answers that are kept.
const CAPACITY: usize = 8192;

/// Questions that may be under way at once.
const UNDER_WAY: usize = 256;
/// Of these, questions of one flow.
const UNDER_WAY_PER_FLOW: usize = UNDER_WAY / 8;

/// What a question is known by: of one size, and without the secrets that may be in it.
pub type Key = [u8; 32];

/// The key of a question.
pub fn key(question: &[u8]) -> Key {
    Sha256::digest(question).into()
}

/// How an answer was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It was known.
    Known,
    /// Somebody was asking already.
    Joined,
    /// By asking.
    Asked,
}

/// Answers and questions under way. Clones share them.
#[derive(Debug)]
pub struct Answers<V>(Arc<Mutex<State<V>>>);

#[derive(Debug)]
struct State<V> {
    known: Recent<Key, V>,
    under_way: HashMap<Key, watch::Receiver<Option<V>>>,
    /// Questions under way by flow.
    flows: HashMap<Arc<str>, usize>,
}

impl<V> Clone for Answers<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V> Default for Answers<V> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            known: Recent::new(CAPACITY),
            under_way: HashMap::new(),
            flows: HashMap::new(),
        })))
    }
}

enum Step<V> {
    Known(V),
    Wait(watch::Receiver<Option<V>>, Way),
    TooMany,
}

impl<V: Clone + Send + Sync + 'static> Answers<V> {
    /// The answer, from memory or by asking. `ask` gives it with the time for which it may be kept.
    /// It runs to its end also when whoever wants to know goes away, so that the next one finds its
    /// answer.
    ///
    /// Nothing when too many questions are under way, in all or of this `flow`, such as a
    /// namespace.
    pub async fn get<F>(&self, key: Key, flow: &str, ask: impl FnOnce() -> F) -> Option<(V, Way)>
    where
        F: Future<Output = (V, Duration)> + Send + 'static,
    {
        match self.step(key, flow, ask) {
            Step::Known(value) => Some((value, Way::Known)),
            Step::Wait(mut answer, way) => {
                let value = answer.wait_for(Option::is_some).await.ok()?.clone()?;
                Some((value, way))
            }
            Step::TooMany => None,
        }
    }

    fn step<F>(&self, key: Key, flow: &str, ask: impl FnOnce() -> F) -> Step<V>
    where
        F: Future<Output = (V, Duration)> + Send + 'static,
    {
        let mut state = self.state();
        if let Some(value) = state.known.get(&key, Instant::now()) {
            return Step::Known(value.clone());
        }
        // One whose asker broke off has no answer and never will.
        if let Some(answer) = state
            .under_way
            .get(&key)
            .filter(|answer| answer.has_changed().is_ok())
        {
            return Step::Wait(answer.clone(), Way::Joined);
        }
        let of_flow = state.flows.get(flow).copied().unwrap_or_default();
        if state.under_way.len() >= UNDER_WAY || of_flow >= UNDER_WAY_PER_FLOW {
            return Step::TooMany;
        }
        let flow: Arc<str> = flow.into();
        state.flows.insert(Arc::clone(&flow), of_flow + 1);
        let (told, answer) = watch::channel(None);
        state.under_way.insert(key, answer.clone());
        drop(state);
        let (answers, asking) = (self.clone(), ask());
        tokio::spawn(async move {
            // Whatever happens to the question, its place is free again.
            let place = Place { answers, key, flow };
            let (value, keep) = asking.await;
            place.learn(value.clone(), keep);
            drop(place);
            told.send_replace(Some(value));
        });
        Step::Wait(answer, Way::Asked)
    }

    #[cfg(test)]
    fn sizes(&self) -> (usize, usize) {
        let state = self.state();
        (state.known.len(), state.under_way.len())
    }
}

impl<V> Answers<V> {
    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.0.lock()
    }
}

/// The place of a question under way.
struct Place<V> {
    answers: Answers<V>,
    key: Key,
    flow: Arc<str>,
}

impl<V> Place<V> {
    fn learn(&self, value: V, keep: Duration) {
        if !keep.is_zero() {
            self.answers
                .state()
                .known
                .insert(self.key, value, Instant::now() + keep);
        }
    }
}

impl<V> Drop for Place<V> {
    fn drop(&mut self) {
        let mut state = self.answers.state();
        state.under_way.remove(&self.key);
        if let Some(count) = state.flows.get_mut(&self.flow) {
            *count -= 1;
            if *count == 0 {
                state.flows.remove(&self.flow);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::{join_all, pending};

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn many_who_want_to_know_the_same_ask_once() {
        let answers = Answers::default();
        let slowly = || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ("yes", MINUTE)
        };
        let ways: Vec<_> = join_all((0..100).map(|_| answers.get(key(b"a"), "shop", slowly))).await;
        assert_eq!(
            ways.iter()
                .filter(|way| **way == Some(("yes", Way::Asked)))
                .count(),
            1
        );
        assert_eq!(
            ways.iter()
                .filter(|way| **way == Some(("yes", Way::Joined)))
                .count(),
            99
        );
        assert_eq!(
            answers.get(key(b"a"), "shop", slowly).await,
            Some(("yes", Way::Known))
        );
        tokio::time::sleep(MINUTE).await;
        assert_eq!(
            answers.get(key(b"a"), "shop", slowly).await,
            Some(("yes", Way::Asked))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_outlives_whoever_asked_it() {
        let answers = Answers::default();
        let slowly = || async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            ("yes", MINUTE)
        };
        let hasty = tokio::time::timeout(
            Duration::from_secs(1),
            answers.get(key(b"a"), "shop", slowly),
        );
        assert!(hasty.await.is_err());
        assert_eq!(
            answers.get(key(b"a"), "shop", slowly).await,
            Some(("yes", Way::Joined))
        );
        assert_eq!(
            answers.get(key(b"a"), "shop", slowly).await,
            Some(("yes", Way::Known))
        );
    }

    #[tokio::test]
    async fn an_answer_that_is_not_to_be_kept_is_asked_for_again() {
        let answers = Answers::default();
        for _ in 0..2 {
            assert_eq!(
                answers
                    .get(key(b"a"), "shop", || async { ("?", Duration::ZERO) })
                    .await,
                Some(("?", Way::Asked))
            );
        }
        assert_eq!(answers.sizes(), (0, 0));
    }

    #[tokio::test]
    async fn distinct_questions_do_not_make_it_grow() {
        let answers = Answers::default();
        for question in 0..50_000u32 {
            answers
                .get(key(&question.to_be_bytes()), "shop", || async {
                    ("no", MINUTE)
                })
                .await
                .unwrap();
        }
        let (known, under_way) = answers.sizes();
        assert!(
            known <= CAPACITY && under_way == 0,
            "{known} known, {under_way} under way"
        );
    }

    #[tokio::test]
    async fn too_many_questions_at_once_are_not_asked() {
        let answers = Answers::<&str>::default();
        let mut waiting: Vec<_> = Vec::new();
        for question in 0..UNDER_WAY as u32 {
            let answers = answers.clone();
            waiting.push(tokio::spawn(async move {
                answers
                    .get(
                        key(&question.to_be_bytes()),
                        &(question % 8).to_string(),
                        pending,
                    )
                    .await
            }));
        }
        while answers.sizes().1 < UNDER_WAY {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            answers
                .get(key(b"one more"), "shop", || async { ("yes", MINUTE) })
                .await,
            None
        );
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn slow_questions_of_one_namespace_leave_room_for_others() {
        let answers = Answers::<&str>::default();
        let mut waiting: Vec<_> = Vec::new();
        for question in 0..UNDER_WAY as u32 {
            let answers = answers.clone();
            waiting.push(tokio::spawn(async move {
                answers
                    .get(key(&question.to_be_bytes()), "hostile", pending)
                    .await
            }));
        }
        tokio::task::yield_now().await;
        assert_eq!(answers.sizes().1, UNDER_WAY_PER_FLOW);
        assert_eq!(
            answers
                .get(key(b"a"), "shop", || async { ("yes", MINUTE) })
                .await,
            Some(("yes", Way::Asked))
        );
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn a_question_that_breaks_off_leaves_nothing_behind() {
        let answers = Answers::<&str>::default();
        let broken = || async { panic!("a test's own panic") };
        assert_eq!(answers.get(key(b"a"), "shop", broken).await, None);
        assert_eq!(answers.sizes(), (0, 0));
        assert_eq!(
            answers
                .get(key(b"a"), "shop", || async { ("yes", MINUTE) })
                .await,
            Some(("yes", Way::Asked))
        );
    }
}
