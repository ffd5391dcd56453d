//! Holds: a part of a program writes nothing while another program runs that writes the same
//! objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::runtime::events::EventType;
use parking_lot::Mutex;
use prometheus::IntGaugeVec;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use crate::manager::Manager;
use crate::object_writer::{ObjectWriter, reference};
use crate::own_pod::{hostname, own_namespace};

/// Interval between two looks for other programs, and the time limit of one.
const INTERVAL: Duration = Duration::from_secs(15);
/// Number of incomplete looks in a row after which a program that never had a complete one goes on
/// with what they found.
const INCOMPLETE_LOOKS: u32 = 3;
/// Value of the metric before that.
const UNKNOWN: i64 = -1;

/// Event of the own pod: another autoscaler runs, and this part writes nothing; see
/// docs/operations.md#beside-other-autoscalers.
const ANOTHER_AUTOSCALER: &str = "AnotherAutoscaler";
/// Event of the own pod: the other autoscaler has ended.
const NO_OTHER_AUTOSCALER: &str = "NoOtherAutoscaler";

/// Setting `otherAutoscalers`: the reaction to another autoscaler that writes the same objects, such as
/// a second updater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OtherAutoscalers {
    /// Write nothing while one runs. Without effect with --vpa-object-namespace, whose Role shows one
    /// namespace only.
    Hold,
    /// Write.
    Ignore,
}

impl OtherAutoscalers {
    /// Whether to look for other autoscalers.
    pub fn looks(self, is_clusterwide: bool) -> bool {
        self == Self::Hold && is_clusterwide
    }
}

/// Signs of other programs, by the part of this program that holds while there are any.
pub type HoldReasons = BTreeMap<&'static str, Vec<String>>;

/// The holds of a program. Clones share them.
#[derive(Clone)]
pub struct Holds {
    reasons: Arc<watch::Sender<Option<HoldReasons>>>,
    parts: Arc<Mutex<BTreeSet<&'static str>>>,
    running: IntGaugeVec,
    writer: ObjectWriter,
    /// The own pod, which the Events are about.
    about: ObjectReference,
}

crate::metrics! {
    struct HoldMetrics {
        running: IntGaugeVec { part } = "plimsoll_other_autoscaler_running",
            "1 while another autoscaler runs that writes the same objects, and this part writes nothing; -1 until it is known whether one runs.";
    }
}

impl Holds {
    /// Holds everything until the first [`Holds::set`].
    pub fn register(manager: &Manager) -> anyhow::Result<Self> {
        Ok(Self {
            reasons: Arc::default(),
            parts: Arc::default(),
            running: HoldMetrics::register(&manager.registry)
                .context("register the metric of holds")?
                .running,
            writer: manager.object_writer(),
            about: reference::<Pod>(&own_namespace(), &hostname()?, ""),
        })
    }

    /// The hold of one part, free of holds if `is_enabled` is false.
    pub fn hold(&self, part: &'static str, is_enabled: bool) -> Hold {
        if is_enabled {
            self.running.with_label_values(&[part]).set(UNKNOWN);
            self.parts.lock().insert(part);
        }
        Hold {
            reasons: is_enabled.then(|| self.reasons.subscribe()),
            part,
        }
    }

    /// Sets the reasons to what `look` finds, every fifteen seconds without an end. It returns the
    /// reasons, and the errors if they are not all: then those that were known before stay. Looks
    /// for nothing if no part can hold.
    pub async fn keep<F>(&self, look: impl Fn() -> F)
    where
        F: Future<Output = (HoldReasons, Vec<String>)>,
    {
        if self.parts.lock().is_empty() {
            std::future::pending::<()>().await;
        }
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut incomplete = 0;
        loop {
            ticks.tick().await;
            let found = timeout(INTERVAL, Box::pin(look())).await;
            let (mut reasons, errors) =
                found.unwrap_or_else(|elapsed| (HoldReasons::new(), vec![elapsed.to_string()]));
            if errors.is_empty() {
                incomplete = 0;
            } else {
                incomplete += 1;
                let errors = errors.join("; ");
                tracing::warn!(errors, "cannot look for all other autoscalers; retrying");
                let known = self.reasons.borrow().clone();
                match known {
                    Some(known) => reasons.extend(known),
                    None if incomplete < INCOMPLETE_LOOKS => continue,
                    None => {}
                }
            }
            self.set(reasons).await;
        }
    }

    /// Replaces all reasons. Changes are logged, and recorded as Events.
    pub async fn set(&self, mut reasons: HoldReasons) {
        let parts = self.parts.lock().clone();
        reasons.retain(|part, _| parts.contains(part));
        let before = self.reasons.borrow().clone().unwrap_or_default();
        self.reasons.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&reasons);
            *known = Some(reasons.clone());
            is_new
        });
        for part in parts {
            let signs = reasons.get(part);
            let is_held = signs.is_some().into();
            self.running.with_label_values(&[part]).set(is_held);
            if signs == before.get(part) {
                continue;
            }
            let (kind, reason, action, note) = if let Some(signs) = signs {
                let signs = signs.join(", ");
                tracing::warn!(
                    part,
                    signs,
                    "another autoscaler writes the same objects: writing nothing until it ends"
                );
                let note = format!(
                    "Another {part} runs: {signs}. The {part} of this installation writes nothing until it ends. \
                     To have both write, set otherAutoscalers of --config to ignore."
                );
                (EventType::Warning, ANOTHER_AUTOSCALER, "Hold", note)
            } else {
                tracing::info!(part, "no other autoscaler writes the same objects any more");
                let note = format!(
                    "No other {part} runs any more. The {part} of this installation writes."
                );
                (EventType::Normal, NO_OTHER_AUTOSCALER, "Continue", note)
            };
            self.writer
                .record_event(&self.about, kind, reason, action, &note)
                .await;
        }
    }
}

