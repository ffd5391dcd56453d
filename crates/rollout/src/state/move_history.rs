//! Heat of nodes and earlier moves. All but the age of pods is measured by the monotonic clock.
//!
//! A replacement cannot be told from other new pods, so all pods of an owner that are newer than
//! its first move rest. The moves of an earlier leader are not known, so pods that existed when this
//! one began rest until they are old enough.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use placement::{Amounts, HotNodeConfig, MeasuredLoad, NodeHeat, WindowLoad};
use view::{Pod, Running};

use crate::action::Relocation;
use crate::clock::ClockReading;

/// The longest age of a node load that moves are based on.
const MAX_LOAD_AGE: SignedDuration = SignedDuration::from_mins(5);
/// The shortest time between two moves of a pod and its replacements, unless they return to the node.
pub(crate) const COOLDOWN: Duration = Duration::from_hours(1);
/// The longest one: each return doubles it.
const LONGEST_COOLDOWN: Duration = Duration::from_hours(24);
/// The time after the first pass in which pods may replace those that an earlier leader evicted.
const HANDOVER: Duration = Duration::from_mins(1);
/// The time in which moves are counted.
const RATE_PERIOD: Duration = Duration::from_mins(1);
/// The longest time for which a load may not fully show a move: the sum of the longest window and
/// of the longest age of a load.
const MAX_UNMEASURED: Duration = Duration::from_mins(20);

#[derive(Debug, Clone, Default)]
pub(crate) struct RebalancingHistory {
    heat: HashMap<String, NodeHeat>,
    observed_at: Option<Duration>,
    /// The first pass without a pause.
    began: Option<Duration>,
    /// By the unique identifier of the owner.
    owners: HashMap<String, OwnerMoves>,
    /// The oldest first.
    recent: Vec<RecentMove>,
}

/// The first and the last move of an owner's pods within the cooldown.
#[derive(Debug, Clone)]
struct OwnerMoves {
    first: Duration,
    last: Duration,
    /// The node that a pod left last, until its replacement has one.
    from: Option<String>,
    cooldown: Duration,
}

#[derive(Debug, Clone)]
struct RecentMove {
    at: Duration,
    pod_uid: String,
    from: String,
    /// Nothing if the eviction was refused.
    load: Amounts,
}

/// Whether a load is too old for moves.
pub(crate) fn is_stale(load: &WindowLoad, now: ClockReading) -> bool {
    now.wall.duration_since(load.end) > MAX_LOAD_AGE
}

/// The part of a load, from 0 to 1, that was measured before a change some time ago.
pub(crate) fn part_before(load: &MeasuredLoad, elapsed: Duration, now: ClockReading) -> f64 {
    let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
    load.part_before(elapsed, now.wall)
}

/// A time of the monotonic clock as the functions of `placement` need it.
pub(crate) fn timestamp(monotonic: Duration) -> Timestamp {
    let since = SignedDuration::try_from(monotonic).unwrap_or(SignedDuration::MAX);
    Timestamp::UNIX_EPOCH
        .checked_add(since)
        .unwrap_or(Timestamp::MAX)
}

impl RebalancingHistory {
    /// Records the begin of a pass without a pause, and drops moves that no longer count.
    pub(crate) fn begin_pass(&mut self, now: ClockReading) {
        self.began.get_or_insert(now.monotonic);
        let passed = |at: Duration| now.monotonic.saturating_sub(at);
        // One whose pods returned is remembered for as long again.
        self.owners.retain(|_, moves| {
            let has_returned = moves.cooldown > COOLDOWN;
            passed(moves.last) < moves.cooldown * if has_returned { 2 } else { 1 }
        });
        self.recent.retain(|it| passed(it.at) < MAX_UNMEASURED);
    }

    /// Takes in a load of the nodes. Without measurements for some time, no node is hot.
    pub(crate) fn observe(&mut self, load: &WindowLoad, config: &HotNodeConfig, now: ClockReading) {
        let max_gap = Duration::try_from(MAX_LOAD_AGE).unwrap_or_default();
        let observed_at = self.observed_at.replace(now.monotonic);
        let is_gap = observed_at.is_some_and(|at| now.monotonic.saturating_sub(at) > max_gap);
        if is_stale(load, now) || is_gap {
            self.heat.clear();
        }
        if is_stale(load, now) {
            return;
        }
        let at = timestamp(now.monotonic);
        let heat = load.nodes.iter().map(|(name, node)| {
            let before = self.heat.get(name).copied().unwrap_or_default();
            let heat = before.observe(node.highest_percent(), at, config);
            (name.clone(), heat)
        });
        self.heat = heat.collect();
    }

