//! The reconcile loop: observes and plans, then applies the plan, for one term of leadership.
//!
//! A pass runs at the start, after changes that have settled, when the last pass asked for it, and
//! once per resync interval. Two passes never run at the same time. A loop with urgent work between
//! the steps of a pass uses a [`PassSchedule`] directly.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::leader_term::Leading;
use crate::schedule::{Pace, PassSchedule};

/// Pause before the next pass if leadership is in doubt: the Lease is renewed late, or lost soon.
const LEADERSHIP_PAUSE: Duration = Duration::from_secs(1);

/// The work of one reconcile loop. It is dropped at the end of the term.
pub trait Reconcile {
    type Plan;

    /// Waits for a change of the inputs. Cancel safe. Not called again before the next pass, so
    /// [`Reconcile::plan`] marks its inputs as seen.
    fn changed(&mut self) -> impl Future<Output = ()>;

    /// Observes the inputs and plans, without I/O. `None` if there is nothing to apply, or while the
    /// inputs may be incomplete. Its duration determines the pause after the pass.
    fn plan(&mut self, now: Instant) -> Option<Self::Plan>;

    /// Applies a plan. Writes with a client of [`Leading::guard`]. Returns the time of the next
    /// pass; `None` if the resync is early enough.
    fn apply(&mut self, plan: Self::Plan) -> impl Future<Output = Option<Instant>>;
}

/// The conditions under which a [`Reconcile`] runs.
#[derive(Debug, Clone)]
pub struct Controller {
    pub pace: Pace,
    pub leading: Leading,
    pub shutdown: CancellationToken,
}

