//! What one recommender knows: pods, the history of their usage, and the objects that it is in charge of. No input or
//! output here; the steps are upstream's (`LoadVPAs`, `LoadPods`, `LoadMetrics`, `UpdateVPAs`, `GarbageCollect`).

mod checkpoints;
mod history;
mod kills;
mod quality;
mod schedulable;
mod selection;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use cluster::target::{Resolution, resolve};
use cluster::{Autoscaler, ObjectKey, Phase, Pod, View};
use feed::Explained;
use jiff::Timestamp;
use model::{ContainerRecommendation, Recommendation, Selector};
use sizing::{Accepted, AutoscalerId, AutoscalerSpec, Config, ConfigError, Fleet, PodSpec, SampleError, SizingPolicy};
use sources::ContainerUsage;

use crate::checkpoint::past::Past;
use crate::decide::{self, Finding, HistoryNews};
use crate::history::Ledger;
use crate::policies::{integer_cpu, policies, sizing_policy};
use crate::schedulable::{CapNews, Schedulable, cap_news, refused_cap};
use kills::FoundKills;
pub(crate) use quality::Recommended;
use selection::Selections;

pub use kills::{KillCount, KillFate};

use api::vpa::VerticalPodAutoscalerStatus;

/// Which objects are this recommender's, and which pods are worth a history.
#[derive(Debug, Clone)]
pub struct Charge {
    /// The name that objects may ask for.
    pub recommender_name: String,
    /// Whether pods that no object selects are passed over.
    pub memory_saver: bool,
    /// How long usage of new pods may take to arrive; the interval at which it is read.
    pub patience: Duration,
}

/// What one recommender knows.
#[derive(Debug)]
pub struct State {
    charge: Charge,
    fleet: Fleet,
    autoscalers: BTreeMap<ObjectKey, Tracked>,
    pods: BTreeMap<ObjectKey, Arc<Pod>>,
    /// Pods that are gone, but whose last kills may still be on their way.
    gone: BTreeSet<ObjectKey>,
    /// Kills that were seen in pods when they were taken over.
    found_kills: FoundKills,
    past: Past,
    /// Which history has come; absent when none is fetched.
    history: Option<Ledger>,
    /// What recommendations are held to; absent when they are held to nothing.
    schedulable: Option<Schedulable>,
    /// Rounds in a row in which the source of usage did not answer.
    unanswered: u32,
}

/// After so many rounds without an answer, recommendations count as out of date. Upstream's health check has the same patience.
const MOST_UNANSWERED: u32 = 5;

/// An object that this recommender is in charge of.
#[derive(Debug)]
struct Tracked {
    autoscaler: Arc<Autoscaler>,
    target: Target,
    /// Why the way of sizing that it asks for is refused, if it is; then the VPA's stands in.
    refused_annotation: Option<String>,
    /// Since when pods match.
    pods_since: Option<Timestamp>,
    /// The containers whose stored history was taken over, or refused.
    loaded: BTreeSet<String>,
}

/// What its target came down to.
#[derive(Debug, Clone, PartialEq)]
enum Target {
    /// These pods; and what stands in the way of more, if anything does.
    Known { selector: Selector, unsupported: Option<String> },
    /// Not known yet; nothing is decided.
    Unknown,
}

/// What came of a batch of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Samples that entered a history.
    pub accepted: usize,
    /// Samples that were there before.
    pub repeated: usize,
    /// Samples of containers that are not known: of pods that have just come or gone, or that no object selects.
    pub unknown: usize,
    /// Samples with a time in the future.
    pub future: usize,
}

/// The status that one object should have.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The object that it was decided for.
    pub autoscaler: Arc<Autoscaler>,
    /// The status.
    pub status: VerticalPodAutoscalerStatus,
    /// How many pods match.
    pub pods: usize,
    /// Whether its target cannot be used.
    pub unsupported: bool,
}

/// What was decided about some of the objects.
#[derive(Debug, Default)]
pub struct Portion {
    /// The decisions.
    pub decisions: Vec<Decision>,
    /// The last object that was looked at; none when there was none.
    pub last: Option<ObjectKey>,
}

impl Decision {
    /// Whether the object's status differs in meaning from the decided one.
    pub fn is_change(&self) -> bool {
        self.autoscaler.object.status.as_ref() != Some(&self.status)
    }

    /// Whether the object gets its first recommendation.
    pub fn is_first_recommendation(&self) -> bool {
        let had = decide::has_recommendation(self.autoscaler.object.status.as_ref());
        !had && decide::has_recommendation(Some(&self.status))
    }

