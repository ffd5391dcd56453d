//! Keeps EHPAs current for one term of leadership: each after a change of anything that belongs to
//! it, a preview every few seconds, and every one now and then. After them, restores native
//! autoscalers whose EHPA is gone.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::ehpa::{ADOPTED_BY, Adopter, EffectiveHorizontalPodAutoscaler, ScaleStrategy, adopted_by};
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use futures::StreamExt as _;
use futures::future::pending;
use futures::stream;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Error, ResourceExt as _};
use model::Selector;
use runtime::Leading;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use view::{Contender, ObjectKey, OldestWins, Pod, Stripped, View};

use super::orphans::{Attempt, Orphan, Orphans};
use super::plan::{Plan, Wish, plan};
use super::rules::{Rules, Told};
use super::status::{news, says, status};
use super::{Problem, Propagation, Seen, Target};
use crate::act::effective::{Put, Writable, Writer};

/// How long changes gather before they are looked at together.
const SETTLE: Duration = Duration::from_secs(1);
/// How often a preview, or an object with a problem, is looked at without a change.
pub(super) const OFTEN: Duration = Duration::from_secs(15);
/// How often every other is.
pub(super) const SAFETY_NET: Duration = Duration::from_mins(5);
/// Time for which the scale of a workload is taken to be as it was, while its native autoscaler
/// shows no other replicas.
const TARGET_LIFETIME: Duration = Duration::from_mins(1);
/// The most native autoscalers that are deleted, and that are restored, in one look at an object.
const MOST_GIVEN_UP: usize = 10;
/// The most characters of the message of an error.
const MOST_OF_ERROR: usize = 1000;

/// What keeps effective autoscalers current.
#[derive(Clone)]
pub(crate) struct Keeper {
    /// Pods.
    pub(crate) view: watch::Receiver<View>,
    /// Effective autoscalers and what they own. Empty as long as their kinds are not installed.
    pub(crate) horizontal: watch::Receiver<View>,
    /// The recommender that is to write.
    pub(crate) recommender: String,
    pub(crate) writer: Writer,
    pub(crate) propagation: Propagation,
    /// How the history of some metrics is asked for, where rules say so.
    pub(crate) rules: Option<Told>,
    /// How many objects are handled at the same time.
    pub(crate) workers: usize,
}

/// What belongs to one object, as it was seen.
#[derive(Clone)]
struct Scene {
    object: Arc<Stripped<EffectiveHorizontalPodAutoscaler>>,
    autoscalers: Vec<Arc<Stripped<HorizontalPodAutoscaler>>>,
    elder: Option<String>,
    prediction: Option<Arc<Stripped<TimeSeriesPrediction>>>,
    substitute: Option<Arc<Stripped<Substitute>>>,
    rules: Arc<Rules>,
}

/// An object that was handled: what was seen of it, and when it is looked at again.
struct Handled {
    scene: Scene,
    due: Instant,
    /// The native autoscaler that was wanted, if the one that was seen was already so. The server
    /// fills in what is left open, so this cannot be told by comparing the two.
    settled: Option<HorizontalPodAutoscaler>,
    /// The scale of the workload, and the time at which it was read. None where it is read each
    /// time.
    target: Option<(Target, Instant)>,
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
        handled.chain(self.orphans.next()).min()
    }
}

/// Everything that is to be looked at.
struct Snapshot {
    scenes: HashMap<ObjectKey, Scene>,
    /// Native autoscalers that were adopted by an EHPA that is not seen.
    orphans: HashSet<Orphan>,
}

/// What became of an object.
#[derive(Default)]
struct Outcome {
    /// Whether nothing is wrong with it.
    is_calm: bool,
    settled: Option<HorizontalPodAutoscaler>,
    target: Option<(Target, Instant)>,
}

