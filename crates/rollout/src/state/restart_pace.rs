//! Pace of restarts: the number of pods that may be evicted, or whose containers may restart, in a
//! minute, in each namespace and in the cluster.
//!
//! `limit = max(1 % of the pods, floor) * 2^doublings`, with a floor of 5 pods in a namespace and of
//! 20 in the cluster. A minute with restarts doubles the limit if at least half of the pods created
//! within ten minutes, or missing, are ready, and halves it if more than a tenth of them fail, in a
//! namespace down to an eighth and to one pod. Ten minutes without a restart begin anew. OOM kills,
//! the end of startup boosts and resizes without a restart have no limit. Namespaces take turns, and
//! one in which pods fail never slows the others down: the limit of the cluster doubles while any
//! namespace is well.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use view::interleave_namespaces;

use crate::action::{Action, ActionReason};
use crate::clock::ClockReading;
use crate::limits::disruption_limit::Disruption;
use crate::plan::{Plan, PodCounts, RecentPods};
use crate::skip::{Skip, SkipReason};

const PERIOD: Duration = Duration::from_mins(1);
/// The time without a restart after which the pace begins anew.
const IDLE: Duration = Duration::from_mins(10);
const NAMESPACE_FLOOR: usize = 5;
const CLUSTER_FLOOR: usize = 20;
/// The least doublings of a namespace, an eighth of the limit at the start.
const LEAST_DOUBLINGS: i32 = -3;
/// The most doublings: 655 times all pods.
const MOST_DOUBLINGS: i32 = 16;

/// The paces of the cluster and of the namespaces with restarts within the last ten minutes.
#[derive(Debug, Clone, Default)]
pub(crate) struct RestartPaces {
    cluster: RestartPace,
    namespaces: HashMap<String, RestartPace>,
}

/// The pace of one namespace, or of all. Times are of the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
struct RestartPace {
    since: Duration,
    /// The restarts that were begun in the period.
    begun: usize,
    doublings: i32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    controlled: usize,
    recent: RecentPods,
    missing: usize,
}

impl RestartPace {
    /// The restarts that are left in the period, of this number of pods.
    fn left(self, pods: usize, floor: usize) -> usize {
        let base = pods.div_ceil(100).max(floor);
        let limit = if self.doublings < 0 {
            (base >> self.doublings.unsigned_abs()).max(1)
        } else {
            base << self.doublings
        };
        limit.saturating_sub(self.begun)
    }

    fn ends_in(self, now: ClockReading) -> Duration {
        (self.since + PERIOD).saturating_sub(now.monotonic)
    }

    fn is_idle(self, now: ClockReading) -> bool {
        self.since + IDLE <= now.monotonic
    }

    fn record(&mut self, now: ClockReading) {
        if self.begun == 0 {
            self.since = now.monotonic;
        }
        self.begun += 1;
    }

    /// Begins the next period once this one is over.
    fn advance(&mut self, change: i32, least: i32, now: ClockReading) {
        if self.is_idle(now) {
            *self = Self::default();
        } else if self.begun > 0 && self.ends_in(now).is_zero() {
            *self = Self {
                since: now.monotonic,
                begun: 0,
                doublings: (self.doublings + change).clamp(least, MOST_DOUBLINGS),
            };
        }
    }
}

impl Numbers {
    /// The change of doublings: 1 where new pods are well, -1 where they fail.
    fn change(self) -> i32 {
        let recent = self.recent.reviewed + self.recent.unreviewed;
        if self.recent.failing * 10 > recent {
            -1
        } else {
            i32::from(self.recent.ready * 2 >= recent + self.missing)
        }
    }
}

impl RestartPaces {
    pub(crate) fn begin(&mut self, action: &Action, now: ClockReading) {
        if is_paced(action) {
            self.cluster.record(now);
            let namespace = action.pod.namespace.clone();
            self.namespaces.entry(namespace).or_default().record(now);
        }
    }

