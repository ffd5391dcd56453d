//! The number of pods that each group should have, and its peak while it scales down.
//!
//! A group scales down when fewer pods are configured than before, or than live. Its controller
//! deletes pods that it chose before it saw evictions. Then lost pods do not show as missing: only
//! the peak reveals them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use view::{Matched, Owner, PodSet, Scale, ScaleKey, View, VpaPods, WellKnown};

use crate::clock::ClockReading;
use crate::limits::disruption_limit::{GroupSize, OwnerName};

/// The time that a controller has to delete pods once no more live than configured. Built-in
/// controllers take a second or two.
const SCALE_DOWN_GRACE: Duration = Duration::from_secs(30);
/// The time after which pods lost during a surplus no longer count, if the surplus remains.
const SURPLUS_GRACE: Duration = Duration::from_mins(5);

/// A VPA object to decide about.
pub(crate) struct VpaInput<'a> {
    pub(crate) vpa_pods: &'a VpaPods,
    /// The sizes of its groups, by owner. The pods of a group without one are not updated.
    pub(crate) group_sizes: BTreeMap<OwnerName<'a>, GroupSize>,
    pub(crate) owners: Vec<String>,
    /// The time after which one of its groups has settled.
    pub(crate) settles_in: Option<Duration>,
    /// Whether time alone may change the decision at any moment.
    pub(crate) is_time_dependent: bool,
}

impl<'a> VpaInput<'a> {
    /// An input without groups and owners, see `GroupSizes::update`.
    pub(crate) fn new(vpa_pods: &'a VpaPods, matched: &Matched) -> Self {
        let pods = vpa_pods.pods.values();
        let mut covering = pods.flat_map(|pod| matched.budgets_of(&pod.key));
        Self {
            vpa_pods,
            group_sizes: BTreeMap::new(),
            owners: Vec::new(),
            settles_in: None,
            // The status of such a budget says until when evictions count.
            is_time_dependent: covering.any(|found| !found.budget.disrupted.is_empty()),
        }
    }
}

/// The last known sizes of all groups, see [`group_id`].
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupSizes {
    by_owner: HashMap<String, SizeRecord>,
    last_pass: Duration,
}

#[derive(Debug, Clone, Copy)]
struct SizeRecord {
    size: GroupSize,
    /// The last time with `peak` live pods; `None` for the last pass.
    peak_at: Option<Duration>,
    scaled_down_at: Option<Duration>,
}

impl GroupSizes {
    /// Sets the group sizes of `all`. Forgets the groups of `removed_owners` that are not among
    /// them; without `removed_owners`, all other groups.
    pub(crate) fn update(
        &mut self,
        all: &mut [VpaInput<'_>],
        removed_owners: Option<Vec<String>>,
        view: &View,
        now: ClockReading,
    ) {
        let mut before: HashMap<String, SizeRecord> = match removed_owners {
            Some(owners) => owners
                .iter()
                .filter_map(|uid| self.by_owner.remove_entry(uid))
                .collect(),
            None => std::mem::take(&mut self.by_owner),
        };
        let last_pass = std::mem::replace(&mut self.last_pass, now.monotonic);
        let mut live_by_scale: HashMap<&str, HashMap<ScaleKey, PodSet>> = HashMap::new();
        let mut shared: HashMap<&str, HashMap<&str, i64>> = HashMap::new();
        for input in all {
            let vpa_pods = input.vpa_pods;
            let mut live: BTreeMap<OwnerName, (&Owner, i64)> = BTreeMap::new();
            for owner in vpa_pods.pods.values().filter_map(|pod| pod.owner.as_ref()) {
                live.entry(owner_name(Some(owner))).or_insert((owner, 0)).1 += 1;
            }
            for (name, (owner, live)) in live {
                let id = group_id(vpa_pods, owner);
                input.owners.push(id.clone());
                let known = before
                    .remove(&id)
                    .or_else(|| self.by_owner.get(&id).copied());
                let namespace = vpa_pods.vpa.key.namespace.as_str();
                let configured = configured(view, &mut live_by_scale, namespace, owner);
                let Some(configured) = configured.and_then(|all| {
                    if !vpa_pods.shares_owners {
                        return Some(all);
                    }
                    let shared = shared.entry(namespace);
                    let shared = shared.or_insert_with(|| pods_of_daemon_sets(view, namespace));
                    let of_all = shared.get(owner.name.as_str()).copied().unwrap_or(0);
                    Some(all - (of_all - live)).filter(|own| *own > 0)
                }) else {
                    let known = known.map(|known| SizeRecord {
                        peak_at: known.peak_at.or(Some(last_pass)),
                        ..known
                    });
                    self.by_owner.extend(known.map(|known| (id, known)));
                    continue;
                };
                let record = SizeRecord::next(known, configured, live, last_pass, now);
                let settles_in = record.settles_in(now).into_iter();
                input.settles_in = settles_in.chain(input.settles_in).min();
                input.is_time_dependent |= live > configured || record.size.peak > live;
                input.group_sizes.insert(name, record.size);
                self.by_owner.insert(id, record);
            }
        }
    }
}

impl SizeRecord {
    fn next(
        before: Option<Self>,
        configured: i64,
        live: i64,
        last_pass: Duration,
        now: ClockReading,
    ) -> Self {
        let scales_down =
            live > configured || before.is_some_and(|before| configured < before.size.configured);
        let scaled_down_at = if scales_down {
            Some(now.monotonic)
        } else {
            before.and_then(|before| before.scaled_down_at)
        };
        let mut record = Self {
            size: GroupSize {
                configured,
                peak: live,
            },
            peak_at: None,
            scaled_down_at,
        };
        if let Some(before) = before.filter(|before| before.size.peak > live) {
            let peak_at = before.peak_at.unwrap_or(last_pass);
            if record.holds_peak(live, peak_at, now) {
                (record.size.peak, record.peak_at) = (before.size.peak, Some(peak_at));
            }
        }
        record
    }

