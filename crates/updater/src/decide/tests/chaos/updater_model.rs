//! An updater as `run` has it: a view that follows two watches, requests under way, and decisions in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::View;
use model::Recommendation;
use rand::Rng as _;
use rand::rngs::StdRng;

use super::super::super::act::{Act, Outcome};
use super::super::super::settings::Settings;
use super::super::super::{Halt, Memory, Scene, decide};
use super::cluster_model::{ClusterModel, Event};

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Served,
    /// It is done, but the answer is lost.
    DoneUnheard,
    /// It is not done, and the answer says nothing.
    LostUnheard,
    /// Too many requests, whoever it is for.
    TooMany,
}

pub(super) struct UpdaterModel {
    memory: Memory,
    pub(super) settings: Settings,
    view: View,
    heard: BTreeMap<String, Arc<Recommendation>>,
    seen_pods: usize,
    seen_budgets: usize,
    requests: Vec<(Act, Fate, usize)>,
    /// Until which step nothing is heard, and whether that is known.
    cut: (usize, bool),
    /// Until which step the API server does nothing.
    paused: usize,
}

impl UpdaterModel {
    /// A replica that takes the lead lists everything anew before it decides.
    pub(super) fn new(cluster: &ClusterModel) -> Self {
        let settings = Settings { eviction_tolerance: cluster.tolerance, ..Settings::default() };
        let view = View::default();
        let heard = cluster.recommendations();
        let mut model = Self {
            memory: Memory::default(),
            settings,
            view,
            heard,
            seen_pods: 0,
            seen_budgets: 0,
            requests: Vec::new(),
            cut: (0, false),
            paused: 0,
        };
        for autoscaler in cluster.world.view.autoscalers.iter() {
            model.view.autoscalers.apply(Arc::clone(autoscaler));
        }
        for kind in [cluster::WellKnown::Deployment, cluster::WellKnown::ReplicaSet] {
            for controller in cluster.world.view.controllers(kind) {
                model.view.controllers_mut(kind).apply(Arc::clone(controller));
            }
        }
        model.see(cluster, usize::MAX, usize::MAX);
        model
    }

    /// Hears so many more events of each watch.
    fn see(&mut self, cluster: &ClusterModel, pods: usize, budgets: usize) {
        let all = cluster.pod_events.iter().skip(self.seen_pods).take(pods);
        let budgets = cluster.budget_events.iter().skip(self.seen_budgets).take(budgets);
        let (mut seen_pods, mut seen_budgets) = (0, 0);
        for event in all.inspect(|_| seen_pods += 1).chain(budgets.inspect(|_| seen_budgets += 1)) {
            match event {
                Event::Pod(pod) => drop(self.view.pods.apply(Arc::clone(pod))),
                Event::Gone(key) => drop(self.view.pods.delete(key)),
                Event::Budget(budget) => drop(self.view.disruption_budgets.apply(Arc::clone(budget))),
            }
        }
        self.seen_pods += seen_pods;
        self.seen_budgets += seen_budgets;
    }

    pub(super) fn step(&mut self, cluster: &mut ClusterModel, rng: &mut StdRng, step: usize, trouble: bool) {
        if trouble && rng.random_bool(0.03) {
            self.cut = (step + rng.random_range(1..20), rng.random_bool(0.3));
        }
        if trouble && rng.random_bool(0.02) {
            self.paused = step + rng.random_range(1..10);
        }
        let (cut_until, is_known) = self.cut;
        let is_cut = trouble && step < cut_until;
        if !is_cut {
            let most = if trouble { 6 } else { usize::MAX };
            let (pods, budgets) = (rng.random_range(0..=most), rng.random_range(0..=most));
            self.see(cluster, pods, budgets);
            self.heard = cluster.recommendations();
        }
        if !trouble || step >= self.paused {
            self.answer(cluster, step);
        }
        let frozen = BTreeSet::new();
        let halt = (is_cut && is_known).then_some(Halt::ViewStale);
        let scene = Scene { view: &self.view, recommendations: &self.heard, halt, frozen: &frozen };
        let before = self.memory.clone();
        let plan = decide(&scene, &mut self.memory, &self.settings, cluster.now);
        for act in plan.acts {
            cluster.check_decided(&act, before.pending(&act.pod_uid).is_some());
            if trouble && rng.random_bool(0.3) {
                // It has to wait for the rate limit, and the plan is dropped.
                continue;
            }
            self.memory.begin(&act, cluster.now);
            let fate = match rng.random_range(0..20) {
                0 | 1 if trouble => Fate::DoneUnheard,
                2 | 3 if trouble => Fate::LostUnheard,
                4 | 5 if trouble => Fate::TooMany,
                _ => Fate::Served,
            };
            let at = if trouble { step + rng.random_range(0..3) } else { step };
            self.requests.push((act, fate, at));
        }
        if !trouble || step >= self.paused {
            self.answer(cluster, step);
        }
    }

    /// The API server answers what is due.
    fn answer(&mut self, cluster: &mut ClusterModel, step: usize) {
        let (due, later) = std::mem::take(&mut self.requests).into_iter().partition(|(.., at)| *at <= step);
        self.requests = later;
        let due: Vec<(Act, Fate, usize)> = due;
        for (act, fate, _) in due {
            let outcome = match fate {
                Fate::Served => cluster.execute(&act),
                Fate::DoneUnheard => {
                    cluster.execute(&act);
                    Outcome::Unknown
                }
                Fate::LostUnheard => Outcome::Unknown,
                Fate::TooMany => Outcome::TooMany { retry_after: None },
            };
            cluster.count.refused += u64::from(fate != Fate::Served);
            self.memory.end(&act, &outcome, cluster.now);
        }
    }

    /// Ends at once. What it asked for is done, or is not, before the next leader begins.
    pub(super) fn die(&mut self, cluster: &mut ClusterModel, rng: &mut StdRng) {
        for (act, ..) in std::mem::take(&mut self.requests) {
            if rng.random_bool(0.5) {
                cluster.execute(&act);
            }
        }
    }
}
