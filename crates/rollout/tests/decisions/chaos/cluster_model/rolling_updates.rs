//! Deployments: their controller, which replaces pods with a surge of one, and rolling updates by
//! the updater and by others.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use rand::Rng as _;
use rand::rngs::StdRng;
use rollout::{ActionOutcome, RESIZED_AT, ROLLING_UPDATE_INTERVAL, may_roll};
use serde_json::json;
use view::{Controller, ObjectKey, WellKnown};

use super::{App, ClockReading, ClusterModel, Event};

/// The most pods beyond the wanted ones.
const SURGE: i64 = 1;

#[derive(Debug, Default)]
pub(super) struct DeploymentModel {
    /// The number of the newest `ReplicaSet`.
    pub(super) revision: usize,
    /// The last revision that the controller has seen.
    observed: usize,
    /// The wanted pods of each `ReplicaSet`.
    sets: BTreeMap<usize, i64>,
    is_paused: bool,
    max_unavailable: i64,
    /// The time of the last rolling update by the updater.
    rolled_at: Option<ClockReading>,
    /// The least number of pods that must serve until it is complete.
    floor: Option<i64>,
    /// Pods that others took since then.
    pub(super) lost: i64,
}

impl DeploymentModel {
    pub(super) fn new(replicas: i64, rng: &mut StdRng) -> Self {
        Self {
            sets: BTreeMap::from([(0, replicas)]),
            max_unavailable: rng.random_range(0..=i64::from(replicas > 2)),
            ..Self::default()
        }
    }

    /// A paused Deployment goes on.
    pub(super) fn resume(&mut self) {
        self.is_paused = false;
    }
}

pub(super) fn set_name(app: &str, revision: usize) -> String {
    match revision {
        0 => app.to_owned(),
        _ => format!("{app}-r{revision}"),
    }
}

impl ClusterModel {
    /// The pods of a `ReplicaSet` that are not on their way out.
    fn pods_of_set(&self, app: usize, revision: usize) -> impl Iterator<Item = (&String, bool)> {
        let pods = self.pods.iter().filter(move |(_, pod)| {
            pod.app == app && pod.revision == revision && !pod.is_terminating
        });
        pods.map(|(name, pod)| (name, pod.serves()))
    }

    /// The controllers of Deployments and `ReplicaSet`s do some of their work.
    pub(super) fn sync_deployment(&mut self, app: usize, rng: &mut StdRng) {
        let sets = self.apps[app].deployment.sets.clone();
        for (revision, wanted) in sets {
            while (self.pods_of_set(app, revision).count() as i64) < wanted && rng.random_bool(0.7)
            {
                if self.apps[app].constraints.is_quota_full {
                    break;
                }
                let name = self.make_pod(app, rng);
                self.pods.get_mut(&name).expect("made").revision = revision;
                self.publish_pod(&name);
            }
        }
        if rng.random_bool(0.5) && !self.apps[app].deployment.is_paused {
            self.roll_on(app);
        }
        let serving = self.serving(app);
        let is_complete = self.is_complete(app);
        let deployment = &mut self.apps[app].deployment;
        if let Some(floor) = deployment.floor {
            let lost = deployment.lost;
            assert!(
                serving + lost >= floor,
                "{serving} serve during a rolling update, {lost} were lost to others, {floor} must"
            );
        }
        if is_complete {
            deployment.floor = None;
        }
    }

    /// One step of a rollout: one more new pod, or one old pod less.
    fn roll_on(&mut self, app: usize) {
        let (wanted, serving) = (self.apps[app].replicas, self.serving(app));
        let deployment = &mut self.apps[app].deployment;
        let revision = deployment.revision;
        deployment.observed = revision;
        let total: i64 = deployment.sets.values().sum();
        let new = deployment.sets.entry(revision).or_default();
        if *new < wanted && total < wanted + SURGE {
            *new += 1;
            return self.publish_controller(app);
        }
        let least = wanted - deployment.max_unavailable;
        let old: Vec<usize> = deployment
            .sets
            .keys()
            .copied()
            .filter(|set| *set != revision)
            .collect();
        for set in old {
            let mut pods: Vec<(String, bool)> = self
                .pods_of_set(app, set)
                .map(|(name, serves)| (name.clone(), serves))
                .collect();
            pods.sort_by_key(|(_, serves)| *serves);
            let wanted = self.apps[app].deployment.sets[&set];
            if wanted > pods.len() as i64 {
                // A lost pod is not replaced.
                self.apps[app].deployment.sets.insert(set, wanted - 1);
            } else if let Some((name, serves)) = pods.first() {
                if *serves && serving <= least {
                    continue;
                }
                self.apps[app].deployment.sets.insert(set, wanted - 1);
                self.terminate(name);
            } else {
                self.apps[app].deployment.sets.remove(&set);
                continue;
            }
            return self.publish_controller(app);
        }
    }

