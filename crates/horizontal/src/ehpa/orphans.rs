//! Native autoscalers whose EHPA is gone, and the times at which each is looked at.
//!
//! Annotations make an autoscaler an orphan, and every tenant can write them. So a namespace has a
//! share of attempts, and one that the API server refuses waits for the safety net.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use view::ObjectKey;

use super::{OFTEN, SAFETY_NET};

/// The most attempts in a namespace within [`OFTEN`], without those that restore an autoscaler.
pub const SHARE: usize = 10;

/// A native autoscaler, and the annotation of its adopter.
pub type Orphan = (ObjectKey, String);

/// The result of an attempt to restore an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Restored,
    /// Its EHPA is there, or the API server refuses the request: another attempt soon would end in
    /// the same way.
    InVain,
    /// The error may pass.
    Failed,
}

/// Orphans, and attempts of each namespace.
#[derive(Default)]
pub struct Orphans {
    due: HashMap<Orphan, Instant>,
    shares: HashMap<String, Share>,
}

/// The attempts that a namespace has left until a time. A namespace without one has all of them.
struct Share {
    left: usize,
    until: Instant,
}

impl Orphans {
    /// Returns the orphans that are to be looked at now, those that have waited longest first.
    /// Forgets those that are not seen any more.
    pub fn take(&mut self, seen: HashSet<Orphan>, now: Instant) -> Vec<Orphan> {
        let Self { due, shares } = self;
        due.retain(|orphan, _| seen.contains(orphan));
        for orphan in seen {
            due.entry(orphan).or_insert(now);
        }
        shares.retain(|_, share| now < share.until);
        let mut waiting: Vec<_> = due.iter().filter(|(_, due)| **due <= now).collect();
        waiting.sort_unstable_by_key(|(_, due)| **due);
        waiting.retain(|((key, _), _)| {
            let whole = || Share {
                left: SHARE,
                until: now + OFTEN,
            };
            let share = shares.entry(key.namespace.clone()).or_insert_with(whole);
            let has_one = share.left > 0;
            share.left = share.left.saturating_sub(1);
            has_one
        });
        waiting
            .into_iter()
            .map(|(orphan, _)| orphan.clone())
            .collect()
    }

    /// Records what an attempt came to.
    pub fn record(&mut self, orphan: Orphan, attempt: Attempt, now: Instant) {
        if let Some(share) = self
            .shares
            .get_mut(&orphan.0.namespace)
            .filter(|_| attempt == Attempt::Restored)
        {
            share.left += 1;
        }
        let wait = if attempt == Attempt::Failed {
            OFTEN
        } else {
            SAFETY_NET
        };
        self.due.insert(orphan, now + wait);
    }

    /// The time of the next look.
    pub fn next(&self) -> Option<Instant> {
        let from = |(key, _): &Orphan| {
            self.shares
                .get(&key.namespace)
                .filter(|share| share.left == 0)
        };
        self.due
            .iter()
            .map(|(orphan, due)| from(orphan).map_or(*due, |share| share.until.max(*due)))
            .min()
    }
}
