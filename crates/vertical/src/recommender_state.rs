//! State of one recommender: follows the view, feeds a [`ClusterState`], and decides the status of
//! each VPA object. The steps are upstream's (`LoadVPAs`, `LoadPods`, `LoadMetrics`, `UpdateVPAs`,
//! `GarbageCollect`).

mod clock;
mod decision;
mod history;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::applied::{LastReport, Report};
use api::limit_mode::limit_modes;
use api::vpa::NodeGroup;
use jiff::Timestamp;
use model::{Labels, Requirement, Selector, Workload};
use sizing::{Config, ConfigError, MethodSettings, SizingAnnotations};
use view::target::{Resolution, resolve_vpa, topmost_of};
use view::{HpaTargets, ObjectKey, Pod, View, Vpa, WellKnown};

use crate::backfill::BackfillProgress;
use crate::checkpoint::stored_history::StoredHistory;
use crate::hpa_conflict;
use crate::resource_policy::{container_policies, integer_cpu, sizing_policy, vpa_method};
use crate::schedulable::{SchedulableCaps, Settings, refused_cap};
use crate::{ClusterState, PodSpec, VpaSpec};
use clock::ClockCheck;

pub use decision::{Batch, Decision};
pub use history::LoadedCheckpoints;
pub use usage::{Ingested, JudgedUsage, OomKillCounts, Recommended};

#[derive(Debug, Clone)]
pub struct RecommenderConfig {
    pub recommender_name: String,
    /// Whether pods that no object selects are ignored.
    pub memory_saver: bool,
    /// Whether native sidecars are sized like containers.
    pub native_sidecars: bool,
    /// Interval at which usage is read, and the time that usage of new pods may take to arrive.
    pub usage_interval: Duration,
}

/// Maximum number of HPAs of a workload that count. Kubernetes acts on none where there are two.
const MAX_HPAS: usize = 10;
/// Maximum length of the errors in annotations that are kept and shown, in characters.
const MAX_REFUSED_CHARACTERS: usize = 400;

#[derive(Debug)]
pub struct RecommenderState {
    config: RecommenderConfig,
    cluster: ClusterState,
    vpas: BTreeMap<ObjectKey, Tracked>,
    /// Deleted pods, whose last OOM kills may still arrive.
    gone: BTreeSet<ObjectKey>,
    /// Container and time of the OOM kills found in the status of each pod when it was loaded. Few
    /// pods have any.
    found_oom_kills: BTreeMap<ObjectKey, Vec<(String, Timestamp)>>,
    stored_history: StoredHistory,
    clock: ClockCheck,
    /// Progress of the backfill; `None` without one.
    history: Option<BackfillProgress>,
    /// Caps to what can be scheduled; `None` without caps.
    schedulable: Option<SchedulableCaps>,
    /// Consecutive rounds in which the source of usage did not answer; `None` before the first
    /// round.
    unanswered: Option<u32>,
}

/// An object that this recommender handles.
#[derive(Debug)]
struct Tracked {
    vpa: Arc<Vpa>,
    /// `None` before it is resolved; nothing is decided then.
    target: Option<Target>,
    /// HPAs that scale its workload.
    hpas: Vec<Arc<HpaTargets>>,
    /// Error in an annotation, if one is invalid. The default applies then.
    refused_annotation: Option<String>,
    /// The last valid sizing method, and names of valid annotations without effect.
    sizing: SizingAnnotations,
    rounds: Rounds,
}

/// State of an object from round to round. It ends with the object.
#[derive(Debug, Default)]
struct Rounds {
    /// Time since which pods match.
    pods_since: Option<Timestamp>,
    /// Containers whose checkpoint was loaded or refused.
    loaded: BTreeSet<String>,
    /// Containers whose history for the sizing method was loaded or refused.
    loaded_histories: BTreeSet<String>,
    /// Containers whose checkpoint is dated in the future, until usage confirms the clock.
    deferred: BTreeSet<String>,
    last_report: Option<LastReport>,
}