impl Controller {
    /// Runs passes until shutdown or until the term is lost. An unfinished pass is dropped.
    pub async fn run(self, work: impl Reconcile) {
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => {}
            () = self.leading.lost().cancelled() => {}
            () = self.passes(work) => {}
        }
    }

    async fn passes(&self, mut work: impl Reconcile) {
        let mut schedule = PassSchedule::new(self.pace);
        schedule.wake_at(Instant::now());
        let mut is_changed = false;
        loop {
            tokio::select! {
                biased;
                () = schedule.due() => {
                    is_changed = false;
                    self.pass(&mut work, &mut schedule).await;
                }
                () = work.changed(), if !is_changed => {
                    is_changed = true;
                    schedule.changed(Instant::now());
                }
            }
        }
    }

    async fn pass(&self, work: &mut impl Reconcile, schedule: &mut PassSchedule) {
        let began = Instant::now();
        schedule.begin(began);
        let leads = self.leading.holds(std::time::Instant::now());
        let plan = leads.then(|| work.plan(began)).flatten();
        let took = began.elapsed();
        let next = match plan {
            Some(plan) => work.apply(plan).await,
            None => (!leads).then(|| began + LEADERSHIP_PAUSE),
        };
        schedule.end(took, Instant::now());
        if let Some(next) = next {
            schedule.wake_at(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use k8s_openapi::jiff::Timestamp;
    use parking_lot::Mutex;
    use tokio::sync::watch;
    use tokio::time::sleep;

    use super::*;
    use crate::retry::{Backoff, KeyedBackoff};

    const PACE: Pace = Pace {
        settle: Duration::from_secs(1),
        min_pause: Duration::from_secs(1),
        pause_factor: 0,
        resync: Duration::from_mins(1),
    };

    /// Seconds of the passes, and of the writes of each key.
    type Log = Arc<Mutex<(Vec<u64>, BTreeMap<&'static str, Vec<u64>>)>>;

    /// Writes each desired key once; writes of the key `bad` fail.
    struct Writer {
        desired: watch::Receiver<Vec<&'static str>>,
        log: Log,
        attempts: KeyedBackoff<&'static str>,
        started: Instant,
    }

    impl Reconcile for Writer {
        type Plan = Vec<&'static str>;

        async fn changed(&mut self) {
            self.desired.changed().await.expect("the sender is there");
        }

        fn plan(&mut self, now: Instant) -> Option<Self::Plan> {
            let mut plan = self.desired.borrow_and_update().clone();
            let (passes, written) = &mut *self.log.lock();
            passes.push((now - self.started).as_secs());
            plan.retain(|key| *key == "bad" || !written.contains_key(key));
            plan.retain(|key| self.attempts.is_due(key, now));
            Some(plan)
        }

        async fn apply(&mut self, plan: Self::Plan) -> Option<Instant> {
            let (now, seconds) = (Instant::now(), self.started.elapsed().as_secs());
            for key in plan {
                self.log.lock().1.entry(key).or_default().push(seconds);
                if key == "bad" {
                    self.attempts.failed(key, "no".to_owned(), now);
                }
            }
            self.attempts.next()
        }
    }

    struct Fixture {
        desired: watch::Sender<Vec<&'static str>>,
        log: Log,
        leading: Leading,
        shutdown: CancellationToken,
        running: tokio::task::JoinHandle<()>,
    }

    fn fixture(keys: &[&'static str], leading: Leading) -> Fixture {
        let (desired, received) = watch::channel(keys.to_vec());
        let (log, shutdown) = (Log::default(), CancellationToken::new());
        let controller = Controller {
            pace: PACE,
            leading: leading.clone(),
            shutdown: shutdown.clone(),
        };
        let backoff = Backoff {
            initial: Duration::from_secs(4),
            cap: Duration::from_secs(20),
            tries: u32::MAX,
        };
        let running = tokio::spawn(controller.run(Writer {
            desired: received,
            log: Arc::clone(&log),
            attempts: KeyedBackoff::new(backoff),
            started: Instant::now(),
        }));
        Fixture {
            desired,
            log,
            leading,
            shutdown,
            running,
        }
    }

    fn alone() -> Leading {
        Leading::alone(Timestamp::UNIX_EPOCH)
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_settle_together_are_one_pass_and_a_resync_needs_none() {
        let fixture = fixture(&[], alone());
        for milliseconds in [10_000, 300, 600, 200, 300] {
            sleep(Duration::from_millis(milliseconds)).await;
            fixture.desired.send_replace(vec!["web"]);
        }
        sleep(Duration::from_mins(1)).await;
        let (passes, written) = fixture.log.lock().clone();
        assert_eq!((passes, &written["web"]), (vec![0, 11, 12, 60], &vec![11]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_key_backs_off_and_delays_no_other() {
        let fixture = fixture(&["bad", "web"], alone());
        sleep(Duration::from_millis(1500)).await;
        fixture.desired.send_modify(|keys| keys.push("api"));
        sleep(Duration::from_secs(58)).await;
        let (_, written) = fixture.log.lock().clone();
        assert_eq!((&written["web"], &written["api"]), (&vec![0], &vec![2]));
        let tries = written["bad"].windows(2);
        let waits: Vec<_> = tries.map(|pair| pair[1] - pair[0]).collect();
        assert!((2..=4).contains(&waits[0]), "{waits:?}");
        assert!((4..=8).contains(&waits[1]), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= 20), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_and_the_end_of_the_term_end_the_loop() {
        for ends_term in [false, true] {
            let fixture = fixture(&["web"], alone());
            sleep(Duration::from_secs(5)).await;
            if ends_term {
                fixture.leading.end();
            } else {
                fixture.shutdown.cancel();
            }
            fixture.running.await.expect("it ends without a panic");
            assert_eq!(fixture.log.lock().0, [0]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_planned_while_leadership_is_in_doubt() {
        let late = std::time::Instant::now();
        let fixture = fixture(&["web"], Leading::new(1, Some(late)));
        sleep(Duration::from_secs(5)).await;
        assert!(fixture.log.lock().0.is_empty());
        fixture.leading.extend(late + Duration::from_hours(1));
        sleep(Duration::from_secs(2)).await;
        assert_eq!(fixture.log.lock().1["web"].len(), 1);
    }
}