    pub(crate) fn is_hot(&self, node: &str) -> bool {
        self.heat.get(node).is_some_and(|heat| heat.is_hot())
    }

    pub(crate) fn hot_nodes(&self) -> usize {
        self.heat.values().filter(|heat| heat.is_hot()).count()
    }

    /// The moves that the rate still allows.
    pub(crate) fn moves_left(&self, per_minute: usize, now: ClockReading) -> usize {
        let counts = |it: &&RecentMove| now.monotonic.saturating_sub(it.at) < RATE_PERIOD;
        per_minute.saturating_sub(self.recent.iter().filter(counts).count())
    }

    /// The load that left each node and that its measured load still includes.
    pub(crate) fn departed(
        &self,
        load: &MeasuredLoad,
        now: ClockReading,
    ) -> HashMap<&str, Amounts> {
        let mut departed: HashMap<&str, Amounts> = HashMap::new();
        for moved in &self.recent {
            let elapsed = now.monotonic.saturating_sub(moved.at);
            let part = part_before(load, elapsed, now);
            let sum = departed.entry(&moved.from).or_default();
            *sum = sum.plus(moved.load.part(part));
        }
        departed
    }

    pub(crate) fn record(&mut self, pod_uid: &str, relocation: &Relocation, now: ClockReading) {
        let at = now.monotonic;
        let moves = self
            .owners
            .entry(relocation.owner_uid.clone())
            .or_insert(OwnerMoves {
                first: at,
                last: at,
                from: None,
                cooldown: COOLDOWN,
            });
        moves.last = at;
        moves.from = Some(relocation.from.clone());
        self.recent.push(RecentMove {
            at,
            pod_uid: pod_uid.to_owned(),
            from: relocation.from.clone(),
            load: relocation.load,
        });
    }

    /// Records that the eviction of a pod was refused: its load stays.
    pub(crate) fn retract(&mut self, pod_uid: &str) {
        let mut latest = self.recent.iter_mut().rev();
        if let Some(refused) = latest.find(|it| it.pod_uid == pod_uid) {
            refused.load = Amounts::default();
        }
    }

    /// Takes in a new pod: a replacement on the node that the moved pod left doubles the rest of its
    /// owner's pods.
    pub(crate) fn observe_pod(&mut self, pod: &Pod, running: &Running) {
        let moves = pod
            .owner
            .as_ref()
            .and_then(|it| self.owners.get_mut(&it.uid));
        if let Some(moves) = moves
            && let Some(from) = moves.from.take()
        {
            moves.cooldown = if running.node.as_ref() == Some(&from) {
                (moves.cooldown * 2).min(LONGEST_COOLDOWN)
            } else {
                COOLDOWN
            };
        }
    }

    /// The time at which a pod may have been moved last, as if [`COOLDOWN`] were its rest.
    pub(crate) fn moved_at(
        &self,
        pod: &Pod,
        running: &Running,
        first_seen: Option<Duration>,
        now: ClockReading,
    ) -> Option<Timestamp> {
        let first_seen = first_seen.unwrap_or(now.monotonic);
        let moves = pod.owner.as_ref().and_then(|it| self.owners.get(&it.uid));
        if let Some(moves) = moves.filter(|moves| first_seen >= moves.first) {
            let longer = moves.cooldown.saturating_sub(COOLDOWN);
            return Some(timestamp(moves.last + longer));
        }
        let existed = self
            .began
            .is_none_or(|began| first_seen <= began + HANDOVER);
        let age = running
            .created_at
            .map_or(Duration::ZERO, |at| now.since(at));
        // A pod of any age has been watched since it was first seen.
        let age = age.max(now.monotonic.saturating_sub(first_seen));
        let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
        existed.then(|| {
            timestamp(now.monotonic)
                .checked_sub(age)
                .unwrap_or(Timestamp::MIN)
        })
    }
}