    /// Whether lost pods may still be replaced, or more pods deleted.
    fn holds_peak(&self, live: i64, peak_at: Duration, now: ClockReading) -> bool {
        if live > self.size.configured {
            return now.monotonic.saturating_sub(peak_at) < SURPLUS_GRACE;
        }
        self.scaled_down_at
            .is_some_and(|at| now.monotonic.saturating_sub(at) < SCALE_DOWN_GRACE)
    }

    fn settles_in(&self, now: ClockReading) -> Option<Duration> {
        let is_surplus = self.size.peak > self.size.configured;
        now.left(self.scaled_down_at.filter(|_| is_surplus)? + SCALE_DOWN_GRACE)
    }
}

/// The key of a group: the unique identifier of its owner and, if several VPA objects control pods of
/// the owner, the name of the one.
fn group_id(vpa_pods: &VpaPods, owner: &Owner) -> String {
    if vpa_pods.shares_owners {
        format!("{}/{}", owner.uid, vpa_pods.vpa.key.name)
    } else {
        owner.uid.clone()
    }
}

/// The live pods of the `DaemonSet`s of a namespace by name, under all VPA objects and under none.
fn pods_of_daemon_sets<'a>(view: &'a View, namespace: &'a str) -> HashMap<&'a str, i64> {
    let mut counts = HashMap::new();
    let pods = view.pods.in_namespace(namespace);
    let pods = pods.filter(|pod| pod.is_live());
    for owner in pods.filter_map(|pod| pod.owner.as_ref()) {
        if owner.kind == WellKnown::DaemonSet.kind() {
            *counts.entry(owner.name.as_str()).or_default() += 1;
        }
    }
    counts
}

pub(crate) fn owner_name(owner: Option<&Owner>) -> OwnerName<'_> {
    owner.map(|owner| (owner.kind.as_str(), owner.name.as_str()))
}

/// The configured number of pods of an owner; `None` if it is not known, so that its pods are not
/// updated.
///
/// Upstream takes 0 for owners that are not well known, and the number of live pods for Jobs, which
/// falls with each eviction. Here owners that are not well known have the replicas of their scale
/// subresource, once it was read together with the pods that live now. Jobs have those of their
/// specification and successes.
fn configured<'a>(
    view: &View,
    live: &mut HashMap<&'a str, HashMap<ScaleKey, PodSet>>,
    namespace: &'a str,
    owner: &Owner,
) -> Option<i64> {
    let owner = owner.workload(namespace);
    let replicas = if WellKnown::of(owner.api_version, owner.kind).is_some() {
        view.controller_of(owner)?.replicas?
    } else {
        let key = ScaleKey::of(owner).ok()?;
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
