//! Native autoscalers whose EHPA is gone, and the times at which each is looked at.
//!
//! Annotations make an autoscaler an orphan, and every tenant can write them. So a namespace has a
//! share of attempts, and one that the API server refuses waits for the safety net.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use view::ObjectKey;

use super::{RESYNC_INTERVAL, RETRY_INTERVAL};

/// The most attempts in a namespace within [`RETRY_INTERVAL`], without those that restore an autoscaler.
pub const MAX_ATTEMPTS: usize = 10;

/// A native autoscaler, and the annotation of its adopter.
pub type Orphan = (ObjectKey, String);

/// The result of an attempt to restore an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Restored,
    /// Its EHPA is there, or the API server refuses the request: another attempt soon would end in
    /// the same way.
    Final,
    /// The error may pass.
    Retryable,
}

/// Orphans, and attempts of each namespace.
#[derive(Default)]
pub struct Orphans {
    due: HashMap<Orphan, Instant>,
    budgets: HashMap<String, AttemptBudget>,
}

/// The attempts that a namespace has left until a time. A namespace without one has all of them.
struct AttemptBudget {
    left: usize,
    until: Instant,
}

impl Orphans {
    /// Returns the orphans that are to be looked at now, those that have waited longest first.
    /// Forgets those that are not seen any more.
    pub fn take(&mut self, seen: HashSet<Orphan>, now: Instant) -> Vec<Orphan> {
        let Self { due, budgets } = self;
        due.retain(|orphan, _| seen.contains(orphan));
        for orphan in seen {
            due.entry(orphan).or_insert(now);
        }
        budgets.retain(|_, budget| now < budget.until);
        let mut waiting: Vec<_> = due.iter().filter(|(_, due)| **due <= now).collect();
        waiting.sort_unstable_by_key(|(_, due)| **due);
        waiting.retain(|((key, _), _)| {
            let whole = || AttemptBudget {
                left: MAX_ATTEMPTS,
                until: now + RETRY_INTERVAL,
            };
            let budget = budgets.entry(key.namespace.clone()).or_insert_with(whole);
            let has_one = budget.left > 0;
            budget.left = budget.left.saturating_sub(1);
            has_one
        });
        waiting
            .into_iter()
            .map(|(orphan, _)| orphan.clone())
            .collect()
    }

    /// Records what an attempt came to.
    pub fn record(&mut self, orphan: Orphan, attempt: Attempt, now: Instant) {
        if let Some(budget) = self
            .budgets
            .get_mut(&orphan.0.namespace)
            .filter(|_| attempt == Attempt::Restored)
        {
            budget.left += 1;
        }
        let wait = if attempt == Attempt::Retryable {
            RETRY_INTERVAL
        } else {
            RESYNC_INTERVAL
        };
        self.due.insert(orphan, now + wait);
    }

    /// The time of the next look.
    pub fn next(&self) -> Option<Instant> {
        let from = |(key, _): &Orphan| {
            self.budgets
                .get(&key.namespace)
                .filter(|budget| budget.left == 0)
        };
        self.due
            .iter()
            .map(|(orphan, due)| from(orphan).map_or(*due, |budget| budget.until.max(*due)))
            .min()
    }
}
