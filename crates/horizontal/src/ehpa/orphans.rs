//! HPAs whose EHPA is gone, and the time of the next attempt to restore each.
//!
//! An annotation makes an HPA an orphan, and every tenant can write it. So each namespace has a
//! budget of attempts, and an orphan that the API server rejects waits for [`RESYNC_INTERVAL`].

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use view::ObjectKey;

use super::{RESYNC_INTERVAL, RETRY_INTERVAL};

/// Maximum number of attempts in a namespace within [`RETRY_INTERVAL`]. Those that restore an HPA
/// do not count.
pub const MAX_ATTEMPTS: usize = 10;

/// HPA, and the annotation of its adopter.
pub type Orphan = (ObjectKey, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The HPA has its own spec again, or is gone.
    Restored,
    /// Its EHPA exists, or the API server rejects the request: another attempt soon would end in
    /// the same way.
    Final,
    Retryable,
}

#[derive(Default)]
pub struct Orphans {
    due: HashMap<Orphan, Instant>,
    budgets: HashMap<String, AttemptBudget>,
}

/// Remaining attempts of a namespace until a time. A namespace without an entry has all of them.
struct AttemptBudget {
    left: usize,
    until: Instant,
}

impl Orphans {
    /// Returns the orphans that are due, longest waiting first. Forgets those that are no longer
    /// observed.
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
        let taken = waiting.into_iter().map(|(orphan, _)| orphan.clone());
        taken.collect()
    }

    pub fn record(&mut self, orphan: Orphan, attempt: Attempt, now: Instant) {
        let budget = self.budgets.get_mut(&orphan.0.namespace);
        if let Some(budget) = budget.filter(|_| attempt == Attempt::Restored) {
            budget.left += 1;
        }
        let wait = if attempt == Attempt::Retryable {
            RETRY_INTERVAL
        } else {
            RESYNC_INTERVAL
        };
        self.due.insert(orphan, now + wait);
    }

    pub fn next(&self) -> Option<Instant> {
        let next = |(orphan, due): (&Orphan, &Instant)| {
            let budget = self.budgets.get(&orphan.0.namespace);
            let spent = budget.filter(|budget| budget.left == 0);
            spent.map_or(*due, |budget| budget.until.max(*due))
        };
        self.due.iter().map(next).min()
    }
}