    /// What has changed about the object's history.
    pub fn history_news(&self) -> Option<HistoryNews<'_>> {
        decide::history_news(self.autoscaler.object.status.as_ref(), &self.status)
    }

    /// What has changed about what the recommendation is held to.
    pub fn cap_news(&self) -> Option<CapNews<'_>> {
        cap_news(self.autoscaler.object.status.as_ref(), &self.status)
    }
}

impl State {
    /// Nothing is known yet.
    pub fn new(charge: Charge, config: Config) -> Result<Self, ConfigError> {
        Ok(Self {
            charge,
            fleet: Fleet::new(config)?,
            autoscalers: BTreeMap::new(),
            pods: BTreeMap::new(),
            gone: BTreeSet::new(),
            found_kills: FoundKills::default(),
            past: Past::default(),
            history: None,
            schedulable: None,
            unanswered: 0,
        })
    }

    /// How many histories of like containers there are.
    pub fn history_count(&self) -> usize {
        self.fleet.size().histories
    }

    /// Takes over the objects that this recommender is in charge of, and what their targets come down to. Gives whether
    /// there are new ones, whose history may be stored.
    pub fn load_autoscalers(&mut self, view: &View) -> bool {
        let name = &self.charge.recommender_name;
        let ours: BTreeMap<ObjectKey, &Arc<Autoscaler>> = view
            .autoscalers
            .iter()
            .filter(|autoscaler| autoscaler.object.spec.is_handled_by(name))
            .map(|autoscaler| (autoscaler.key.clone(), autoscaler))
            .collect();
        let gone: Vec<ObjectKey> = self.autoscalers.keys().filter(|key| !ours.contains_key(*key)).cloned().collect();
        for key in gone {
            self.forget_autoscaler(&key);
        }
        let mut has_new = false;
        for (key, autoscaler) in ours {
            has_new |= self.load_autoscaler(view, key, autoscaler);
        }
        has_new
    }

