//! Keeps effective autoscalers current for one term of leadership: each after a change of anything that belongs to it, a preview every few
//! seconds, and every one now and then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::effective_hpa::{EffectiveHorizontalPodAutoscaler, ScaleStrategy};
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use cluster::{Claim, Eldest, ObjectKey, Pod, View, Whole};
use futures::StreamExt as _;
use futures::future::pending;
use futures::stream;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Error, ResourceExt as _};
use model::Selector;
use runtime::Leading;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::plan::{Plan, Wish, plan};
use super::rules::{Rules, Told};
use super::status::{news, status};
use super::{Problem, Propagation, Seen, Target};
use crate::act::effective::{Put, Writer};

/// How long changes gather before they are looked at together.
const SETTLE: Duration = Duration::from_secs(1);
/// How often a preview, or an object with a problem, is looked at without a change.
const OFTEN: Duration = Duration::from_secs(15);
/// How often every other is.
const SAFETY_NET: Duration = Duration::from_mins(5);

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
    object: Arc<Whole<EffectiveHorizontalPodAutoscaler>>,
    autoscalers: Vec<Arc<Whole<HorizontalPodAutoscaler>>>,
    elder: Option<String>,
    prediction: Option<Arc<Whole<TimeSeriesPrediction>>>,
    substitute: Option<Arc<Whole<Substitute>>>,
    rules: Arc<Rules>,
}

/// An object that was handled: what was seen of it, and when it is looked at again.
struct Handled {
    scene: Scene,
    due: Instant,
    /// The native autoscaler that was wanted, if the one that was seen was already so. The server fills in what is left open, so this cannot
    /// be told by comparing the two.
    settled: Option<HorizontalPodAutoscaler>,
}

/// What became of an object.
struct Outcome {
    /// Whether nothing is wrong with it.
    is_calm: bool,
    settled: Option<HorizontalPodAutoscaler>,
}