impl Tracked {
    /// The selector of its pods; `None` before its target is resolved.
    fn selector(&self) -> Option<&Selector> {
        Some(&self.target.as_ref()?.selector)
    }
}

impl RecommenderState {
    pub fn new(config: RecommenderConfig, sizing: Config) -> Result<Self, ConfigError> {
        Ok(Self {
            config,
            cluster: ClusterState::new(sizing)?,
            vpas: BTreeMap::new(),
            gone: BTreeSet::new(),
            found_oom_kills: BTreeMap::new(),
            stored_history: StoredHistory::default(),
            clock: ClockCheck::default(),
            history: None,
            schedulable: None,
            unanswered: None,
        })
    }

    pub fn cap_to_schedulable(&mut self, settings: Settings) {
        self.schedulable = Some(SchedulableCaps::new(settings));
    }

    pub fn history_count(&self) -> usize {
        self.cluster.history_count()
    }

    /// Loads the objects of this recommender and resolves their targets. Returns whether some are new or
    /// have another sizing method: they may have checkpoints.
    pub fn load_vpas(&mut self, view: &View) -> bool {
        let name = self.config.recommender_name.clone();
        let is_ours = |vpa: &&Arc<Vpa>| vpa.object.spec.is_handled_by(&name);
        let is_gone = |key: &&ObjectKey| view.vpas.get(*key).is_none_or(|vpa| !is_ours(&vpa));
        let gone: Vec<ObjectKey> = self.vpas.keys().filter(is_gone).cloned().collect();
        for key in gone {
            self.forget_vpa(&key);
        }
        let mut may_load = false;
        for vpa in view.vpas.iter().filter(is_ours) {
            may_load |= self.load_vpa(view, vpa);
        }
        may_load
    }

    fn load_vpa(&mut self, view: &View, vpa: &Arc<Vpa>) -> bool {
        let key = &vpa.key;
        let old = self.vpas.get(key);
        if old.is_some_and(|old| old.vpa.uid() != vpa.uid()) {
            self.forget_vpa(key);
        }
        let old = self.vpas.get(key);
        let before = old.filter(|old| selects_by(&old.vpa) == selects_by(vpa));
        let before = before.and_then(|old| old.target.as_ref());
        let target = target(resolve_vpa(view, vpa), before);
        let hpas = view.hpas_of(vpa.points_at()).take(MAX_HPAS).cloned();
        let hpas: Vec<_> = hpas.collect();
        let is_same = old.is_some_and(|old| {
            old.target == target && Arc::ptr_eq(&old.vpa, vpa) && old.hpas == hpas
        });
        if is_same {
            return false;
        }
        let refused_before = old.and_then(|old| old.refused_annotation.clone());
        let (sizing, refused_sizing) = match sizing_policy(&vpa.object) {
            Ok(sizing) => (sizing, None),
            // What a typo made invalid, or an older version refuses, was valid before.
            Err(error) => {
                let last = old.map(|old| old.sizing.clone());
                (last.unwrap_or_default(), Some(error.to_string()))
            }
        };
        let refused: Vec<String> = refused_sizing
            .into_iter()
            .chain(limit_modes(&vpa.object).err())
            .chain(refused_cap(&vpa.object))
            .chain(hpa_conflict::mode(&vpa.object).1)
            .chain(NodeGroup::of(&vpa.object).and_then(Result::err))
            .collect();
        let refused = refused.join("; ");
        let refused: String = refused.chars().take(MAX_REFUSED_CHARACTERS).collect();
        let refused_annotation = Some(refused).filter(|refused| !refused.is_empty());
        if let Some(message) = refused_annotation
            .as_ref()
            .filter(|message| refused_before.as_ref() != Some(*message))
        {
            tracing::warn!(autoscaler = %key, message, "invalid annotation: not used");
        }
        self.cluster
            .apply_vpa(key, spec(vpa, target.as_ref(), sizing.method.clone()));
        let old = self.vpas.remove(key);
        let has_other_method = old
            .as_ref()
            .is_none_or(|old| old.sizing.method != sizing.method);
        let mut rounds = old.map(|old| old.rounds).unwrap_or_default();
        if has_other_method {
            rounds.loaded_histories.clear();
        }
        let tracked = Tracked {
            vpa: Arc::clone(vpa),
            target,
            hpas,
            refused_annotation,
            sizing,
            rounds,
        };
        self.vpas.insert(key.clone(), tracked);
        has_other_method
    }