    fn load_autoscaler(&mut self, view: &View, key: ObjectKey, autoscaler: &Arc<Autoscaler>) -> bool {
        let old = self.autoscalers.get(&key);
        if old.is_some_and(|old| old.autoscaler.uid() != autoscaler.uid()) {
            self.forget_autoscaler(&key);
        }
        let old = self.autoscalers.get(&key);
        let same_target = old.is_some_and(|old| old.autoscaler.target() == autoscaler.target());
        let before = old.filter(|_| same_target).map(|old| old.target.clone());
        let target = target(resolve(view, &autoscaler.target()), before);
        let is_same = old.is_some_and(|old| old.target == target && Arc::ptr_eq(&old.autoscaler, autoscaler));
        if is_same {
            return false;
        }
        let refused_before = old.and_then(|old| old.refused_annotation.clone());
        let (policy, refused_sizing) = match sizing_policy(&autoscaler.object) {
            Ok(policy) => (policy, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let refused: Vec<String> = refused_sizing.into_iter().chain(refused_cap(&autoscaler.object)).collect();
        let refused_annotation = (!refused.is_empty()).then(|| refused.join("; "));
        if let Some(message) = refused_annotation.as_ref().filter(|message| refused_before.as_ref() != Some(*message)) {
            tracing::warn!(autoscaler = %key, message, "an annotation cannot be used; the default stands in");
        }
        self.fleet.apply_autoscaler(&id(&key), spec(autoscaler, &target, policy));
        let old = self.autoscalers.remove(&key);
        let is_new = old.is_none();
        let (pods_since, loaded) = old.map(|old| (old.pods_since, old.loaded)).unwrap_or_default();
        let autoscaler = Arc::clone(autoscaler);
        self.autoscalers.insert(key, Tracked { autoscaler, target, refused_annotation, pods_since, loaded });
        is_new
    }

    fn forget_autoscaler(&mut self, key: &ObjectKey) {
        self.fleet.delete_autoscaler(&id(key));
        self.autoscalers.remove(key);
    }

    /// Takes over pods that are new or changed, and notes which are gone. Gives what became of the kills of new ones.
    pub fn load_pods(&mut self, view: &View, now: Timestamp) -> KillCount {
        let selections = self.charge.memory_saver.then(|| Selections::of(selectors(&self.autoscalers)));
        let is_news = |pod: &&Arc<Pod>| match self.pods.get(&pod.key) {
            Some(known) => !Arc::ptr_eq(known, pod),
            None => selections.as_ref().is_none_or(|selections| selections.include(pod)),
        };
        let news: Vec<_> = view.pods.iter().filter(is_news).collect();
        let kills = news.into_iter().map(|pod| self.load_pod(pod, now)).sum();
        let gone = self.pods.keys().filter(|key| view.pods.get(key).is_none()).cloned();
        self.gone.extend(gone);
        for (key, tracked) in &mut self.autoscalers {
            let has_pods = self.fleet.pod_count(&id(key)).is_some_and(|pods| pods > 0);
            tracked.pods_since = if has_pods { tracked.pods_since.or(Some(now)) } else { None };
        }
        self.load_schedulable(view);
        kills
    }

    fn load_pod(&mut self, pod: &Arc<Pod>, now: Timestamp) -> KillCount {
        self.gone.remove(&pod.key);
        self.fleet.apply_pod(pod_spec(pod), now);
        let before = self.pods.insert(pod.key.clone(), Arc::clone(pod));
        if before.is_some_and(|before| before.uid == pod.uid) {
            KillCount::default()
        } else {
            self.find_kills(pod, now)
        }
    }

    /// A round has ended, in which the source of usage answered something, or nothing.
    pub fn source_read(&mut self, answered: bool) {
        self.unanswered = if answered { 0 } else { self.unanswered.saturating_add(1) };
    }

    /// Adds what a source of usage has read.
    pub fn add_usage(&mut self, usage: &[ContainerUsage], now: Timestamp) -> Ingested {
        self.begin_usage(usage);
        self.take_usage(usage, now, |_, _, _| ())
    }

    /// Takes notice of what a source of usage has read; it is added in portions after this.
    pub(crate) fn begin_usage(&mut self, usage: &[ContainerUsage]) {
        if let Some(first) = usage.iter().map(|usage| usage.sample.at).min() {
            self.past.measured(first);
        }
    }

    /// Adds a portion of what a source has read, and shows every sample that entered a history to `judge`.
    pub(crate) fn take_usage(
        &mut self,
        usage: &[ContainerUsage],
        now: Timestamp,
        judge: impl Fn(&Self, &ContainerUsage, Accepted),
    ) -> Ingested {
        let mut ingested = Ingested::default();
        for usage in usage {
            match self.fleet.add_sample(&usage.container, &usage.sample, now) {
                Ok(accepted) if accepted.cpu || accepted.memory => {
                    ingested.accepted += 1;
                    judge(self, usage, accepted);
                }
                Ok(_) => ingested.repeated += 1,
                Err(SampleError::UnknownContainer(_)) => ingested.unknown += 1,
                Err(SampleError::Future { .. }) => ingested.future += 1,
            }
        }
        ingested
    }

    /// Forgets the pods that are gone. Their kills must have been added before.
    pub fn delete_removed_pods(&mut self) {
        for key in std::mem::take(&mut self.gone) {
            self.fleet.delete_pod(&key.namespace, &key.name);
            self.pods.remove(&key);
            self.found_kills.forget(&key);
        }
    }

    /// Drops old history, at most once an hour; gives how many histories.
    pub fn collect_garbage(&mut self, now: Timestamp) -> usize {
        self.fleet.collect_garbage(now)
    }

    /// The status that each object should have. Objects whose target is not known yet are left out.
    pub fn decide(&self, now: Timestamp) -> Vec<Decision> {
        self.decide_portion(None, usize::MAX, now).decisions
    }

    /// The same for at most so many objects, those that come after this one.
    pub fn decide_portion(&self, after: Option<&ObjectKey>, most: usize, now: Timestamp) -> Portion {
        let mut portion = Portion::default();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, tracked) in self.autoscalers.range((from, Bound::Unbounded)).take(most) {
            portion.decisions.extend(self.decide_one(key, tracked, now));
            portion.last = Some(key.clone());
        }
        portion
    }

    /// The same for these objects.
    pub fn decide_these<'a>(&self, keys: impl IntoIterator<Item = &'a ObjectKey>, now: Timestamp) -> Vec<Decision> {
        let tracked = keys.into_iter().filter_map(|key| self.autoscalers.get_key_value(key));
        tracked.filter_map(|(key, tracked)| self.decide_one(key, tracked, now)).collect()
    }