impl Keeper {
    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(mut self, leading: Leading, shutdown: CancellationToken) -> anyhow::Result<()> {
        self.writer = self.writer.during(&leading);
        let mut handled = HashMap::new();
        let work = async {
            loop {
                self.horizontal.mark_unchanged();
                self.pass(&mut handled, &leading).await;
                let now = Instant::now();
                let next = handled.values().map(|handled: &Handled| handled.due).min();
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

    async fn pass(&self, handled: &mut HashMap<ObjectKey, Handled>, leading: &Leading) {
        let Some(scenes) = self.scenes() else { return };
        handled.retain(|key, _| scenes.contains_key(key));
        let now = Instant::now();
        let is_due = |key: &ObjectKey, scene: &Scene| {
            handled.get(key).is_none_or(|handled| handled.due <= now || !scene.is_same(&handled.scene))
        };
        let due: Vec<_> = scenes.into_iter().filter(|(key, scene)| is_due(key, scene)).collect();
        let known = &*handled;
        let results = stream::iter(due).map(async |(key, scene)| {
            let Outcome { is_calm, settled } = if leading.holds(std::time::Instant::now()) {
                self.handle(&scene, known.get(&key)).await
            } else {
                Outcome { is_calm: false, settled: None }
            };
            let is_preview = scene.object.object.spec.effective_strategy() == ScaleStrategy::Preview;
            let wait = if is_calm && !is_preview { SAFETY_NET } else { OFTEN };
            (key, Handled { scene, due: Instant::now() + wait, settled })
        });
        let results: Vec<_> = results.buffer_unordered(self.workers).collect().await;
        handled.extend(results);
    }

    /// Every object and what belongs to it; nothing while something may have changed without notice.
    fn scenes(&self) -> Option<HashMap<ObjectKey, Scene>> {
        let rules = match &self.rules {
            Some(rules) => rules.borrow().clone()?,
            None => Arc::default(),
        };
        let seen = self.horizontal.borrow();
        if !seen.is_synced() || seen.stale_since().is_some() {
            return None;
        }
        let mut by_namespace: HashMap<&str, Vec<&Arc<Whole<HorizontalPodAutoscaler>>>> = HashMap::new();
        for autoscaler in seen.horizontal_autoscalers.iter() {
            by_namespace.entry(&autoscaler.key.namespace).or_default().push(autoscaler);
        }
        let live = seen.effective_autoscalers.iter();
        let live: Vec<_> = live.filter(|whole| whole.object.metadata.deletion_timestamp.is_none()).collect();
        let eldest: Eldest = live.iter().map(|whole| Claim::of(&whole.object)).collect();
        let mine = live.into_iter().filter(|whole| super::names::recommender(&whole.object) == self.recommender);
        let scene = |object: &Arc<Whole<EffectiveHorizontalPodAutoscaler>>| {
            let owned = ObjectKey::new(&object.key.namespace, super::names::owned_name(&object.object));
            let others = by_namespace.get(object.key.namespace.as_str()).into_iter().flatten();
            let concerning = others.filter(|other| super::adopt::concerns(&other.object, &object.object));
            Scene {
                object: Arc::clone(object),
                autoscalers: concerning.map(|other| Arc::clone(other)).collect(),
                elder: eldest.before(&Claim::of(&object.object)).map(str::to_owned),
                prediction: seen.predictions.get(&owned).cloned(),
                substitute: seen.substitutes.get(&owned).cloned(),
                rules: Arc::clone(&rules),
            }
        };
        Some(mine.map(|object| (object.key.clone(), scene(object))).collect())
    }

    /// Looks at one object, and does what is to be done.
    async fn handle(&self, scene: &Scene, before: Option<&Handled>) -> Outcome {
        let object = &scene.object.object;
        let target = self.writer.target(object).await.map_err(|error| text(&error));
        let pods = target.as_ref().map(|target| self.pods(&scene.object.key.namespace, target)).unwrap_or_default();
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
            before.settled.is_some() && before.settled == plan.autoscaler && scene.has_same_autoscalers(&before.scene)
        });
        let Done { autoscaler, scaled } = self.carry_out(&seen, &mut plan, is_settled).await;
        self.report(&seen, &plan.problems, scaled).await;
        let settled = plan.autoscaler.filter(|_| autoscaler == Some(Put::Kept));
        Outcome { is_calm: plan.problems.is_empty(), settled }
    }

    fn pods(&self, namespace: &str, target: &Target) -> Vec<Arc<Pod>> {
        let Ok(selector) = target.selector.parse::<Selector>() else { return Vec::new() };
        if target.selector.is_empty() {
            return Vec::new();
        }
        let view = self.view.borrow();
        view.pods_in(namespace).filter(|pod| selector.matches(&pod.labels)).cloned().collect()
    }

    /// Does what is planned; what fails becomes a problem.
    async fn carry_out(&self, seen: &Seen<'_>, plan: &mut Plan, is_settled: bool) -> Done {
        let object = seen.object;
        let uid = object.uid().unwrap_or_default();
        let key = ObjectKey::new(object.namespace().unwrap_or_default(), super::names::owned_name(object));
        let mut failed = Vec::new();
        // First what the autoscaler scales, then the autoscaler, so that it never finds nothing.
        if let Wish::Have(wanted) = &plan.substitute
            && seen.substitute.is_none_or(|there| there.spec != wanted.spec || there.status != wanted.status)
        {
            let put = match self.writer.put(&**wanted, false).await {
                Ok(put) => self.writer.put_status::<Substitute>(&key, &wanted.status).await.map(|()| put),
                Err(error) => Err(error),
            };
            failed.extend(self.news(object, "Substitute", &put).await);
        }
        let mut done = Done { autoscaler: is_settled.then_some(Put::Kept), scaled: false };
        if let Some(autoscaler) = plan.autoscaler.as_ref().filter(|_| !is_settled) {
            let put = self.writer.put(autoscaler, plan.adopts).await;
            if plan.adopts && put.is_ok() {
                let note = format!("HorizontalPodAutoscaler {} is taken over", autoscaler.name_any());
                self.writer.tell(object, "HPAAdopted", &note, false).await;
            }
            failed.extend(self.news(object, "HPA", &put).await);
            done.autoscaler = put.ok();
        }
        if plan.substitute == Wish::Remove {
            let removed = self.writer.remove::<Substitute>(&key, &uid).await;
            failed.extend(self.news(object, "Substitute", &removed.map(|()| Put::Kept)).await);
        }
        let put = match &plan.prediction {
            Wish::Have(wanted) if seen.prediction.is_none_or(|there| differs(there, wanted)) => {
                self.writer.put(&**wanted, false).await
            }
            Wish::Remove => self.writer.remove::<TimeSeriesPrediction>(&key, &uid).await.map(|()| Put::Kept),
            Wish::Have(_) | Wish::Leave => Ok(Put::Kept),
        };
        failed.extend(self.news(object, "Prediction", &put).await);
        if let Some(replicas) = plan.scale_to {
            match self.writer.scale(object, replicas).await {
                Ok(()) => done.scaled = true,
                Err(error) => {
                    let message = text(&error);
                    self.writer.tell(object, "FailedManualScale", &message, true).await;
                    failed.push(Problem { reason: "FailedScale", message });
                }
            }
        }
        plan.problems.splice(0..0, failed);
        done
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
                self.writer.tell(object, &format!("{what}Created"), &format!("{what} is made"), false).await;
                None
            }
            Ok(Put::Changed | Put::Kept) => None,
            Err(error) => {
                let message = text(error);
                tracing::warn!(object = object.name_any(), what, %error, "cannot write on behalf of an effective autoscaler");
                self.writer.tell(object, &format!("FailedUpdate{what}"), &message, true).await;
                Some(Problem { reason, message })
            }
        }
    }

    async fn report(&self, seen: &Seen<'_>, problems: &[Problem], scaled: bool) {
        let status = status(seen, problems, scaled);
        if seen.object.status.as_ref() == Some(&status) {
            return;
        }
        if let Some(problem) = problems.iter().find(|problem| problem.reason == "FailedGetScale") {
            self.writer.tell(seen.object, problem.reason, &problem.message, true).await;
        }
        if let Err(error) = self.writer.say(seen.object, &status).await {
            tracing::warn!(object = seen.object.name_any(), %error, "cannot write the status of an effective autoscaler");
        } else if let Some(note) = news(seen.object.status.as_ref(), &status) {
            self.writer.tell(seen.object, "MetricsNotPredictable", note, true).await;
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

impl Scene {
    /// Whether every native autoscaler is as it was, but for its status.
    fn has_same_autoscalers(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<Whole<HorizontalPodAutoscaler>>, &Arc<Whole<HorizontalPodAutoscaler>>)| {
            one.object.metadata == other.object.metadata && one.object.spec == other.object.spec
        };
        self.autoscalers.len() == other.autoscalers.len() && self.autoscalers.iter().zip(&other.autoscalers).all(same)
    }

    /// Whether nothing has changed. The status that we write ourselves does not count.
    fn is_same(&self, other: &Self) -> bool {
        let same_object = {
            let (mine, others) = (&self.object.object, &other.object.object);
            mine.metadata == others.metadata && mine.spec == others.spec
        };
        same_object
            && self.autoscalers == other.autoscalers
            && self.elder == other.elder
            && self.rules == other.rules
            && self.prediction == other.prediction
            && self.substitute.as_ref().map(|whole| &whole.object.spec)
                == other.substitute.as_ref().map(|whole| &whole.object.spec)
    }
}

fn text(error: &Error) -> String {
    match error {
        Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}