    /// Takes back an action that was refused.
    pub(crate) fn retract(&mut self, action: &Action) {
        if is_paced(action) {
            let namespace = self.namespaces.get_mut(&action.pod.namespace);
            for pace in [Some(&mut self.cluster), namespace].into_iter().flatten() {
                pace.begun = pace.begun.saturating_sub(1);
            }
        }
    }

    /// Takes the actions beyond the limits out of a plan. `is_begun` tells by the pod's unique
    /// identifier whether an action was begun before, so that it counts already.
    pub(crate) fn hold(
        &mut self,
        plan: &mut Plan,
        is_begun: impl Fn(&str) -> bool,
        now: ClockReading,
    ) {
        let is_held = |action: &Action| is_paced(action) && !is_begun(&action.pod_uid);
        let has_any = plan.actions.iter().any(|action| is_held(action));
        if !has_any && self.namespaces.is_empty() {
            return;
        }
        let by_namespace = numbers(&plan.pod_counts);
        self.advance(&by_namespace, now);
        let controlled = by_namespace.values().map(|it| it.controlled).sum();
        let mut left = self.cluster.left(controlled, CLUSTER_FLOOR);
        let restarts = plan.actions.iter().enumerate();
        let restarts: Vec<_> = restarts.filter(|(_, action)| is_held(action)).collect();
        let (mut own, mut held) = (BTreeMap::new(), BTreeSet::new());
        for (index, action) in interleave_namespaces(restarts, |(_, action)| &action.pod) {
            let namespace = action.pod.namespace.as_str();
            let own = own.entry(namespace).or_insert_with(|| {
                let pace = self.namespaces.get(namespace).copied().unwrap_or_default();
                let controlled = by_namespace.get(namespace).map_or(0, |it| it.controlled);
                pace.left(controlled, NAMESPACE_FLOOR)
            });
            if *own == 0 || left == 0 {
                held.insert(index);
            } else {
                *own -= 1;
                left -= 1;
            }
        }
        if held.is_empty() {
            return;
        }
        let paces = self.namespaces.values().chain([&self.cluster]);
        let ends_in = paces
            .filter(|pace| pace.begun > 0)
            .map(|pace| pace.ends_in(now));
        plan.wake_in = ends_in.chain(plan.wake_in).min();
        let actions = std::mem::take(&mut plan.actions).into_iter().enumerate();
        for (index, action) in actions {
            if held.contains(&index) {
                plan.skips.push(Arc::new(Skip {
                    vpa: action.vpa.clone(),
                    pod: action.pod.clone(),
                    reason: SkipReason::Paced,
                }));
            } else {
                plan.actions.push(action);
            }
        }
    }

    fn advance(&mut self, by_namespace: &BTreeMap<&str, Numbers>, now: ClockReading) {
        let change = |namespace: &str| by_namespace.get(namespace).map_or(1, |it| it.change());
        let mut namespaces = self.namespaces.iter();
        let is_any_well =
            namespaces.any(|(namespace, pace)| pace.begun > 0 && change(namespace) > 0);
        self.cluster.advance(i32::from(is_any_well), 0, now);
        self.namespaces.retain(|namespace, pace| {
            pace.advance(change(namespace), LEAST_DOUBLINGS, now);
            pace.begun > 0 || !pace.since.is_zero()
        });
    }
}

/// Whether an action restarts a pod for its size alone.
fn is_paced(action: &Action) -> bool {
    let is_for_size = matches!(
        action.reason,
        ActionReason::OutsideBounds | ActionReason::Drift
    );
    is_for_size && action.disruption != Disruption::Resize
}

fn numbers(counts: &[Arc<PodCounts>]) -> BTreeMap<&str, Numbers> {
    let mut sums: BTreeMap<&str, Numbers> = BTreeMap::new();
    for counts in counts {
        let sum = sums.entry(&counts.vpa.namespace).or_default();
        sum.controlled += counts.controlled;
        sum.recent += counts.recent;
        sum.missing += counts.missing;
    }
    sums
}