    /// How the recommendation for one container comes about; absent where none is decided.
    pub fn explain(&self, key: &ObjectKey, container: &str, now: Timestamp) -> Option<Explained> {
        let tracked = self.autoscalers.get(key)?;
        let decision = self.decide_one(key, tracked, now)?;
        let mut explanation = self.fleet.explain(&id(key), container)?;
        self.explain_schedulable(key, tracked, container, &mut explanation);
        let published = Recommendation::from(decision.status.recommendation.unwrap_or_default());
        let published = published.containers.into_iter().find(|published| published.container_name == container);
        let nothing = || ContainerRecommendation { container_name: container.to_owned(), ..Default::default() };
        Some(Explained {
            uid: tracked.autoscaler.uid().to_owned(),
            published: published.unwrap_or_else(nothing),
            is_measured: self.fleet.is_measured(&id(key)),
            explanation,
        })
    }

    fn decide_one(&self, key: &ObjectKey, tracked: &Tracked, now: Timestamp) -> Option<Decision> {
        let Target::Known { selector, unsupported } = &tracked.target else { return None };
        let id = id(key);
        let pods = self.fleet.pod_count(&id).unwrap_or(0);
        let finding = Finding {
            object: &tracked.autoscaler.object,
            unsupported: unsupported.as_deref(),
            refused_annotation: tracked.refused_annotation.as_deref(),
            pods,
            recommendation: self.recommend(&id, &tracked.autoscaler),
            is_measured: self.fleet.is_measured(&id),
            history: self.history_of(&key.namespace, selector, now),
            may_be_measured_soon: tracked.pods_since.is_some_and(|since| now < since + self.charge.patience),
            source_is_stale: self.unanswered >= MOST_UNANSWERED,
        };
        let mut status = decide::status(finding, now);
        self.hold(tracked, &mut status, now);
        Some(Decision { autoscaler: Arc::clone(&tracked.autoscaler), status, pods, unsupported: unsupported.is_some() })
    }

    /// What usage says, but of a resource without any what was published; under a sizing policy of the object's own, not less than what was published while little is known.
    fn recommend(&self, id: &AutoscalerId, autoscaler: &Autoscaler) -> Recommendation {
        let mut recommendation = self.fleet.recommend(id).unwrap_or_default();
        let status = autoscaler.object.status.as_ref();
        let published = status.and_then(|status| status.recommendation.clone()).unwrap_or_default().into();
        self.fleet.keep_unmeasured(id, &mut recommendation, &published);
        if self.fleet.has_own_policy(id) {
            self.fleet.keep_published(id, &mut recommendation, &published);
        }
        recommendation
    }
}

/// The selectors that are known, with their namespaces.
fn selectors(autoscalers: &BTreeMap<ObjectKey, Tracked>) -> impl Iterator<Item = (&str, &Selector)> {
    autoscalers.iter().filter_map(|(key, tracked)| match &tracked.target {
        Target::Known { selector, .. } => Some((key.namespace.as_str(), selector)),
        Target::Unknown => None,
    })
}

/// What a target comes down to, given what it came down to before. A failure that may pass leaves the pods as they were.
fn target(resolution: Resolution, before: Option<Target>) -> Target {
    match resolution {
        Resolution::Pods(selector) => Target::Known { selector, unsupported: None },
        Resolution::Waiting(_) => before.unwrap_or(Target::Unknown),
        Resolution::Unsupported { message, transient } => {
            let kept = match before {
                Some(Target::Known { selector, .. }) if transient => selector,
                _ => Selector::nothing(),
            };
            Target::Known { selector: kept, unsupported: Some(message) }
        }
    }
}

fn id(key: &ObjectKey) -> AutoscalerId {
    AutoscalerId { namespace: key.namespace.clone(), name: key.name.clone() }
}

fn spec(autoscaler: &Autoscaler, target: &Target, sizing: Option<SizingPolicy>) -> AutoscalerSpec {
    let (selector, target_exists) = match target {
        Target::Known { selector, unsupported } => (selector.clone(), unsupported.is_none()),
        Target::Unknown => (Selector::nothing(), true),
    };
    AutoscalerSpec {
        selector,
        policies: policies(&autoscaler.object),
        integer_cpu: integer_cpu(&autoscaler.object),
        target_exists,
        sizing: sizing.map(Arc::new),
    }
}

fn pod_spec(pod: &Pod) -> PodSpec {
    PodSpec {
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        labels: pod.labels.clone(),
        phase: match pod.phase {
            Phase::Pending => sizing::Phase::Pending,
            Phase::Running => sizing::Phase::Running,
            Phase::Succeeded => sizing::Phase::Succeeded,
            Phase::Failed => sizing::Phase::Failed,
            Phase::Unknown => sizing::Phase::Unknown,
        },
        containers: pod.containers.iter().map(|container| container.name.clone()).collect(),
        init_containers: pod.init_containers.clone(),
    }
}