    fn is_complete(&self, app: usize) -> bool {
        let deployment = &self.apps[app].deployment;
        let wanted = self.apps[app].replicas;
        let new = self.pods_of_set(app, deployment.revision);
        let is_one = deployment
            .sets
            .iter()
            .all(|(set, pods)| *set == deployment.revision || *pods == 0);
        deployment.observed == deployment.revision
            && is_one
            && new.filter(|(_, serves)| *serves).count() as i64 == wanted
    }

    fn begin_rollout(&mut self, app: usize) {
        let deployment = &mut self.apps[app].deployment;
        deployment.revision += 1;
        deployment.sets.insert(deployment.revision, 0);
        self.publish_controller(app);
    }

    /// The updater reads a Deployment, and changes its template if it may.
    pub(super) fn roll(&mut self, app: usize) -> ActionOutcome {
        let (now, serving) = (self.now, self.serving(app));
        let of_newest = self
            .pods_of_set(app, self.apps[app].deployment.revision)
            .count();
        let present = self
            .pods
            .values()
            .filter(|pod| pod.app == app && !pod.is_terminating)
            .count();
        let App {
            replicas,
            deployment,
            ..
        } = &self.apps[app];
        let resized_at = deployment.rolled_at.map(|at| at.wall.to_string());
        let object = json!({
            "metadata": {"generation": deployment.revision},
            "spec": {
                "replicas": replicas, "selector": {}, "paused": deployment.is_paused,
                "template": {"metadata": {"annotations": resized_at.map(|at| BTreeMap::from([(RESIZED_AT, at)]))}},
                "strategy": {"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": deployment.max_unavailable}},
            },
            "status": {
                "observedGeneration": deployment.observed, "replicas": present,
                "updatedReplicas": of_newest, "availableReplicas": serving,
            },
        });
        let object: Deployment = serde_json::from_value(object).expect("a Deployment");
        if let Err(refusal) = may_roll(&object, false, now.wall) {
            self.count.refused_rolls += 1;
            return ActionOutcome::RollingUpdateRefused(refusal);
        }
        let is_calm = !deployment.is_paused && self.is_complete(app);
        assert!(is_calm, "a rollout is under way or paused");
        if let Some(before) = deployment.rolled_at {
            let waited = now.monotonic.saturating_sub(before.monotonic);
            let by_clock = now.wall.duration_since(before.wall);
            let interval = SignedDuration::try_from(ROLLING_UPDATE_INTERVAL).expect("short");
            assert!(
                waited >= ROLLING_UPDATE_INTERVAL || by_clock >= interval,
                "{waited:?} after another"
            );
        }
        self.count.rolls += 1;
        let floor = serving - deployment.max_unavailable;
        self.begin_rollout(app);
        let deployment = &mut self.apps[app].deployment;
        (deployment.rolled_at, deployment.floor, deployment.lost) = (Some(now), Some(floor), 0);
        ActionOutcome::Accepted { generation: None }
    }

    /// Others pause Deployments, and change their templates.
    pub(super) fn trouble_deployment(&mut self, app: usize, rng: &mut StdRng) {
        let deployment = &mut self.apps[app].deployment;
        let likely = |is_on: bool| if is_on { 0.2 } else { 0.03 };
        deployment.is_paused ^= rng.random_bool(likely(deployment.is_paused));
        if rng.random_bool(0.01) && deployment.floor.is_none() {
            self.begin_rollout(app);
        }
    }

    /// The clock is right again, and the time until the next rolling update is allowed passes.
    pub(in crate::chaos) fn wait_for_rolling_update(&mut self) {
        self.now.monotonic += ROLLING_UPDATE_INTERVAL;
        let rolled = self.apps.iter().filter_map(|app| app.deployment.rolled_at);
        let latest = rolled.map(|at| at.wall).max();
        self.now.wall =
            latest.map_or(self.now.wall, |at| at.max(self.now.wall)) + ROLLING_UPDATE_INTERVAL;
    }

    pub(super) fn publish_sets(&mut self, app: usize) {
        let name = &self.apps[app].name;
        let key = ObjectKey::new("shop", name);
        let known = self.fixture.view.controller(WellKnown::ReplicaSet, &key);
        let known = known.expect("it is there").as_ref().clone();
        for (revision, pods) in &self.apps[app].deployment.sets {
            let controller = Controller {
                key: ObjectKey::new("shop", set_name(name, *revision)),
                replicas: Some(*pods as i32),
                ..known.clone()
            };
            self.pod_events.push(Event::Controller(
                WellKnown::ReplicaSet,
                Arc::new(controller),
            ));
        }
    }
}
