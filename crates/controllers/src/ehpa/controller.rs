//! Controller of EHPAs, for one term of leadership: a pass over each after a change of its objects,
//! over previews every few seconds, and over all of them periodically. Then it restores HPAs whose
//! EHPA is gone.

mod apply;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::ehpa::{Adopter, EffectiveHorizontalPodAutoscaler};
use futures::StreamExt as _;
use futures::future::pending;
use futures::stream;
use horizontal::ehpa::reasons::{FAILED_GET_SCALE, METRICS_NOT_PREDICTABLE};
use horizontal::ehpa::{
    Attempt, EhpaSnapshot, Observed, Orphan, Orphans, PodReadyTimes, Problem, Propagation,
    RESYNC_INTERVAL, RETRY_INTERVAL, Snapshot, TargetScale, ask_the_same, plan, scale_point_vpas,
    scale_points, status, target_pods, unpredictable_metrics,
};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Error, ResourceExt as _};
use runtime::{Controller, Leading, Manager, Pace, Reconcile};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use view::{ObjectKey, View, Vpa, interleave_namespaces};

use crate::ehpa::EhpaInputs;
use crate::ehpa::args::EhpaArgs;
use crate::ehpa::crane_metrics::CraneMetricsTask;
use crate::ehpa::rule_file::{self, RuleFollower, RulesReceiver};
use crate::ehpa::writer::{ApplyOutcome, Writer};
use crate::{changed, is_current};
use apply::{Applied, apply, text};

const PACE: Pace = Pace {
    settle: Duration::from_secs(1),
    min_pause: Duration::from_secs(1),
    pause_factor: 0,
    resync: RESYNC_INTERVAL,
};
/// Time for which the scale of a workload is cached while its HPA shows the same replicas.
const TARGET_LIFETIME: Duration = Duration::from_mins(1);
/// Time limit of reading it: the API of a custom kind may hang.
const TARGET_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time between two retries of an EHPA with a problem.
const MAX_RETRY: Duration = Duration::from_mins(1);
/// Time after which a pass begins no further EHPA. The others follow in the next pass, at once.
const PASS_TIME: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct EhpaController {
    inputs: EhpaInputs,
    writer: Writer,
    propagation: Propagation,
    rules: Option<RulesReceiver>,
}

struct Handled {
    ehpa: EhpaSnapshot,
    due: Instant,
    outcome: Outcome,
    /// Number of retries of an unchanged EHPA with a problem.
    retries: u32,
}

struct EhpaTerm {
    controller: EhpaController,
    handled: HashMap<ObjectKey, Handled>,
    orphans: Orphans,
    scale_points: ScalePointVpas,
}

struct Outcome {
    /// Whether there are no problems.
    is_healthy: bool,
    /// The desired HPA, if the observed one was up to date. The API server fills in defaults, so
    /// comparing the two does not tell.
    settled: Option<HorizontalPodAutoscaler>,
    /// Scale of the workload, and the time at which it was read; `None` if each pass reads it.
    target: Option<(TargetScale, Instant)>,
    /// Times until its recent pods were ready.
    ready_times: PodReadyTimes,
}

impl EhpaController {
    /// Registers the metrics, and follows the file of rules if there is one. Returns the controller
    /// and the task of Crane's metrics.
    pub fn start(
        args: &EhpaArgs,
        inputs: EhpaInputs,
        manager: &Manager,
    ) -> anyhow::Result<(Self, CraneMetricsTask)> {
        let config_valid = rule_file::register(&manager.registry)?;
        let rules = args.rules()?.map(|settings| {
            let client = manager.client.clone();
            let (follower, rules) = RuleFollower::new(settings, client, config_valid);
            manager.tasks.spawn_until_shutdown("rules", follower.run());
            rules
        });
        let crane_metrics = CraneMetricsTask::register(&inputs, &manager.registry)?;
        let controller = Self {
            inputs,
            writer: Writer::new(manager.object_writer()),
            propagation: args.propagation(),
            rules,
        };
        Ok((controller, crane_metrics))
    }

