//! Status of a policy: counts, the first workloads with conflicts, and three conditions.
//!
//! With several shards, each shard knows a part of a cluster policy. The first shard writes the
//! status; the others write reports into it, which the first one adds up.

use api::sizing_policy::{
    CONFLICTING, MAX_LISTED, OVERRIDDEN, READY, ShardReport, SizingPolicyStatus, WorkloadConflict,
};
use api::vpa::Conditions;
use jiff::Timestamp;
use view::{Policy, PolicyScope, Shard};

use super::parsed::InvalidPolicy;
use super::plan::PolicySummary;

/// Reason of `Ready` of a sizing policy: all VPA objects are as the policy demands.
const UP_TO_DATE: &str = "UpToDate";
/// Reason of `Ready` of a sizing policy: VPA objects are being written.
const WRITING: &str = "Writing";
/// Event, and reason of `Ready`, of a sizing policy: VPA objects could not be written.
const WRITE_FAILED: &str = "WriteFailed";
/// Event, and reason of `Ready`, of a sizing policy: a kind is not installed, has no scale
/// subresource or is forbidden.
const KIND_UNAVAILABLE: &str = "KindUnavailable";
/// Reason of `Ready` of a sizing policy: workloads wait until others have their recommended requests.
const WAVE: &str = "Wave";
/// Event, and reason of `Ready`, of a sizing policy: workloads wait while recommendations of others are rolled
/// back.
const WAVE_STOPPED: &str = "WaveStopped";
/// Reason of `Conflicting` of a sizing policy: other VPA objects exist; the status names the
/// workloads.
const OTHER_AUTOSCALERS: &str = "OtherAutoscalers";
/// Reason of `Overridden` of a sizing policy: other policies precede.
const OTHER_POLICIES: &str = "OtherPolicies";
/// Reason of `Conflicting` and `Overridden` of a sizing policy: there are no such workloads.
const NO_WORKLOADS: &str = "None";
/// Number of workloads that a message names.
const NAMED: usize = 3;
/// Maximum length of an error in a message.
const MAX_PROBLEM: usize = 512;

#[derive(Debug, PartialEq)]
pub enum StatusUpdate {
    Status(Box<SizingPolicyStatus>),
    /// The report of this shard, by index.
    Report(u16, ShardReport),
}

/// The update of a policy's status. `failed` has the errors of writes that are still pending.
pub fn status_update(
    own: Shard,
    summary: &PolicySummary,
    failed: &[&str],
    now: Timestamp,
) -> StatusUpdate {
    let policy = &summary.policy;
    let report = report(summary, failed);
    match &policy.scope {
        PolicyScope::Cluster(_) if own.index() > 0 => StatusUpdate::Report(own.index(), report),
        PolicyScope::Cluster(_) if own.count() > 1 => {
            let mut status = status(policy, total(policy, report, own.count()), now);
            let old = policy.status.iter().flat_map(|old| &old.shards);
            let is_there = |shard: &str| {
                shard
                    .parse()
                    .is_ok_and(|shard: u16| (1..own.count()).contains(&shard))
            };
            status.shards = old
                .filter(|(shard, _)| is_there(shard))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            StatusUpdate::Status(Box::new(status))
        }
        _ => StatusUpdate::Status(Box::new(status(policy, report, now))),
    }
}

impl StatusUpdate {
    /// Whether the policy's status is up to date.
    pub fn is_known(&self, policy: &Policy) -> bool {
        let old = policy.status.as_ref();
        match self {
            Self::Status(status) => old == Some(status),
            Self::Report(shard, report) => {
                old.and_then(|old| old.shards.get(&shard.to_string())) == Some(report)
            }
        }
    }

    /// The events of this update. Reports cause events once the first shard has added them up.
    pub fn events(&self, policy: &Policy) -> Vec<StatusEvent> {
        match self {
            Self::Status(status) => events(policy.status.as_ref(), status),
            Self::Report(..) => Vec::new(),
        }
    }
}

fn report(summary: &PolicySummary, failed: &[&str]) -> ShardReport {
    let (reason, message) = readiness(summary, failed);
    ShardReport {
        counts: summary.counts.clone(),
        reason: reason.to_owned(),
        message,
    }
}

fn readiness(summary: &PolicySummary, failed: &[&str]) -> (&'static str, String) {
    if let Some(InvalidPolicy { reason, message }) = &summary.invalid {
        let message = format!("{message}; the policy's VPA objects stay as they are");
        return (*reason, message);
    }
    let (pending, unavailable) = (summary.pending, &summary.unavailable);
    let wave = summary.waves.report();
    let is_stopped = wave.as_ref().is_some_and(|(is_stopped, _)| *is_stopped);
    if let Some(first) = failed.first() {
        let (count, first) = (failed.len(), first.chars().take(MAX_PROBLEM));
        let first: String = first.collect();
        let message = format!("{count} VPA objects cannot be written, such as: {first}");
        (WRITE_FAILED, message)
    } else if pending > 0 {
        (WRITING, format!("{pending} VPA objects are being written"))
    } else if !unavailable.is_empty() && !is_stopped {
        let kinds = unavailable.join("; ");
        let message = format!("workloads of these kinds are not found: {kinds}");
        (KIND_UNAVAILABLE, message)
    } else if let Some((_, message)) = wave {
        let reason = if is_stopped { WAVE_STOPPED } else { WAVE };
        (reason, message)
    } else {
        (UP_TO_DATE, all_written(summary.counts.managed))
    }
}