    fn forget_vpa(&mut self, key: &ObjectKey) {
        self.cluster.delete_vpa(key);
        self.vpas.remove(key);
    }

    /// Loads new and changed pods, and marks deleted ones. Returns the OOM kills found in new pods.
    pub fn load_pods(&mut self, view: &View, now: Timestamp) -> OomKillCounts {
        let is_news = |pod: &&Arc<Pod>| match self.cluster.pod(&pod.key) {
            Some(known) => !Arc::ptr_eq(known, pod),
            None => self.is_wanted(pod),
        };
        let news: Vec<_> = view.pods.iter().filter(is_news).collect();
        let mut kills = OomKillCounts::default();
        for pod in news {
            self.load_pod(pod, view, now, &mut kills);
        }
        let known = self.cluster.pods().map(|pod| &pod.key);
        let gone = known.filter(|key| view.pods.get(*key).is_none());
        self.gone.extend(gone.cloned());
        for (key, tracked) in &mut self.vpas {
            let has_pods = self.cluster.pod_count(key).is_some_and(|pods| pods > 0);
            // A clock that was ahead must not make new pods wait for it.
            let since = tracked.rounds.pods_since;
            let since = since.map_or(now, |since| since.min(now));
            tracked.rounds.pods_since = has_pods.then_some(since);
        }
        if let Some(schedulable) = &mut self.schedulable {
            let tracked = self.vpas.values();
            let known = tracked.filter_map(|tracked| Some((&tracked.vpa, tracked.selector()?)));
            schedulable.load(view, known);
        }
        kills
    }

    fn load_pod(&mut self, pod: &Arc<Pod>, view: &View, now: Timestamp, kills: &mut OomKillCounts) {
        self.gone.remove(&pod.key);
        let before = self.cluster.pod(&pod.key);
        let is_known = before.is_some_and(|before| before.uid == pod.uid);
        self.cluster
            .apply_pod(pod_spec(pod, view, self.config.native_sidecars), now);
        if !is_known {
            self.find_oom_kills(pod, now, kills);
        }
    }

    /// Whether a pod is recorded: with the memory saver, only if an object may select it.
    fn is_wanted(&self, pod: &Pod) -> bool {
        let namespace = pod.key.namespace.as_str();
        let labels = || with_controller(&pod.labels, "");
        !self.config.memory_saver || self.cluster.selects(namespace, &labels())
    }

    /// Takes in reports of the updater. Returns whether they change a condition. Reports about
    /// objects that this recommender does not handle are ignored.
    pub fn reported(&mut self, reports: impl IntoIterator<Item = Report>, now: Timestamp) -> bool {
        let mut is_change = false;
        for report in reports {
            let tracked = self.vpas.get_mut(&report.key);
            let Some(tracked) = tracked.filter(|tracked| tracked.vpa.uid() == report.uid) else {
                continue;
            };
            let last = &mut tracked.rounds.last_report;
            is_change |= last.as_ref().map(|last| &last.report) != Some(&report);
            *last = Some(LastReport {
                report,
                received_at: now,
            });
        }
        is_change
    }

    /// Records whether the source of usage answered in a round.
    pub fn source_read(&mut self, answered: bool) {
        let before = self.unanswered.unwrap_or(0);
        self.unanswered = Some(if answered {
            0
        } else {
            before.saturating_add(1)
        });
    }

    /// Removes deleted pods, and ends the runs of pods that are gone or have finished. Their OOM
    /// kills must have been added before.
    pub fn delete_removed_pods(&mut self) {
        for key in std::mem::take(&mut self.gone) {
            self.cluster.delete_pod(&key.namespace, &key.name);
            self.found_oom_kills.remove(&key);
        }
        self.cluster.end_runs();
    }