    pub fn rules(&self) -> Option<RulesReceiver> {
        self.rules.clone()
    }

    /// Runs until shutdown, or until it is dropped with the Lease.
    pub async fn run(
        mut self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        self.writer = self.writer.during(&leading);
        let controller = Controller {
            pace: PACE,
            leading,
            shutdown,
        };
        controller.run(EhpaTerm::new(self)).await;
        Ok(())
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

    async fn read_target(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
    ) -> Result<TargetScale, String> {
        match timeout(TARGET_TIMEOUT, self.writer.target(object)).await {
            Ok(target) => target.map_err(|error| text(&error)),
            Err(_) => Err(format!("no answer within {TARGET_TIMEOUT:?}")),
        }
    }

    async fn handle(&self, ehpa: &EhpaSnapshot, before: Option<&Handled>) -> Outcome {
        let object = &ehpa.object.object;
        let (target, read_at) = match before.and_then(|before| before.target_for(ehpa)) {
            Some((target, read_at)) => (Ok(target), read_at),
            None => (self.read_target(object).await, Instant::now()),
        };
        let namespace = &ehpa.object.key.namespace;
        let pods = target.as_ref().map_or_else(
            |_| Vec::new(),
            |target| target_pods(&self.inputs.view.borrow(), namespace, target),
        );
        let ready_times = before.and_then(|before| before.ready_times_for(ehpa));
        let mut ready_times = ready_times.unwrap_or_default();
        ready_times.observe(&pods);
        let observed = Observed {
            object,
            target: target.as_ref().map_err(String::as_str),
            pods: &pods,
            ready_seconds: ready_times.p90_seconds(),
            vpas: &ehpa.vpas,
            hpas: &ehpa.hpas,
            older_ehpa: ehpa.older_ehpa.as_deref(),
            prediction: ehpa.prediction.as_deref().map(|whole| &whole.object),
            substitute: ehpa.substitute.as_deref().map(|whole| &whole.object),
            propagation: &self.propagation,
            rules: &ehpa.rules,
            now: Timestamp::now(),
        };
        if !self.record_scale_points(&observed).await {
            return Outcome {
                is_healthy: false,
                settled: None,
                target: None,
                ready_times,
            };
        }
        let mut plan = plan(&observed);
        let is_settled = before.is_some_and(|before| {
            before.outcome.settled.is_some()
                && before.outcome.settled == plan.hpa
                && ehpa.has_same_autoscalers(&before.ehpa)
        });
        let Applied {
            hpa,
            is_scaled,
            problems,
        } = apply(&self.writer, &observed, &plan, is_settled).await;
        plan.problems.splice(0..0, problems);
        self.report(&observed, &plan.problems, is_scaled).await;
        let target = target.ok().filter(|_| !ehpa.is_preview());
        Outcome {
            is_healthy: plan.problems.is_empty(),
            settled: plan.hpa.filter(|_| hpa == Some(ApplyOutcome::Unchanged)),
            target: target.map(|target| (target, read_at)),
            ready_times,
        }
    }

    /// Writes new scale points to the status, before an HPA scales by them: computed again later,
    /// they would follow the requests. Returns whether the status has them.
    async fn record_scale_points(&self, observed: &Observed<'_>) -> bool {
        let mut status = observed.object.status.clone().unwrap_or_default();
        let (points, _) = scale_points(observed);
        let mut all = points.iter();
        if all.all(|point| status.scale_points.contains(point)) {
            return true;
        }
        status.scale_points = points;
        let written = self.writer.update_status(observed.object, &status).await;
        if let Err(error) = &written {
            tracing::warn!(object = observed.object.name_any(), %error, "cannot write the scale points of an EHPA");
        }
        written.is_ok()
    }

    async fn report(&self, observed: &Observed<'_>, problems: &[Problem], is_scaled: bool) {
        let status = status(observed, problems, is_scaled);
        if observed.object.status.as_ref() == Some(&status) {
            return;
        }
        let (writer, object) = (&self.writer, observed.object);
        let mut all = problems.iter();
        if let Some(Problem { reason, message }) = all.find(|it| it.reason == FAILED_GET_SCALE) {
            writer.record_event(object, reason, message, true).await;
        }
        if let Err(error) = writer.update_status(object, &status).await {
            tracing::warn!(object = object.name_any(), %error, "cannot write the status of an EHPA");
        } else if let Some(note) = unpredictable_metrics(object.status.as_ref(), &status) {
            let reason = METRICS_NOT_PREDICTABLE;
            writer.record_event(object, reason, note, true).await;
        }
    }
}

impl Reconcile for EhpaTerm {
    type Plan = Snapshot;

