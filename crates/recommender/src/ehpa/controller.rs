//! Keeps EHPAs current for one term of leadership: each after a change of anything that belongs to
//! it, a preview every few seconds, and every one now and then. After them, restores native
//! autoscalers whose EHPA is gone.

mod apply;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::ehpa::Adopter;
use futures::StreamExt as _;
use futures::future::pending;
use futures::stream;
use horizontal::ehpa::{
    Attempt, EhpaSnapshot, Observed, Orphan, Orphans, Problem, Propagation, RESYNC_INTERVAL,
    RETRY_INTERVAL, Snapshot, TargetScale, news, plan, status, target_pods,
};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Error, ResourceExt as _};
use runtime::Leading;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use view::{ObjectKey, View};

use super::rule_file::RulesReceiver;
use crate::act::ehpa::{WriteOutcome, Writer};
use apply::{Applied, apply, text};

/// How long changes gather before they are looked at together.
const SETTLE: Duration = Duration::from_secs(1);
/// Time for which the scale of a workload is taken to be as it was, while its native autoscaler
/// shows no other replicas.
const TARGET_LIFETIME: Duration = Duration::from_mins(1);
/// What keeps effective autoscalers current.
#[derive(Clone)]
pub(crate) struct EhpaController {
    /// Pods.
    pub(crate) view: watch::Receiver<View>,
    /// Effective autoscalers and what they own. Empty as long as their kinds are not installed.
    pub(crate) horizontal: watch::Receiver<View>,
    /// The recommender that is to write.
    pub(crate) recommender: String,
    pub(crate) writer: Writer,
    pub(crate) propagation: Propagation,
    /// How the history of some metrics is asked for, where rules say so.
    pub(crate) rules: Option<RulesReceiver>,
    /// How many objects are handled at the same time.
    pub(crate) workers: usize,
}

/// An object that was handled: what was seen of it, and when it is looked at again.
struct Handled {
    ehpa: EhpaSnapshot,
    due: Instant,
    /// The native autoscaler that was wanted, if the one that was seen was already so. The server
    /// fills in what is left open, so this cannot be told by comparing the two.
    settled: Option<HorizontalPodAutoscaler>,
    /// The scale of the workload, and the time at which it was read. None where it is read each
    /// time.
    target: Option<(TargetScale, Instant)>,
}

/// Objects that were handled, and autoscalers whose EHPA seems to be gone.
#[derive(Default)]
struct Progress {
    handled: HashMap<ObjectKey, Handled>,
    orphans: Orphans,
}

impl Progress {
    /// The time of the next look without a change.
    fn due(&self) -> Option<Instant> {
        let handled = self.handled.values().map(|handled| handled.due);
        handled
            .chain(self.orphans.next().map(Instant::from_std))
            .min()
    }
}

/// What became of an object.
#[derive(Default)]
struct Outcome {
    /// Whether nothing is wrong with it.
    is_calm: bool,
    settled: Option<HorizontalPodAutoscaler>,
    target: Option<(TargetScale, Instant)>,
}

