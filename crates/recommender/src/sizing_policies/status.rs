//! What is said of a policy: counts, the first workloads that something stands in the way of, and three conditions. A pure function.

use api::sizing_policy::{CONFLICTING, Contested, OVERRIDDEN, READY, SizingPolicyStatus};
use api::vpa::Conditions;
use jiff::Timestamp;

use super::plan::{Contests, Tally};

/// How many workloads a message names.
const NAMED: usize = 3;
/// The longest text of a failure that a message repeats.
const MAX_PROBLEM: usize = 512;
const NOBODY: &str = "none";

/// The status of a policy. `failed` says why writes failed that are still wanted.
pub(crate) fn status(tally: &Tally, failed: &[&str], now: Timestamp) -> SizingPolicyStatus {
    let old = tally.policy.status.clone().unwrap_or_default();
    let Tally { selected, managed, conflicts, overridden, .. } = tally;
    let mut conditions: Conditions = old.conditions.into_iter().collect();
    let (is_ready, reason, message) = readiness(tally, failed);
    conditions.set(READY, is_ready, reason, &message, now);
    let what = "have an autoscaler that no policy owns; it stays, and is the only one";
    set(&mut conditions, CONFLICTING, "OtherAutoscalers", conflicts, what, now);
    set(&mut conditions, OVERRIDDEN, "OtherPolicies", overridden, "are another policy's, which goes before", now);
    SizingPolicyStatus {
        observed_generation: tally.policy.generation,
        selected: count(*selected),
        managed: count(*managed),
        conflicts: count(conflicts.count),
        overridden: count(overridden.count),
        conflicting: conflicts.listed.clone(),
        overridden_by: overridden.listed.clone(),
        conditions: conditions.to_list(),
    }
}

fn readiness(tally: &Tally, failed: &[&str]) -> (bool, &'static str, String) {
    if let Some(unusable) = &tally.unusable {
        let message = format!("{}; the policy's autoscalers stay as they are", unusable.message);
        return (false, unusable.reason, message);
    }
    if let Some(first) = failed.first() {
        let first: String = first.chars().take(MAX_PROBLEM).collect();
        return (false, "WriteFailed", format!("{} autoscalers cannot be written, such as: {first}", failed.len()));
    }
    if tally.pending > 0 {
        return (false, "Writing", format!("{} autoscalers are being written", tally.pending));
    }
    (true, "UpToDate", format!("{} workloads have the autoscaler that they should", tally.managed))
}

fn set(conditions: &mut Conditions, kind: &str, reason: &str, contests: &Contests, what: &str, now: Timestamp) {
    if contests.count == 0 {
        conditions.set(kind, false, "None", NOBODY, now);
        return;
    }
    let named: Vec<String> = contests.listed.iter().take(NAMED).map(name).collect();
    let more = if contests.count > named.len() { ", ..." } else { "" };
    let message = format!("{} workloads {what}: {}{more}", contests.count, named.join(", "));
    conditions.set(kind, true, reason, &message, now);
}

fn name(Contested { kind, namespace, name, by }: &Contested) -> String {
    format!("{kind} {namespace}/{name} ({by})")
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What people should know of a change of the status: reason and words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) reason: String,
    pub(crate) note: String,
}

/// The news of a new status. More conflicts than before are news, fewer are not.
pub(crate) fn news(old: Option<&SizingPolicyStatus>, new: &SizingPolicyStatus) -> Vec<News> {
    let find = |status: &SizingPolicyStatus, kind: &str| {
        let found = status.conditions.iter().find(|condition| condition.kind == kind);
        found.map(|condition| (condition.reason.clone(), condition.message.clone())).unwrap_or_default()
    };
    let mut news = Vec::new();
    let (reason, note) = find(new, READY);
    let is_trouble = !matches!(reason.as_str(), "UpToDate" | "Writing");
    if is_trouble && old.is_none_or(|old| find(old, READY).0 != reason) {
        news.push(News { reason, note });
    }
    if new.conflicts > old.map_or(0, |old| old.conflicts) {
        news.push(News { reason: CONFLICTING.to_owned(), note: find(new, CONFLICTING).1 });
    }
    if new.overridden > old.map_or(0, |old| old.overridden) {
        news.push(News { reason: OVERRIDDEN.to_owned(), note: find(new, OVERRIDDEN).1 });
    }
    news
}