    /// Compares both clocks at the end of a round: a wall clock that jumps is not trusted for an
    /// hour. `steady` is a reading of the monotonic clock, from any origin.
    pub fn round_ended(&mut self, now: Timestamp, steady: Duration) {
        self.clock.round_ended(now, steady);
    }

    /// Drops expired and unused histories, at most once an hour. Returns the number of dropped
    /// histories. None expires while the clock is not trusted.
    pub fn collect_garbage(&mut self, now: Timestamp) -> usize {
        self.cluster
            .collect_garbage(now, self.clock.may_expire(now))
    }
}

/// Resolved target: the selector of the pods, and the problem of the target, if any.
#[derive(Debug, Clone, PartialEq)]
struct Target {
    selector: Selector,
    unsupported: Option<String>,
}

/// The parts of an object that its pods depend on.
fn selects_by(vpa: &Vpa) -> (Workload<'_>, Option<&str>) {
    (vpa.points_at(), NodeGroup::annotation(&vpa.object))
}

/// Resolves a target; `None` while nothing is known. After a transient failure the pods stay as before.
fn target(resolution: Resolution, before: Option<&Target>) -> Option<Target> {
    let (selector, unsupported) = match resolution {
        Resolution::Waiting(_) => return before.cloned(),
        Resolution::Pods(selector) => (selector, None),
        Resolution::Unsupported { message, transient } => {
            let kept = before.filter(|_| transient);
            let kept = kept.map(|before| before.selector.clone());
            (kept.unwrap_or_else(Selector::nothing), Some(message))
        }
    };
    Some(Target {
        selector,
        unsupported,
    })
}

/// Label of pods in the cluster state alone, with the topmost controller: pods of others may have all
/// labels that a target selects. No label of Kubernetes has an empty key.
const CONTROLLER: &str = "";

fn controller(Workload { kind, name, .. }: Workload<'_>) -> String {
    format!("{kind}/{name}")
}

fn labels(pod: &Pod, view: &View) -> Labels {
    let top = topmost_of(view, pod);
    with_controller(&pod.labels, &top.map(controller).unwrap_or_default())
}

/// Labels with that of the topmost controller; empty if it is not known, as of deleted pods.
pub(crate) fn with_controller(labels: &Labels, controller: &str) -> Labels {
    labels.iter().chain([(CONTROLLER, controller)]).collect()
}

fn spec(vpa: &Vpa, target: Option<&Target>, sizing: Option<MethodSettings>) -> VpaSpec {
    let target_exists = target.is_none_or(|target| target.unsupported.is_none());
    let selector = target.map_or_else(Selector::nothing, |target| target.selector.clone());
    let workload = vpa.points_at();
    // Other kinds may select pods that they do not own.
    let selector = match WellKnown::of(workload.api_version, workload.kind) {
        Some(_) => selector.and(Requirement::In(
            CONTROLLER.to_owned(),
            [String::new(), controller(workload)].into(),
        )),
        None => selector,
    };
    VpaSpec {
        selector,
        policies: container_policies(&vpa.object),
        integer_cpu: integer_cpu(&vpa.object),
        target_exists,
        vpa_method: vpa_method(&vpa.object),
        sizing: sizing.map(Arc::new),
    }
}

pub(crate) fn container_names(pod: &Pod, native_sidecars: bool) -> (Vec<String>, Vec<String>) {
    let is_sized =
        |name: &String| native_sidecars && pod.sidecars.iter().any(|sidecar| sidecar.name == *name);
    let (sidecars, init_containers): (Vec<String>, _) =
        pod.init_containers.iter().cloned().partition(is_sized);
    let containers = pod
        .containers
        .iter()
        .map(|container| container.name.clone());
    (containers.chain(sidecars).collect(), init_containers)
}

fn pod_spec(pod: &Arc<Pod>, view: &View, native_sidecars: bool) -> PodSpec {
    let (containers, init_containers) = container_names(pod, native_sidecars);
    PodSpec {
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        labels: labels(pod, view),
        phase: pod.phase,
        containers,
        init_containers,
        object: Some(Arc::clone(pod)),
    }
}
