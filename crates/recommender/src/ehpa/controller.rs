//! Keeps EHPAs current for one term of leadership: each after a change of anything that belongs to
//! it, a preview every few seconds, and every one now and then. After them, restores native
//! autoscalers whose EHPA is gone.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::ehpa::{Adopter, EffectiveHorizontalPodAutoscaler, adopted_by};
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use futures::StreamExt as _;
use futures::future::pending;
use futures::stream;
use horizontal::ehpa::{
    Attempt, Desired, EhpaSnapshot, Observed, Orphan, Orphans, Plan, Problem, Propagation,
    RESYNC_INTERVAL, RETRY_INTERVAL, Snapshot, TargetScale, Writable, differs, may_adopt, news,
    owned_name, plan, says, status, target_pods,
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

/// How long changes gather before they are looked at together.
const SETTLE: Duration = Duration::from_secs(1);
/// Time for which the scale of a workload is taken to be as it was, while its native autoscaler
/// shows no other replicas.
const TARGET_LIFETIME: Duration = Duration::from_mins(1);
/// The most native autoscalers that are deleted, and that are restored, in one look at an object.
const MOST_GIVEN_UP: usize = 10;
/// The most characters of the message of an error.
const MOST_OF_ERROR: usize = 1000;

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
        let Done { hpa, scaled } = self.carry_out(&observed, &mut plan, is_settled).await;
        self.report(&observed, &plan.problems, scaled).await;
        let settled = plan.hpa.filter(|_| hpa == Some(WriteOutcome::Kept));
        let is_calm = plan.problems.is_empty();
        let target = target.ok().filter(|_| is_calm && !ehpa.is_preview());
        Outcome {
            is_calm,
            settled,
            target: target.map(|target| (target, read_at)),
        }
    }

    /// Does what is planned; what fails becomes a problem.
    async fn carry_out(&self, observed: &Observed<'_>, plan: &mut Plan, is_settled: bool) -> Done {
        let object = observed.object;
        let uid = object.uid().unwrap_or_default();
        let key = ObjectKey::new(object.namespace().unwrap_or_default(), owned_name(object));
        let mut failed = Vec::new();
        // First what the autoscaler scales, then the autoscaler, so that it never finds nothing.
        if let Desired::Apply(wanted) = &plan.substitute
            && observed
                .substitute
                .is_none_or(|there| there.spec != wanted.spec || there.status != wanted.status)
        {
            let put = match self.writer.put(&**wanted, Writable::Own).await {
                Ok(put) => self
                    .writer
                    .put_status::<Substitute>(&key, &wanted.status)
                    .await
                    .map(|()| put),
                Err(error) => Err(error),
            };
            failed.extend(self.news(object, "Substitute", &put).await);
        }
        failed.extend(self.give_up(object, plan).await);
        let mut done = Done {
            hpa: is_settled.then_some(WriteOutcome::Kept),
            scaled: false,
        };
        if let Some(hpa) = plan.hpa.as_ref().filter(|_| !is_settled) {
            let name = hpa.name_any();
            let installed = may_adopt(object, &name);
            let writable = if plan.adopts {
                Writable::Adopt { installed }
            } else {
                Writable::Own
            };
            let put = self.writer.put(hpa, writable).await;
            if plan.adopts && matches!(put, Ok(WriteOutcome::Changed)) {
                let note = format!("HorizontalPodAutoscaler {name} is adopted");
                self.writer
                    .record_event(object, "HPAAdopted", &note, false)
                    .await;
            }
            failed.extend(self.news(object, "HPA", &put).await);
            done.hpa = put.ok();
        }
        if plan.substitute == Desired::Delete {
            let removed = self.writer.remove::<Substitute>(&key, &uid).await;
            failed.extend(
                self.news(object, "Substitute", &removed.map(|_| WriteOutcome::Kept))
                    .await,
            );
        }
        let put = match &plan.prediction {
            Desired::Apply(wanted)
                if observed
                    .prediction
                    .is_none_or(|there| differs(there, wanted)) =>
            {
                self.writer.put(&**wanted, Writable::Own).await
            }
            Desired::Delete => self
                .writer
                .remove::<TimeSeriesPrediction>(&key, &uid)
                .await
                .map(|_| WriteOutcome::Kept),
            Desired::Apply(_) | Desired::Keep => Ok(WriteOutcome::Kept),
        };
        failed.extend(self.news(object, "Prediction", &put).await);
        if let Some(replicas) = plan.scale_to {
            match self.writer.scale(object, replicas).await {
                Ok(()) => done.scaled = true,
                Err(error) => {
                    let message = text(&error);
                    if !says(object.status.as_ref(), &message) {
                        self.writer
                            .record_event(object, "FailedManualScale", &message, true)
                            .await;
                    }
                    failed.push(Problem {
                        reason: "FailedScale",
                        message,
                    });
                }
            }
        }
        plan.problems.splice(0..0, failed);
        done
    }

    /// Deletes native autoscalers that the object made, and restores those that it adopted; what
    /// fails becomes a problem.
    async fn give_up(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
        plan: &Plan,
    ) -> Vec<Problem> {
        let key =
            |name: &String| ObjectKey::new(object.namespace().unwrap_or_default(), name.as_str());
        let uid = object.uid().unwrap_or_default();
        let mut failed = Vec::new();
        for name in plan.deleted.iter().take(MOST_GIVEN_UP) {
            let removed = self
                .writer
                .remove::<HorizontalPodAutoscaler>(&key(name), &uid)
                .await;
            if matches!(removed, Ok(true)) {
                let note = format!(
                    "HorizontalPodAutoscaler {name} is deleted, since another one scales the same workload"
                );
                self.writer
                    .record_event(object, "HPADeleted", &note, false)
                    .await;
            }
            failed.extend(
                self.news(object, "HPA", &removed.map(|_| WriteOutcome::Kept))
                    .await,
            );
        }
        for name in plan.restored.iter().take(MOST_GIVEN_UP) {
            let restored = self.writer.restore(&key(name), &adopted_by(object)).await;
            failed.extend(
                self.news(object, "HPA", &restored.map(|_| WriteOutcome::Kept))
                    .await,
            );
        }
        failed
    }

    async fn news(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
        what: &'static str,
        put: &Result<WriteOutcome, Error>,
    ) -> Option<Problem> {
        let reason = match what {
            "HPA" => "FailedReconcileHPA",
            "Substitute" => "FailedReconcileSubstitute",
            _ => "FailedReconcilePrediction",
        };
        match put {
            Ok(WriteOutcome::Created) => {
                self.writer
                    .record_event(
                        object,
                        &format!("{what}Created"),
                        &format!("{what} is made"),
                        false,
                    )
                    .await;
                None
            }
            Ok(WriteOutcome::Changed | WriteOutcome::Kept) => None,
            Err(error) => {
                let message = text(error);
                if !says(object.status.as_ref(), &message) {
                    let (namespace, name) =
                        (object.namespace().unwrap_or_default(), object.name_any());
                    tracing::warn!(
                        namespace,
                        name,
                        what,
                        error = message,
                        "cannot write on behalf of an EHPA"
                    );
                    self.writer
                        .record_event(object, &format!("FailedUpdate{what}"), &message, true)
                        .await;
                }
                Some(Problem { reason, message })
            }
        }
    }

    async fn report(&self, observed: &Observed<'_>, problems: &[Problem], scaled: bool) {
        let status = status(observed, problems, scaled);
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

/// What was done.
struct Done {
    /// What became of the native autoscaler; none if it could not be written, or was not to be.
    hpa: Option<WriteOutcome>,
    /// Whether the workload was scaled by hand.
    scaled: bool,
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

/// The message of an error.
fn text(error: &Error) -> String {
    let text = match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    };
    text.chars().take(MOST_OF_ERROR).collect()
}

/// An error without the words of the API server, which quote the object that it refuses.
fn without_quotations(error: &Error) -> String {
    match error {
        Error::Api(status) => format!("{} {}", status.code, status.reason),
        error => text(error),
    }
}