impl EhpaController {
    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(
        mut self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        self.writer = self.writer.during(&leading);
        let mut progress = Progress::default();
        let work = async {
            loop {
                self.horizontal.mark_unchanged();
                self.pass(&mut progress, &leading).await;
                let now = Instant::now();
                let next = progress.due();
                let change = async {
                    tokio::select! {
                        _ = self.horizontal.changed() => {}
                        () = changed(&mut self.rules) => {}
                    }
                };
                // A look in vain costs nothing.
                drop(timeout_at(next.unwrap_or(now + RESYNC_INTERVAL), change).await);
                sleep(SETTLE).await;
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }

    async fn pass(&self, progress: &mut Progress, leading: &Leading) {
        let Some(Snapshot { ehpas, orphans }) = self.snapshot() else {
            return;
        };
        self.handle_due(&mut progress.handled, ehpas, leading).await;
        self.restore_orphans(&mut progress.orphans, orphans, leading)
            .await;
    }

    /// Handles each object that changed or is due.
    async fn handle_due(
        &self,
        handled: &mut HashMap<ObjectKey, Handled>,
        ehpas: HashMap<ObjectKey, EhpaSnapshot>,
        leading: &Leading,
    ) {
        handled.retain(|key, _| ehpas.contains_key(key));
        let now = Instant::now();
        let is_due = |key: &ObjectKey, ehpa: &EhpaSnapshot| {
            handled
                .get(key)
                .is_none_or(|handled| handled.due <= now || !ehpa.is_same(&handled.ehpa))
        };
        let due: Vec<_> = ehpas
            .into_iter()
            .filter(|(key, ehpa)| is_due(key, ehpa))
            .collect();
        let known = &*handled;
        let results = stream::iter(due).map(async |(key, ehpa)| {
            let Outcome {
                is_calm,
                settled,
                target,
            } = if leading.holds(std::time::Instant::now()) {
                self.handle(&ehpa, known.get(&key)).await
            } else {
                Outcome::default()
            };
            let wait = if is_calm && !ehpa.is_preview() {
                RESYNC_INTERVAL
            } else {
                RETRY_INTERVAL
            };
            (
                key,
                Handled {
                    ehpa,
                    due: Instant::now() + wait,
                    settled,
                    target,
                },
            )
        });
        let results: Vec<_> = results.buffer_unordered(self.workers).collect().await;
        handled.extend(results);
    }

    /// Restores native autoscalers whose EHPA is gone, by a look at the API server: one that cannot
    /// be read is there, and not in the view.
    async fn restore_orphans(
        &self,
        orphans: &mut Orphans,
        observed: HashSet<Orphan>,
        leading: &Leading,
    ) {
        let due = orphans.take(observed, Instant::now().into_std());
        let results = stream::iter(due).map(async |orphan| {
            let leads = leading.holds(std::time::Instant::now());
            let attempt = if leads {
                self.restore_orphan(&orphan).await
            } else {
                Attempt::Retryable
            };
            (orphan, attempt)
        });
        let results: Vec<_> = results.buffer_unordered(self.workers).collect().await;
        for (orphan, attempt) in results {
            orphans.record(orphan, attempt, Instant::now().into_std());
        }
    }

    async fn restore_orphan(&self, (hpa, adopted_by): &Orphan) -> Attempt {
        let Some(adopter) = Adopter::parse(adopted_by) else {
            return Attempt::Final;
        };
        let restored = match self.writer.exists(&hpa.namespace, adopter).await {
            Ok(false) => self.writer.restore(hpa, adopted_by).await,
            Ok(true) => Ok(false),
            Err(error) => Err(error),
        };
        if let Err(error) = &restored {
            let error = without_quotations(error);
            tracing::warn!(%hpa, error, "cannot restore an adopted HorizontalPodAutoscaler");
        }
        attempt(&restored)
    }

    /// Every object and what belongs to it; nothing while something may have changed without notice.
    fn snapshot(&self) -> Option<Snapshot> {
        let rules = match &self.rules {
            Some(rules) => rules.borrow().clone()?,
            None => Arc::default(),
        };
        let observed = self.horizontal.borrow();
        if !observed.is_synced() || observed.stale_since().is_some() {
            return None;
        }
        Some(Snapshot::of(&observed, &rules, &self.recommender))
    }

    /// Looks at one object, and does what is to be done.
    async fn handle(&self, ehpa: &EhpaSnapshot, before: Option<&Handled>) -> Outcome {
        let object = &ehpa.object.object;
        let known = before.and_then(|before| before.target_for(ehpa));
        let read_at = known
            .as_ref()
            .map_or_else(Instant::now, |(_, read_at)| *read_at);
        let target = match known {
            Some((target, _)) => Ok(target),
            None => self
                .writer
                .target(object)
                .await
                .map_err(|error| text(&error)),
        };
        let pods = target
            .as_ref()
            .map(|target| target_pods(&self.view.borrow(), &ehpa.object.key.namespace, target))
            .unwrap_or_default();
        let observed = Observed {
            object,
            target: target.as_ref().map_err(String::as_str),
            pods: &pods,
            hpas: &ehpa.hpas,
            older_ehpa: ehpa.older_ehpa.as_deref(),
            prediction: ehpa.prediction.as_deref().map(|whole| &whole.object),
            substitute: ehpa.substitute.as_deref().map(|whole| &whole.object),
            propagation: &self.propagation,
            rules: &ehpa.rules,
            now: Timestamp::now(),
        };
        let mut plan = plan(&observed);
        let is_settled = before.is_some_and(|before| {
            before.settled.is_some()
                && before.settled == plan.hpa
                && ehpa.has_same_autoscalers(&before.ehpa)
        });
        let Applied {
            hpa,
            is_scaled,
            problems,
        } = apply(&self.writer, &observed, &plan, is_settled).await;
        plan.problems.splice(0..0, problems);
        self.report(&observed, &plan.problems, is_scaled).await;
        let settled = plan.hpa.filter(|_| hpa == Some(WriteOutcome::Unchanged));
        let is_calm = plan.problems.is_empty();
        let target = target.ok().filter(|_| is_calm && !ehpa.is_preview());
        Outcome {
            is_calm,
            settled,
            target: target.map(|target| (target, read_at)),
        }
    }

    async fn report(&self, observed: &Observed<'_>, problems: &[Problem], is_scaled: bool) {
        let status = status(observed, problems, is_scaled);
        if observed.object.status.as_ref() == Some(&status) {
            return;
        }
        if let Some(problem) = problems
            .iter()
            .find(|problem| problem.reason == "FailedGetScale")
        {
            self.writer
                .record_event(observed.object, problem.reason, &problem.message, true)
                .await;
        }
        if let Err(error) = self.writer.update_status(observed.object, &status).await {
            tracing::warn!(object = observed.object.name_any(), %error, "cannot write the status of an effective autoscaler");
        } else if let Some(note) = news(observed.object.status.as_ref(), &status) {
            self.writer
                .record_event(observed.object, "MetricsNotPredictable", note, true)
                .await;
        }
    }
}

/// The result of an attempt to restore an orphan.
fn attempt(result: &Result<bool, Error>) -> Attempt {
    match result {
        Ok(true) => Attempt::Restored,
        Ok(false) | Err(Error::BuildRequest(_)) => Attempt::Final,
        Err(Error::Api(status)) if matches!(status.code, 409 | 429) => Attempt::Retryable,
        Err(Error::Api(status)) if matches!(status.code, 400..=499) => Attempt::Final,
        Err(_) => Attempt::Retryable,
    }
}

/// Waits for other rules.
async fn changed(rules: &mut Option<RulesReceiver>) {
    if let Some(rules) = rules
        && rules.changed().await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

impl Handled {
    /// The scale of the workload as it was read, unless it is old or another one by what is seen
    /// now.
    fn target_for(&self, ehpa: &EhpaSnapshot) -> Option<(TargetScale, Instant)> {
        let is_of_it = ehpa.object.object.spec == self.ehpa.object.object.spec;
        let fresh = self
            .target
            .as_ref()
            .filter(|(_, read_at)| read_at.elapsed() < TARGET_LIFETIME)?;
        (is_of_it && ehpa.replicas().eq(self.ehpa.replicas())).then(|| fresh.clone())
    }
}

/// An error without the words of the API server, which quote the object that it refuses.
fn without_quotations(error: &Error) -> String {
    match error {
        Error::Api(status) => format!("{} {}", status.code, status.reason),
        error => text(error),
    }
}