impl Keeper {
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
                drop(timeout_at(next.unwrap_or(now + SAFETY_NET), change).await);
                sleep(SETTLE).await;
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }

    async fn pass(&self, progress: &mut Progress, leading: &Leading) {
        let Some(Snapshot { scenes, orphans }) = self.snapshot() else {
            return;
        };
        self.handle_due(&mut progress.handled, scenes, leading)
            .await;
        self.restore_orphans(&mut progress.orphans, orphans, leading)
            .await;
    }

    /// Handles each object that changed or is due.
    async fn handle_due(
        &self,
        handled: &mut HashMap<ObjectKey, Handled>,
        scenes: HashMap<ObjectKey, Scene>,
        leading: &Leading,
    ) {
        handled.retain(|key, _| scenes.contains_key(key));
        let now = Instant::now();
        let is_due = |key: &ObjectKey, scene: &Scene| {
            handled
                .get(key)
                .is_none_or(|handled| handled.due <= now || !scene.is_same(&handled.scene))
        };
        let due: Vec<_> = scenes
            .into_iter()
            .filter(|(key, scene)| is_due(key, scene))
            .collect();
        let known = &*handled;
        let results = stream::iter(due).map(async |(key, scene)| {
            let Outcome {
                is_calm,
                settled,
                target,
            } = if leading.holds(std::time::Instant::now()) {
                self.handle(&scene, known.get(&key)).await
            } else {
                Outcome::default()
            };
            let wait = if is_calm && !scene.is_preview() {
                SAFETY_NET
            } else {
                OFTEN
            };
            (
                key,
                Handled {
                    scene,
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
        seen: HashSet<Orphan>,
        leading: &Leading,
    ) {
        let due = orphans.take(seen, Instant::now());
        let results = stream::iter(due).map(async |orphan| {
            let leads = leading.holds(std::time::Instant::now());
            let attempt = if leads {
                self.restore_orphan(&orphan).await
            } else {
                Attempt::Failed
            };
            (orphan, attempt)
        });
        let results: Vec<_> = results.buffer_unordered(self.workers).collect().await;
        for (orphan, attempt) in results {
            orphans.record(orphan, attempt, Instant::now());
        }
    }

    async fn restore_orphan(&self, (autoscaler, adopted_by): &Orphan) -> Attempt {
        let Some(adopter) = Adopter::parse(adopted_by) else {
            return Attempt::InVain;
        };
        let restored = match self.writer.is_there(&autoscaler.namespace, adopter).await {
            Ok(false) => self.writer.restore(autoscaler, adopted_by).await,
            Ok(true) => Ok(false),
            Err(error) => Err(error),
        };
        if let Err(error) = &restored {
            let error = without_quotations(error);
            tracing::warn!(%autoscaler, error, "cannot restore an adopted HorizontalPodAutoscaler");
        }
        Attempt::of(&restored)
    }

    /// Every object and what belongs to it; nothing while something may have changed without notice.
    fn snapshot(&self) -> Option<Snapshot> {
        let rules = match &self.rules {
            Some(rules) => rules.borrow().clone()?,
            None => Arc::default(),
        };
        let seen = self.horizontal.borrow();
        if !seen.is_synced() || seen.stale_since().is_some() {
            return None;
        }
        let mut by_namespace: HashMap<&str, Vec<&Arc<Stripped<HorizontalPodAutoscaler>>>> =
            HashMap::new();
        for autoscaler in seen.horizontal_autoscalers.iter() {
            by_namespace
                .entry(&autoscaler.key.namespace)
                .or_default()
                .push(autoscaler);
        }
        let live = seen.ehpas.iter();
        let live: Vec<_> = live
            .filter(|whole| whole.object.metadata.deletion_timestamp.is_none())
            .collect();
        let uids: HashSet<_> = live
            .iter()
            .map(|whole| (&whole.key.namespace, whole.object.metadata.uid.as_deref()))
            .collect();
        let orphan = |whole: &Arc<Stripped<HorizontalPodAutoscaler>>| {
            let adopted_by = whole.object.annotations().get(ADOPTED_BY)?;
            let is_seen =
                uids.contains(&(&whole.key.namespace, Some(Adopter::parse(adopted_by)?.uid)));
            let is_leaving = whole.object.metadata.deletion_timestamp.is_some();
            (!is_seen && !is_leaving).then(|| (whole.key.clone(), adopted_by.clone()))
        };
        let orphans = seen
            .horizontal_autoscalers
            .iter()
            .filter_map(orphan)
            .collect();
        let winners: OldestWins = live
            .iter()
            .map(|whole| Contender::of(&whole.object))
            .collect();
        let mine = live
            .into_iter()
            .filter(|whole| super::names::recommender(&whole.object) == self.recommender);
        let scene = |object: &Arc<Stripped<EffectiveHorizontalPodAutoscaler>>| {
            let owned = ObjectKey::new(
                &object.key.namespace,
                super::names::owned_name(&object.object),
            );
            let others = by_namespace
                .get(object.key.namespace.as_str())
                .into_iter()
                .flatten();
            let concerning =
                others.filter(|other| super::adopt::concerns(&other.object, &object.object));
            Scene {
                object: Arc::clone(object),
                autoscalers: concerning.map(|other| Arc::clone(other)).collect(),
                elder: winners
                    .winner_over(&Contender::of(&object.object))
                    .map(str::to_owned),
                prediction: seen.predictions.get(&owned).cloned(),
                substitute: seen.substitutes.get(&owned).cloned(),
                rules: Arc::clone(&rules),
            }
        };
        let scenes = mine
            .map(|object| (object.key.clone(), scene(object)))
            .collect();
        Some(Snapshot { scenes, orphans })
    }

    /// Looks at one object, and does what is to be done.
    async fn handle(&self, scene: &Scene, before: Option<&Handled>) -> Outcome {
        let object = &scene.object.object;
        let known = before.and_then(|before| before.target_for(scene));
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
            .map(|target| self.pods(&scene.object.key.namespace, target))
            .unwrap_or_default();
        let seen = Seen {
            object,
            target: target.as_ref().map_err(String::as_str),
            pods: &pods,
            autoscalers: &scene.autoscalers,
            elder: scene.elder.as_deref(),
            prediction: scene.prediction.as_deref().map(|whole| &whole.object),
            substitute: scene.substitute.as_deref().map(|whole| &whole.object),
            propagation: &self.propagation,
            rules: &scene.rules,
            now: Timestamp::now(),
        };
        let mut plan = plan(&seen);
        let is_settled = before.is_some_and(|before| {
            before.settled.is_some()
                && before.settled == plan.autoscaler
                && scene.has_same_autoscalers(&before.scene)
        });
        let Done { autoscaler, scaled } = self.carry_out(&seen, &mut plan, is_settled).await;
        self.report(&seen, &plan.problems, scaled).await;
        let settled = plan.autoscaler.filter(|_| autoscaler == Some(Put::Kept));
        let is_calm = plan.problems.is_empty();
        let target = target.ok().filter(|_| is_calm && !scene.is_preview());
        Outcome {
            is_calm,
            settled,
            target: target.map(|target| (target, read_at)),
        }
    }

    fn pods(&self, namespace: &str, target: &Target) -> Vec<Arc<Pod>> {
        let Ok(selector) = target.selector.parse::<Selector>() else {
            return Vec::new();
        };
        if target.selector.is_empty() {
            return Vec::new();
        }
        let view = self.view.borrow();
        view.pods_in(namespace)
            .filter(|pod| selector.matches(&pod.labels))
            .cloned()
            .collect()
    }

    /// Does what is planned; what fails becomes a problem.
    async fn carry_out(&self, seen: &Seen<'_>, plan: &mut Plan, is_settled: bool) -> Done {
        let object = seen.object;
        let uid = object.uid().unwrap_or_default();
        let key = ObjectKey::new(
            object.namespace().unwrap_or_default(),
            super::names::owned_name(object),
        );
        let mut failed = Vec::new();
        // First what the autoscaler scales, then the autoscaler, so that it never finds nothing.
        if let Wish::Have(wanted) = &plan.substitute
            && seen
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
            autoscaler: is_settled.then_some(Put::Kept),
            scaled: false,
        };
        if let Some(autoscaler) = plan.autoscaler.as_ref().filter(|_| !is_settled) {
            let name = autoscaler.name_any();
            let installed = super::names::may_adopt(object, &name);
            let writable = if plan.adopts {
                Writable::Adopt { installed }
            } else {
                Writable::Own
            };
            let put = self.writer.put(autoscaler, writable).await;
            if plan.adopts && matches!(put, Ok(Put::Changed)) {
                let note = format!("HorizontalPodAutoscaler {name} is adopted");
                self.writer.tell(object, "HPAAdopted", &note, false).await;
            }
            failed.extend(self.news(object, "HPA", &put).await);
            done.autoscaler = put.ok();
        }
        if plan.substitute == Wish::Remove {
            let removed = self.writer.remove::<Substitute>(&key, &uid).await;
            failed.extend(
                self.news(object, "Substitute", &removed.map(|_| Put::Kept))
                    .await,
            );
        }
        let put = match &plan.prediction {
            Wish::Have(wanted) if seen.prediction.is_none_or(|there| differs(there, wanted)) => {
                self.writer.put(&**wanted, Writable::Own).await
            }
            Wish::Remove => self
                .writer
                .remove::<TimeSeriesPrediction>(&key, &uid)
                .await
                .map(|_| Put::Kept),
            Wish::Have(_) | Wish::Leave => Ok(Put::Kept),
        };
        failed.extend(self.news(object, "Prediction", &put).await);
        if let Some(replicas) = plan.scale_to {
            match self.writer.scale(object, replicas).await {
                Ok(()) => done.scaled = true,
                Err(error) => {
                    let message = text(&error);
                    if !says(object.status.as_ref(), &message) {
                        self.writer
                            .tell(object, "FailedManualScale", &message, true)
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
                self.writer.tell(object, "HPADeleted", &note, false).await;
            }
            failed.extend(self.news(object, "HPA", &removed.map(|_| Put::Kept)).await);
        }
        for name in plan.restored.iter().take(MOST_GIVEN_UP) {
            let restored = self.writer.restore(&key(name), &adopted_by(object)).await;
            failed.extend(self.news(object, "HPA", &restored.map(|_| Put::Kept)).await);
        }
        failed
    }

    async fn news(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
        what: &'static str,
        put: &Result<Put, Error>,
    ) -> Option<Problem> {
        let reason = match what {
            "HPA" => "FailedReconcileHPA",
            "Substitute" => "FailedReconcileSubstitute",
            _ => "FailedReconcilePrediction",
        };
        match put {
            Ok(Put::Created) => {
                self.writer
                    .tell(
                        object,
                        &format!("{what}Created"),
                        &format!("{what} is made"),
                        false,
                    )
                    .await;
                None
            }
            Ok(Put::Changed | Put::Kept) => None,
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
                        .tell(object, &format!("FailedUpdate{what}"), &message, true)
                        .await;
                }
                Some(Problem { reason, message })
            }
        }
    }

    async fn report(&self, seen: &Seen<'_>, problems: &[Problem], scaled: bool) {
        let status = status(seen, problems, scaled);
        if seen.object.status.as_ref() == Some(&status) {
            return;
        }
        if let Some(problem) = problems
            .iter()
            .find(|problem| problem.reason == "FailedGetScale")
        {
            self.writer
                .tell(seen.object, problem.reason, &problem.message, true)
                .await;
        }
        if let Err(error) = self.writer.say(seen.object, &status).await {
            tracing::warn!(object = seen.object.name_any(), %error, "cannot write the status of an effective autoscaler");
        } else if let Some(note) = news(seen.object.status.as_ref(), &status) {
            self.writer
                .tell(seen.object, "MetricsNotPredictable", note, true)
                .await;
        }
    }
}

/// Waits for other rules.
async fn changed(rules: &mut Option<Told>) {
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
    autoscaler: Option<Put>,
    /// Whether the workload was scaled by hand.
    scaled: bool,
}

/// Whether a prediction is not as it should be. Labels of others do not matter.
fn differs(there: &TimeSeriesPrediction, wanted: &TimeSeriesPrediction) -> bool {
    let has = |(key, value): (&String, &String)| there.labels().get(key) == Some(value);
    there.spec != wanted.spec
        || !wanted.labels().iter().all(has)
        || there.metadata.owner_references != wanted.metadata.owner_references
}

impl Handled {
    /// The scale of the workload as it was read, unless it is old or another one by what is seen
    /// now.
    fn target_for(&self, scene: &Scene) -> Option<(Target, Instant)> {
        let is_of_it = scene.object.object.spec == self.scene.object.object.spec;
        let fresh = self
            .target
            .as_ref()
            .filter(|(_, read_at)| read_at.elapsed() < TARGET_LIFETIME)?;
        (is_of_it && scene.replicas().eq(self.scene.replicas())).then(|| fresh.clone())
    }
}

/// The part of the status of a native autoscaler that is passed on, or by which its workload is
/// known to have another size.
type NativeStatus<'a> = (
    Option<i32>,
    i32,
    Option<&'a Time>,
    &'a [HorizontalPodAutoscalerCondition],
);

fn native_status(autoscaler: &HorizontalPodAutoscaler) -> Option<NativeStatus<'_>> {
    let status = autoscaler.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    Some((
        status.current_replicas,
        status.desired_replicas,
        status.last_scale_time.as_ref(),
        conditions,
    ))
}

