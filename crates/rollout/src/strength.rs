//! The number of pods that each group should have, and the largest number that it had while it
//! shrinks.
//!
//! A group shrinks when fewer pods are wanted than before, or than there are. Its controller then
//! deletes pods, chosen before it saw what was evicted meanwhile. So what was lost is not seen as
//! missing: only the largest number of pods tells of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use model::Workload;
use view::{ObjectName, Owner, PodSet, Scale, ScaleKey, View, WellKnown};

use super::clock::ClockReading;
use super::pass::Matched;

/// The time that a controller is given to delete pods, once there are no more than wanted. Built-in
/// ones take a second or two.
const SHRINK_SETTLES: Duration = Duration::from_secs(30);
/// The time after which pods that went while there were too many are taken to be gone for good,
/// where there still are.
const SURPLUS_SETTLES: Duration = Duration::from_mins(5);

/// Kind and name of the owner of a group; none for pods without an owner.
pub(super) type OwnerName<'a> = Option<(&'a str, &'a str)>;

/// The number of pods that a group should have, and the number that it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strength {
    /// The number of pods that it should have.
    pub(super) configured: i64,
    /// The largest number of live pods since the group shrinks; the number of live pods where it
    /// does not.
    pub(super) most: i64,
}

/// The sizes of all groups when they were last known, by the unique identifiers of their owners.
#[derive(Debug, Clone, Default)]
pub(super) struct Sizes {
    by_owner: HashMap<String, Size>,
    /// The last pass.
    last: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    strength: Strength,
    /// The last time with as many live pods as `most`; none where that is the last pass.
    most_at: Option<Duration>,
    shrunk_at: Option<Duration>,
}

impl Sizes {
    /// Enters the strengths of the groups of `all`. Groups of the `released` owners that are not
    /// among them are forgotten; without `released`, all other groups are.
    pub(super) fn note(
        &mut self,
        all: &mut [Matched<'_>],
        released: Option<Vec<String>>,
        view: &View,
        now: ClockReading,
    ) {
        let mut before: HashMap<String, Size> = match released {
            Some(owners) => owners
                .iter()
                .filter_map(|uid| self.by_owner.remove_entry(uid))
                .collect(),
            None => std::mem::take(&mut self.by_owner),
        };
        let last = std::mem::replace(&mut self.last, now.monotonic);
        let mut live_by_scale: HashMap<&str, HashMap<ScaleKey, PodSet>> = HashMap::new();
        for Matched {
            controlled,
            strengths,
            owners,
            settles_in,
            changes_with_time,
        } in all
        {
            let mut live: BTreeMap<OwnerName, (&Owner, i64)> = BTreeMap::new();
            for owner in controlled
                .pods
                .values()
                .filter_map(|pod| pod.owner.as_ref())
            {
                live.entry(owner_name(Some(owner))).or_insert((owner, 0)).1 += 1;
            }
            for (name, (owner, live)) in live {
                owners.push(owner.uid.clone());
                let known = before
                    .remove(&owner.uid)
                    .or_else(|| self.by_owner.get(&owner.uid).copied());
                let namespace = controlled.autoscaler.key.namespace.as_str();
                let Some(configured) = configured(view, &mut live_by_scale, namespace, owner)
                else {
                    let known = known.map(|known| Size {
                        most_at: known.most_at.or(Some(last)),
                        ..known
                    });
                    self.by_owner
                        .extend(known.map(|known| (owner.uid.clone(), known)));
                    continue;
                };
                let size = Size::next(known, configured, live, last, now);
                *settles_in = size.settles_in(now).into_iter().chain(*settles_in).min();
                *changes_with_time |= live > configured || size.strength.most > live;
                strengths.insert(name, size.strength);
                self.by_owner.insert(owner.uid.clone(), size);
            }
        }
    }
}

impl Size {
    fn next(
        before: Option<Self>,
        configured: i64,
        live: i64,
        last: Duration,
        now: ClockReading,
    ) -> Self {
        let shrinks = live > configured
            || before.is_some_and(|before| configured < before.strength.configured);
        let shrunk_at = if shrinks {
            Some(now.monotonic)
        } else {
            before.and_then(|before| before.shrunk_at)
        };
        let unsettled = Self {
            strength: Strength {
                configured,
                most: live,
            },
            most_at: None,
            shrunk_at,
        };
        match before {
            Some(before) if before.strength.most > live => {
                let (most, most_at) = (before.strength.most, before.most_at.unwrap_or(last));
                let held = Self {
                    strength: Strength { configured, most },
                    most_at: Some(most_at),
                    shrunk_at,
                };
                if held.holds(live, most_at, now) {
                    held
                } else {
                    unsettled
                }
            }
            _ => unsettled,
        }
    }

    /// Whether what went may still be replaced, or more may still be deleted.
    fn holds(&self, live: i64, most_at: Duration, now: ClockReading) -> bool {
        if live > self.strength.configured {
            return now.monotonic.saturating_sub(most_at) < SURPLUS_SETTLES;
        }
        self.shrunk_at
            .is_some_and(|at| now.monotonic.saturating_sub(at) < SHRINK_SETTLES)
    }

    fn settles_in(&self, now: ClockReading) -> Option<Duration> {
        let settled_at = self
            .shrunk_at
            .filter(|_| self.strength.most > self.strength.configured)?
            + SHRINK_SETTLES;
        settled_at
            .checked_sub(now.monotonic)
            .filter(|left| !left.is_zero())
    }
}

pub(super) fn owner_name(owner: Option<&Owner>) -> OwnerName<'_> {
    owner.map(|owner| (owner.kind.as_str(), owner.name.as_str()))
}

/// The number of pods that the owner should have; none where that is not known, and then its pods
/// are left alone.
///
/// Upstream takes 0 for owners that are not well known, and the number of live pods for Jobs, which
/// shrinks with each eviction. Here the scale subresource of the former says it, once it was read
/// with the pods that are live now, and the specification and the successes of the latter.
fn configured<'a>(
    view: &View,
    live: &mut HashMap<&'a str, HashMap<ScaleKey, PodSet>>,
    namespace: &'a str,
    owner: &Owner,
) -> Option<i64> {
    let Owner {
        api_version,
        kind,
        name,
        uid: _,
    } = owner;
    let replicas = if let Some(kind) = WellKnown::of_kind(kind) {
        view.controller(kind, &ObjectName { namespace, name })?
            .replicas?
    } else {
        let key = ScaleKey::of(Workload {
            api_version,
            kind,
            namespace,
            name,
        })
        .ok()?;
        let live = live
            .entry(namespace)
            .or_insert_with(|| view.live_pods_by_scale_in(namespace));
        match view.scale_with(&key, *live.get(&key)?)? {
            Scale::Found { replicas, .. } => (*replicas)?,
            Scale::NotFound { .. } | Scale::Failed { .. } => return None,
        }
    };
    (replicas > 0).then_some(i64::from(replicas))
}
