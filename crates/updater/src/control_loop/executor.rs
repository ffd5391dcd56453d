//! Carries out actions, several at a time and within the rate limits.

use std::collections::VecDeque;
use std::sync::Arc;

use rollout::{Action, ActionOutcome};
use tokio::task::JoinSet;
use tokio::time::Instant;
use view::Vpa;

use super::pacing::Pacing;
use crate::pod_writer::PodWriter;

/// Evictions and resizes at a time. The API server takes about 100 ms for an eviction.
const CONCURRENCY: usize = 64;

/// Actions that wait, and those in flight.
pub(super) struct Executor {
    writer: PodWriter,
    pacing: Pacing,
    /// In order of urgency.
    pub(super) waiting: VecDeque<Arc<Action>>,
    pub(super) in_flight: JoinSet<Finished>,
    /// The time at which a limit may admit a waiting action.
    pub(super) retry_at: Option<Instant>,
}

pub(super) struct Finished {
    pub(super) action: Arc<Action>,
    /// The VPA object when the action was started.
    pub(super) vpa: Option<Arc<Vpa>>,
    /// `None` if it was not sent, since this replica does not lead any more.
    pub(super) outcome: Option<ActionOutcome>,
}

impl Executor {
    pub(super) fn new(writer: PodWriter, pacing: Pacing) -> Self {
        Self {
            writer,
            pacing,
            waiting: VecDeque::new(),
            in_flight: JoinSet::new(),
            retry_at: None,
        }
    }

    /// Removes and returns the waiting actions that concurrency and limits admit now.
    pub(super) fn admit(&mut self, now: Instant) -> Vec<Arc<Action>> {
        self.retry_at = None;
        let mut free = CONCURRENCY.saturating_sub(self.in_flight.len());
        let (mut admitted, mut held_back) = (Vec::new(), VecDeque::new());
        while free > 0 {
            let Some(action) = self.waiting.pop_front() else {
                break;
            };
            match self.pacing.admit(&action, now.into_std()) {
                Ok(()) => {
                    admitted.push(action);
                    free -= 1;
                }
                Err(wait) => {
                    self.retry_at = self.retry_at.into_iter().chain([now + wait]).min();
                    held_back.push_back(action);
                    if self.pacing.is_request_limit_only() {
                        break;
                    }
                }
            }
        }
        held_back.append(&mut self.waiting);
        self.waiting = held_back;
        admitted
    }

    pub(super) fn start(&mut self, action: Arc<Action>, vpa: Option<Arc<Vpa>>) {
        let writer = self.writer.clone();
        self.in_flight.spawn(async move {
            let outcome = writer.execute(&action).await;
            Finished {
                action,
                vpa,
                outcome,
            }
        });
    }
}
