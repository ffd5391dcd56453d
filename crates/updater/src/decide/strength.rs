//! The number of pods that each group should have, and the largest number that it had while there were more.
//!
//! There are more while a scale-down is under way, while the controller or its scale is seen late, and in a rollout with a surge. What
//! is lost then is not seen as missing: only the largest number tells of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use cluster::{ObjectName, Owner, PodSet, Scale, ScaleKey, View, WellKnown};
use model::Workload;

use super::matching::Matched;
use super::moment::Moment;

/// After this time without as many pods again, pods that went while there were too many are taken to be gone for good.
const SURPLUS_SETTLES: Duration = Duration::from_mins(5);

/// Kind and name of the owner of a group; none for pods without an owner.
pub(super) type OwnerName<'a> = Option<(&'a str, &'a str)>;

/// How many pods a group should have, and had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strength {
    /// How many there should be.
    pub(super) configured: i64,
    /// The largest number of live pods since there have been more than `configured`.
    pub(super) most: i64,
}

/// Namespace, kind and name of the owner of a group.
type GroupKey = (String, String, String);

/// Groups with more live pods than they should have.
#[derive(Debug, Clone, Default)]
pub(super) struct Surpluses(HashMap<GroupKey, Surplus>);

#[derive(Debug, Clone, Copy)]
struct Surplus {
    most: i64,
    /// When there were last so many.
    at: Duration,
}

impl Surpluses {
    /// Enters the strengths of the groups of `all`, and forgets groups that are known to have no surplus.
    pub(super) fn note(&mut self, all: &mut [Matched<'_>], view: &View, now: Moment) {
        let (mut before, live_by_scale) = (std::mem::take(&mut self.0), view.live_pods_by_scale());
        for Matched { autoscaler, pods, strengths } in all {
            let mut live: BTreeMap<OwnerName, (&Owner, i64)> = BTreeMap::new();
            for owner in pods.iter().filter_map(|pod| pod.owner.as_ref()) {
                live.entry(owner_name(Some(owner))).or_insert((owner, 0)).1 += 1;
            }
            let namespace = &autoscaler.key.namespace;
            for (name, (owner, live)) in live {
                let key = || (namespace.clone(), owner.kind.clone(), owner.name.clone());
                let Some(configured) = configured(view, &live_by_scale, namespace, owner) else {
                    self.0.extend(before.remove_entry(&key()));
                    continue;
                };
                let mut most = live;
                if live > configured {
                    let key = key();
                    let surplus = Surplus::next(before.remove(&key), live, now);
                    self.0.insert(key, surplus);
                    most = surplus.most;
                }
                strengths.insert(name, Strength { configured, most });
            }
        }
    }
}

impl Surplus {
    fn next(before: Option<Self>, live: i64, now: Moment) -> Self {
        let holds = |before: &Self| before.most > live && now.steady.saturating_sub(before.at) < SURPLUS_SETTLES;
        before.filter(holds).unwrap_or(Self { most: live, at: now.steady })
    }
}

pub(super) fn owner_name(owner: Option<&Owner>) -> OwnerName<'_> {
    owner.map(|owner| (owner.kind.as_str(), owner.name.as_str()))
}

/// How many pods the owner should have; none where that is not known, and then its pods are left alone.
///
/// Upstream takes 0 for owners that are not well known, and the number of live pods for Jobs, which shrinks with each eviction. Here
/// the scale subresource of the former says it, once it was read with the pods that are live now, and the specification and the
/// successes of the latter.
fn configured(view: &View, live: &HashMap<ScaleKey, PodSet>, namespace: &str, owner: &Owner) -> Option<i64> {
    let Owner { api_version, kind, name, uid: _ } = owner;
    let replicas = if let Some(kind) = WellKnown::of_kind(kind) {
        view.controller(kind, &ObjectName { namespace, name })?.replicas?
    } else {
        let key = ScaleKey::of(Workload { api_version, kind, namespace, name }).ok()?;
        match view.scale_with(&key, *live.get(&key)?)? {
            Scale::Found { replicas, .. } => (*replicas)?,
            Scale::NotFound { .. } | Scale::Failed { .. } => return None,
        }
    };
    (replicas > 0).then_some(i64::from(replicas))
}