impl Scene {
    fn is_preview(&self) -> bool {
        self.object.object.spec.effective_strategy() == ScaleStrategy::Preview
    }

    /// Current and desired replicas of each native autoscaler.
    fn replicas(&self) -> impl Iterator<Item = Option<(Option<i32>, i32)>> {
        let all = self.autoscalers.iter();
        all.map(|whole| {
            native_status(&whole.object).map(|(current, desired, ..)| (current, desired))
        })
    }

    fn native_statuses(&self) -> impl Iterator<Item = Option<NativeStatus<'_>>> {
        self.autoscalers
            .iter()
            .map(|whole| native_status(&whole.object))
    }

    /// Whether every native autoscaler is as it was, but for its status.
    fn has_same_autoscalers(&self, other: &Self) -> bool {
        let same = |(one, other): (
            &Arc<Stripped<HorizontalPodAutoscaler>>,
            &Arc<Stripped<HorizontalPodAutoscaler>>,
        )| {
            one.object.metadata == other.object.metadata && one.object.spec == other.object.spec
        };
        self.autoscalers.len() == other.autoscalers.len()
            && self.autoscalers.iter().zip(&other.autoscalers).all(same)
    }

    /// Whether nothing has changed. The status that we write ourselves does not count, nor do the
    /// metrics that a native autoscaler writes into its own every few seconds.
    fn is_same(&self, other: &Self) -> bool {
        let same_object = {
            let (mine, others) = (&self.object.object, &other.object.object);
            mine.metadata == others.metadata && mine.spec == others.spec
        };
        same_object
            && self.has_same_autoscalers(other)
            && self.native_statuses().eq(other.native_statuses())
            && self.elder == other.elder
            && self.rules == other.rules
            && self.prediction == other.prediction
            && self.substitute.as_ref().map(|whole| &whole.object.spec)
                == other.substitute.as_ref().map(|whole| &whole.object.spec)
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