fn all_written(managed: i64) -> String {
    format!("{managed} workloads have an up-to-date VPA object")
}

/// The weight of a reason of `Ready`, of which the policy shows the heaviest.
fn weight(reason: &str) -> u8 {
    match reason {
        UP_TO_DATE => 0,
        WAVE => 1,
        WRITING => 2,
        _ => 3,
    }
}

/// The sum of all reports. A report on an older generation of the policy is pending.
fn total(policy: &Policy, own: ShardReport, shards: u16) -> ShardReport {
    let mut total = own;
    for shard in 1..shards {
        let report = policy
            .status
            .as_ref()
            .and_then(|old| old.shards.get(&shard.to_string()));
        let (reason, message) = match report {
            Some(report) if report.counts.observed_generation == policy.generation => {
                (report.reason.clone(), report.message.clone())
            }
            _ => (
                WRITING.to_owned(),
                format!("shard {shard} has not reported yet"),
            ),
        };
        if weight(&reason) > weight(&total.reason) {
            (total.reason, total.message) = (reason, message);
        }
        let Some(ShardReport { counts, .. }) = report else {
            continue;
        };
        let sum = &mut total.counts;
        sum.selected += counts.selected;
        sum.managed += counts.managed;
        sum.conflicts += counts.conflicts;
        sum.overridden += counts.overridden;
        for (all, some) in [
            (&mut sum.conflicting, &counts.conflicting),
            (&mut sum.overridden_by, &counts.overridden_by),
        ] {
            all.extend(some.iter().cloned());
            all.truncate(MAX_LISTED);
        }
    }
    if total.reason == UP_TO_DATE {
        total.message = all_written(total.counts.managed);
    }
    total
}

fn status(policy: &Policy, report: ShardReport, now: Timestamp) -> SizingPolicyStatus {
    let ShardReport {
        counts,
        reason,
        message,
    } = report;
    let old = policy.status.iter().flat_map(|old| old.conditions.clone());
    let mut conditions: Conditions = old.collect();
    conditions.set(READY, reason == UP_TO_DATE, &reason, &message, now);
    for (kind, reason, count, listed, what) in [
        (
            CONFLICTING,
            OTHER_AUTOSCALERS,
            counts.conflicts,
            &counts.conflicting,
            "already have a VPA object that no policy owns; it is kept and no other is created",
        ),
        (
            OVERRIDDEN,
            OTHER_POLICIES,
            counts.overridden,
            &counts.overridden_by,
            "are managed by another policy with precedence",
        ),
    ] {
        let (reason, message) = match count {
            0 => (NO_WORKLOADS, String::new()),
            _ => (
                reason,
                format!("{count} workloads {what}: {}", named(count, listed)),
            ),
        };
        conditions.set(kind, count > 0, reason, &message, now);
    }
    SizingPolicyStatus {
        counts,
        conditions: conditions.to_list(),
        shards: std::collections::BTreeMap::new(),
    }
}

fn named(count: i64, listed: &[WorkloadConflict]) -> String {
    let name =
        |it: &WorkloadConflict| format!("{} {}/{} ({})", it.kind, it.namespace, it.name, it.by);
    let named: Vec<String> = listed.iter().take(NAMED).map(name).collect();
    let more = if count > named.len() as i64 {
        ", ..."
    } else {
        ""
    };
    format!("{}{more}", named.join(", "))
}

#[derive(Debug, PartialEq, Eq)]
pub struct StatusEvent {
    pub reason: String,
    /// Text of the event.
    pub note: String,
}

/// The events of a new status. Only an increase of conflicts is an event.
fn events(old: Option<&SizingPolicyStatus>, new: &SizingPolicyStatus) -> Vec<StatusEvent> {
    let find = |status: &SizingPolicyStatus, kind: &str| {
        let found = status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind);
        found
            .map(|condition| (condition.reason.clone(), condition.message.clone()))
            .unwrap_or_default()
    };
    let mut events = Vec::new();
    let (reason, note) = find(new, READY);
    let is_trouble = !matches!(reason.as_str(), UP_TO_DATE | WRITING | WAVE);
    if is_trouble && old.is_none_or(|old| find(old, READY).0 != reason) {
        events.push(StatusEvent { reason, note });
    }
    let before = old.map(|old| &old.counts);
    let counts = &new.counts;
    for (kind, count, before) in [
        (CONFLICTING, counts.conflicts, before.map(|it| it.conflicts)),
        (
            OVERRIDDEN,
            counts.overridden,
            before.map(|it| it.overridden),
        ),
    ] {
        if count > before.unwrap_or(0) {
            let note = find(new, kind).1;
            let reason = kind.to_owned();
            events.push(StatusEvent { reason, note });
        }
    }
    events
}