    async fn changed(&mut self) {
        let EhpaController { inputs, rules, .. } = &mut self.controller;
        tokio::select! {
            () = self.scale_points.changed(&mut inputs.view) => {}
            _ = inputs.horizontal.changed() => {}
            () = rules_changed(rules) => {}
        }
    }

    /// The observed objects; `None` while the view may be incomplete or outdated.
    fn plan(&mut self, _: Instant) -> Option<Snapshot> {
        let EhpaController { inputs, rules, .. } = &mut self.controller;
        let observed = inputs.horizontal.borrow_and_update();
        let rules = match rules {
            Some(rules) => rules.borrow_and_update().clone()?,
            None => Arc::default(),
        };
        if !is_current(&observed) {
            return None;
        }
        let vpas = self.scale_points.read(&inputs.view.borrow())?;
        Some(Snapshot::of(&observed, vpas, &rules, &inputs.recommender))
    }

    async fn apply(&mut self, Snapshot { ehpas, orphans }: Snapshot) -> Option<Instant> {
        let is_complete = self.handle_due(ehpas).await;
        self.restore_orphans(orphans).await;
        let due = self.handled.values().map(|handled| handled.due);
        let rest = (!is_complete).then(Instant::now);
        let orphans = self.orphans.next().map(Instant::from_std);
        due.chain(rest).chain(orphans).min()
    }
}

impl EhpaTerm {
    fn new(controller: EhpaController) -> Self {
        Self {
            controller,
            handled: HashMap::new(),
            orphans: Orphans::default(),
            scale_points: ScalePointVpas::default(),
        }
    }

    /// Makes a pass over the EHPAs that changed or are due, in turns of one per namespace, and returns
    /// whether there was time for all.
    async fn handle_due(&mut self, ehpas: HashMap<ObjectKey, EhpaSnapshot>) -> bool {
        let (controller, handled) = (&self.controller, &mut self.handled);
        handled.retain(|key, _| ehpas.contains_key(key));
        let now = Instant::now();
        let is_due = |key: &ObjectKey, ehpa: &EhpaSnapshot| {
            let handled = handled.get(key);
            handled.is_none_or(|handled| handled.due <= now || !ehpa.is_same(&handled.ehpa))
        };
        let due = ehpas.into_iter().filter(|(key, ehpa)| is_due(key, ehpa));
        let due = interleave_namespaces(due.collect(), |(key, _)| key);
        let count = due.len();
        let known = &*handled;
        let in_time = stream::iter(due).take_while(|_| {
            let has_time = now.elapsed() < PASS_TIME;
            async move { has_time }
        });
        let results = in_time.map(async |(key, ehpa)| {
            let before = known.get(&key);
            let outcome = controller.handle(&ehpa, before).await;
            let before = before.filter(|before| !before.outcome.is_healthy);
            let before = before.filter(|before| ehpa.is_same(&before.ehpa));
            let retries = before.map_or(0, |before| before.retries + 1);
            let wait = if ehpa.is_preview() {
                RETRY_INTERVAL
            } else if outcome.is_healthy {
                RESYNC_INTERVAL
            } else {
                // A problem that nothing changes is looked at less and less often.
                let doubled = 1_u32.checked_shl(retries).unwrap_or(u32::MAX);
                RETRY_INTERVAL.saturating_mul(doubled).min(MAX_RETRY)
            };
            let handled = Handled {
                ehpa,
                due: Instant::now() + wait,
                outcome,
                retries,
            };
            (key, handled)
        });
        let workers = controller.inputs.workers;
        let results: Vec<_> = results.buffer_unordered(workers).collect().await;
        let is_complete = results.len() == count;
        handled.extend(results);
        is_complete
    }

