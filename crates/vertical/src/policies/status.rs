//! What is said of a policy: counts, the first workloads that something stands in the way of, and
//! three conditions. Pure functions.
//!
//! Where several shards of the recommender divide the namespaces, each of them finds a part of what
//! a policy of the cluster comes to. The first one says it all; the others report to it in the
//! policy's own status.

use api::sizing_policy::{
    CONFLICTING, MAX_LISTED, OVERRIDDEN, READY, ShardReport, SizingPolicyStatus, WorkloadConflict,
};
use api::vpa::Conditions;
use jiff::Timestamp;
use view::{Policy, PolicyScope};

use super::plan::Tally;

/// How many workloads a message names.
const NAMED: usize = 3;
/// The longest text of a failure that a message repeats.
const MAX_PROBLEM: usize = 512;
const UP_TO_DATE: &str = "UpToDate";
const WRITING: &str = "Writing";

/// Which of how many shards speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speaker {
    /// Index of the shard.
    pub shard: u16,
    /// Number of shards.
    pub shards: u16,
}

/// What is to be in a policy's status.
#[derive(Debug, PartialEq)]
pub enum Said {
    /// All of it.
    Status(Box<SizingPolicyStatus>),
    /// The report of this shard.
    Report(u16, ShardReport),
}

/// What this shard says of a policy. `failed` says why writes failed that are still wanted.
pub fn say(speaker: Speaker, tally: &Tally, failed: &[&str], now: Timestamp) -> Said {
    let policy = &tally.policy;
    let own = report(tally, failed);
    match &policy.scope {
        PolicyScope::Cluster(_) if speaker.shard > 0 => Said::Report(speaker.shard, own),
        PolicyScope::Cluster(_) if speaker.shards > 1 => {
            let mut status = status(policy, total(policy, own, speaker.shards), now);
            let old = policy.status.iter().flat_map(|old| &old.shards);
            let is_there = |shard: &str| {
                shard
                    .parse()
                    .is_ok_and(|shard: u16| (1..speaker.shards).contains(&shard))
            };
            status.shards = old
                .filter(|(shard, _)| is_there(shard))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            Said::Status(Box::new(status))
        }
        _ => Said::Status(Box::new(status(policy, own, now))),
    }
}

impl Said {
    /// Whether the policy's status says it already.
    pub fn is_known(&self, policy: &Policy) -> bool {
        let old = policy.status.as_ref();
        match self {
            Self::Status(status) => old == Some(status),
            Self::Report(shard, report) => {
                old.and_then(|old| old.shards.get(&shard.to_string())) == Some(report)
            }
        }
    }

    /// The news in it. Reports are news only once the first shard has put them together.
    pub fn news(&self, policy: &Policy) -> Vec<News> {
        match self {
            Self::Status(status) => news(policy.status.as_ref(), status),
            Self::Report(..) => Vec::new(),
        }
    }
}

fn report(tally: &Tally, failed: &[&str]) -> ShardReport {
    let (reason, message) = readiness(tally, failed);
    ShardReport {
        observed_generation: tally.policy.generation,
        selected: count(tally.selected),
        managed: count(tally.managed),
        conflicts: count(tally.conflicts.count),
        overridden: count(tally.overridden.count),
        conflicting: tally.conflicts.listed.clone(),
        overridden_by: tally.overridden.listed.clone(),
        reason: reason.to_owned(),
        message,
    }
}

fn readiness(tally: &Tally, failed: &[&str]) -> (&'static str, String) {
    if let Some(unusable) = &tally.unusable {
        return (
            unusable.reason,
            format!(
                "{}; the policy's autoscalers stay as they are",
                unusable.message
            ),
        );
    }
    if let Some(first) = failed.first() {
        let first: String = first.chars().take(MAX_PROBLEM).collect();
        return (
            "WriteFailed",
            format!(
                "{} autoscalers cannot be written, such as: {first}",
                failed.len()
            ),
        );
    }
    if tally.pending > 0 {
        return (
            WRITING,
            format!("{} autoscalers are being written", tally.pending),
        );
    }
    (UP_TO_DATE, all_written(count(tally.managed)))
}

fn all_written(managed: i64) -> String {
    format!("{managed} workloads have the autoscaler that they should")
}