/// The hold of one part of a program. Clones are independent.
#[derive(Debug, Clone)]
pub struct Hold {
    reasons: Option<watch::Receiver<Option<HoldReasons>>>,
    part: &'static str,
}

impl Hold {
    /// Whether the part holds; `None` before the first look.
    pub fn is_held(&self) -> Option<bool> {
        match &self.reasons {
            None => Some(false),
            Some(reasons) => {
                let reasons = reasons.borrow();
                reasons.as_ref().map(|all| all.contains_key(self.part))
            }
        }
    }

    /// Waits for a change. Never returns without holds. Cancel safe.
    pub async fn changed(&mut self) {
        let is_watched = match &mut self.reasons {
            Some(reasons) => reasons.changed().await.is_ok(),
            None => false,
        };
        if !is_watched {
            std::future::pending::<()>().await;
        }
    }

    /// Runs `work` until it ends or `shutdown`. While the part holds it does not run: it is dropped,
    /// and started again afterwards.
    pub async fn run<F>(
        mut self,
        shutdown: CancellationToken,
        work: impl Fn() -> F,
    ) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        loop {
            while self.is_held() != Some(false) {
                tokio::select! {
                    () = self.changed() => {}
                    () = shutdown.cancelled() => return Ok(()),
                }
            }
            tokio::select! {
                ended = work() => return ended,
                () = self.until_held() => {}
            }
        }
    }

    async fn until_held(&mut self) {
        while self.is_held() == Some(false) {
            self.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn hold() -> (watch::Sender<Option<HoldReasons>>, Hold) {
        let (sender, reasons) = watch::channel(None);
        let part = "updater";
        let reasons = Some(reasons);
        (sender, Hold { reasons, part })
    }

    fn reasons(part: &'static str) -> HoldReasons {
        [(part, vec!["the Pod a/b".to_owned()])].into()
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_dropped_while_the_part_holds_and_starts_again() {
        let (sender, hold) = hold();
        let (starts, shutdown) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let started = || starts.load(Ordering::SeqCst);
        let counted = starts.clone();
        let running = tokio::spawn(hold.run(shutdown.clone(), move || {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        }));
        let settle = || tokio::time::sleep(std::time::Duration::from_millis(1));
        settle().await;
        assert_eq!(started(), 0, "nothing is known yet");
        for (known, expected) in [
            (reasons("recommender"), 1),
            (HoldReasons::default(), 1),
            (reasons("updater"), 1),
            (HoldReasons::default(), 2),
            (reasons("updater"), 2),
        ] {
            sender.send_replace(Some(known.clone()));
            settle().await;
            assert_eq!(started(), expected, "{known:?}");
        }
        shutdown.cancel();
        assert!(running.await.expect("no panic").is_ok());
    }

    #[tokio::test]
    async fn work_without_holds_runs_at_once() {
        let (reasons, part) = (None, "updater");
        let hold = Hold { reasons, part };
        let ended = hold.run(CancellationToken::new(), async || Ok(())).await;
        assert!(ended.is_ok());
    }

    fn holds() -> Holds {
        Holds {
            reasons: Arc::default(),
            parts: Arc::default(),
            running: HoldMetrics::new().expect("valid names").running,
            writer: ObjectWriter::new(testing::no_api_server(), "suite"),
            about: ObjectReference::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_fails_holds_nothing_for_ever() {
        let holds = holds();
        let hold = holds.hold("updater", true);
        let shown = || holds.running.with_label_values(&["updater"]).get();
        let looks = AtomicUsize::new(0);
        let error = || (HoldReasons::new(), vec!["no answer".to_owned()]);
        let keeping = holds.keep(|| {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            std::future::ready(match look {
                3 => (reasons("updater"), Vec::new()),
                5 => (HoldReasons::new(), Vec::new()),
                _ => error(),
            })
        });
        let mut keeping = std::pin::pin!(keeping);
        // Each look, with what is known and shown after it.
        for (look, expected, metric) in [
            (1, None, UNKNOWN),
            (2, None, UNKNOWN),
            (3, Some(false), 0),
            (4, Some(true), 1),
            // What was known stays.
            (5, Some(true), 1),
            (6, Some(false), 0),
        ] {
            let until = tokio::time::timeout(
                INTERVAL.saturating_sub(Duration::from_secs(1)),
                keeping.as_mut(),
            );
            assert!(until.await.is_err());
            assert_eq!(looks.load(Ordering::SeqCst), look);
            assert_eq!((hold.is_held(), shown()), (expected, metric), "{look}");
            let next = tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>());
            drop(next.await);
        }
    }
}