    /// Restores HPAs whose EHPA is gone. The API server is asked, since an EHPA with an invalid
    /// object is missing in the view.
    async fn restore_orphans(&mut self, observed: HashSet<Orphan>) {
        let (controller, orphans) = (&self.controller, &mut self.orphans);
        let due = orphans.take(observed, Instant::now().into_std());
        let results = stream::iter(due).map(async |orphan| {
            let attempt = controller.restore_orphan(&orphan).await;
            (orphan, attempt)
        });
        let workers = controller.inputs.workers;
        let results: Vec<_> = results.buffer_unordered(workers).collect().await;
        for (orphan, attempt) in results {
            orphans.record(orphan, attempt, Instant::now().into_std());
        }
    }
}

fn attempt(result: &Result<bool, Error>) -> Attempt {
    match result {
        Ok(true) => Attempt::Restored,
        Ok(false) | Err(Error::BuildRequest(_)) => Attempt::Final,
        Err(Error::Api(status)) if matches!(status.code, 409 | 429) => Attempt::Retryable,
        Err(Error::Api(status)) if matches!(status.code, 400..=499) => Attempt::Final,
        Err(_) => Attempt::Retryable,
    }
}

async fn rules_changed(rules: &mut Option<RulesReceiver>) {
    match rules {
        Some(rules) => changed(rules).await,
        None => pending().await,
    }
}

impl Handled {
    /// The times until pods were ready, unless the EHPA scales another workload now.
    fn ready_times_for(&self, ehpa: &EhpaSnapshot) -> Option<PodReadyTimes> {
        let target = |ehpa: &EhpaSnapshot| ehpa.object.object.spec.scale_target_ref.clone();
        let is_same = target(ehpa) == target(&self.ehpa);
        is_same.then(|| self.outcome.ready_times.clone())
    }

    /// The cached scale, unless it expired or the HPA or the spec shows a change.
    fn target_for(&self, ehpa: &EhpaSnapshot) -> Option<(TargetScale, Instant)> {
        let is_of_it = ehpa.object.object.spec == self.ehpa.object.object.spec;
        let target = self.outcome.target.as_ref();
        let fresh = target.filter(|(_, read_at)| read_at.elapsed() < TARGET_LIFETIME)?;
        (is_of_it && ehpa.replicas().eq(self.ehpa.replicas())).then(|| fresh.clone())
    }
}

/// An error without the API server's message, which quotes the rejected object.
fn without_quotations(error: &Error) -> String {
    match error {
        Error::Api(status) => format!("{} {}", status.code, status.reason),
        error => text(error),
    }
}

/// Minimum interval between two looks at the view, which changes with each pod.
const INTERVAL: Duration = Duration::from_secs(1);

/// The VPAs of the last look.
#[derive(Default)]
struct ScalePointVpas {
    vpas: Vec<Arc<Vpa>>,
    next: Option<Instant>,
}

impl ScalePointVpas {
    fn read(&mut self, view: &View) -> Option<&[Arc<Vpa>]> {
        if !view.is_synced() {
            return None;
        }
        self.vpas = scale_point_vpas(view);
        Some(&self.vpas)
    }

    /// Returns when the VPAs differ from those of the last look, or the view is newly synced.
    /// Dropping it loses nothing.
    async fn changed(&mut self, view: &mut watch::Receiver<View>) {
        loop {
            if let Some(next) = self.next {
                sleep_until(next).await;
            } else if view.wait_for(View::is_synced).await.is_err() {
                return pending().await;
            }
            let is_first = self.next.is_none();
            self.next = Some(Instant::now() + INTERVAL);
            let is_same = {
                let view = view.borrow_and_update();
                ask_the_same(&self.vpas, &scale_point_vpas(&view))
            };
            if is_first || !is_same {
                return;
            }
            if view.changed().await.is_err() {
                return pending().await;
            }
        }
    }
}