/// The report of all shards together. One that says nothing of the policy's present form has not
/// looked yet.
fn total(policy: &Policy, own: ShardReport, shards: u16) -> ShardReport {
    let mut total = own;
    for shard in 1..shards {
        let report = policy
            .status
            .as_ref()
            .and_then(|old| old.shards.get(&shard.to_string()));
        let (reason, message) = match report {
            Some(report) if report.observed_generation == policy.generation => {
                (report.reason.clone(), report.message.clone())
            }
            _ => (
                WRITING.to_owned(),
                format!("shard {shard} has not looked yet"),
            ),
        };
        if total.reason == UP_TO_DATE && reason != UP_TO_DATE {
            (total.reason, total.message) = (reason, message);
        }
        let Some(report) = report else { continue };
        total.selected += report.selected;
        total.managed += report.managed;
        total.conflicts += report.conflicts;
        total.overridden += report.overridden;
        for (all, some) in [
            (&mut total.conflicting, &report.conflicting),
            (&mut total.overridden_by, &report.overridden_by),
        ] {
            all.extend(some.iter().cloned());
            all.truncate(MAX_LISTED);
        }
    }
    if total.reason == UP_TO_DATE {
        total.message = all_written(total.managed);
    }
    total
}

fn status(policy: &Policy, report: ShardReport, now: Timestamp) -> SizingPolicyStatus {
    let ShardReport {
        conflicts,
        overridden,
        conflicting,
        overridden_by,
        reason,
        message,
        ..
    } = report;
    let old = policy.status.iter().flat_map(|old| old.conditions.clone());
    let mut conditions: Conditions = old.collect();
    conditions.set(READY, reason == UP_TO_DATE, &reason, &message, now);
    let what = "have an autoscaler that no policy owns; it stays, and is the only one";
    set(
        &mut conditions,
        (CONFLICTING, "OtherAutoscalers"),
        conflicts,
        &conflicting,
        what,
        now,
    );
    let what = "are another policy's, which goes before";
    set(
        &mut conditions,
        (OVERRIDDEN, "OtherPolicies"),
        overridden,
        &overridden_by,
        what,
        now,
    );
    SizingPolicyStatus {
        observed_generation: report.observed_generation,
        selected: report.selected,
        managed: report.managed,
        conflicts,
        overridden,
        conflicting,
        overridden_by,
        conditions: conditions.to_list(),
        shards: std::collections::BTreeMap::new(),
    }
}

fn set(
    conditions: &mut Conditions,
    (kind, reason): (&str, &str),
    count: i64,
    listed: &[WorkloadConflict],
    what: &str,
    now: Timestamp,
) {
    if count == 0 {
        conditions.set(kind, false, "None", "", now);
        return;
    }
    let named: Vec<String> = listed.iter().take(NAMED).map(name).collect();
    let more = if count > named.len() as i64 {
        ", ..."
    } else {
        ""
    };
    let message = format!("{count} workloads {what}: {}{more}", named.join(", "));
    conditions.set(kind, true, reason, &message, now);
}

fn name(
    WorkloadConflict {
        kind,
        namespace,
        name,
        by,
    }: &WorkloadConflict,
) -> String {
    format!("{kind} {namespace}/{name} ({by})")
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What people should know of a change of the status: reason and words.
#[derive(Debug, PartialEq, Eq)]
pub struct News {
    /// Reason of the event.
    pub reason: String,
    /// Text of the event.
    pub note: String,
}

/// The news of a new status. More conflicts than before are news, fewer are not.
fn news(old: Option<&SizingPolicyStatus>, new: &SizingPolicyStatus) -> Vec<News> {
    let find = |status: &SizingPolicyStatus, kind: &str| {
        let found = status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind);
        found
            .map(|condition| (condition.reason.clone(), condition.message.clone()))
            .unwrap_or_default()
    };
    let mut news = Vec::new();
    let (reason, note) = find(new, READY);
    let is_trouble = !matches!(reason.as_str(), UP_TO_DATE | WRITING);
    if is_trouble && old.is_none_or(|old| find(old, READY).0 != reason) {
        news.push(News { reason, note });
    }
    if new.conflicts > old.map_or(0, |old| old.conflicts) {
        news.push(News {
            reason: CONFLICTING.to_owned(),
            note: find(new, CONFLICTING).1,
        });
    }
    if new.overridden > old.map_or(0, |old| old.overridden) {
        news.push(News {
            reason: OVERRIDDEN.to_owned(),
            note: find(new, OVERRIDDEN).1,
        });
    }
    news
}
