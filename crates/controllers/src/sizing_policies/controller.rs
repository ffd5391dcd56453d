//! Controller of sizing policies. It runs after every change that has settled, and periodically. It
//! does nothing while a watch is down, since unseen objects may exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::watch::ScaleRequests;
use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;
use runtime::{
    Backoff, Controller, KeyedBackoff, Leading, Manager, ObjectWriter, Pace, Reconcile,
    WriteOutcome,
};
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use vertical::sizing_policies::plan::{Plan, PlanInput, plan};
use vertical::sizing_policies::status::status_update;
use view::{ObjectKey, Shard, View};

use super::PolicyMetrics;
use crate::sizing_policies::writer::{WriteCounts, record_events, write, write_status};
use crate::{changed, is_current};

const PACE: Pace = Pace {
    settle: Duration::from_secs(1),
    min_pause: Duration::from_secs(1),
    pause_factor: 20,
    resync: Duration::from_mins(5),
};
/// Pauses before failed writes of an object are retried.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_secs(1),
    cap: Duration::from_mins(5),
    tries: u32::MAX,
};
/// Pause before a failed status write is retried.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum number of writes before the next reconciliation, so that changes of a policy take effect
/// soon.
const BATCH: usize = 500;

/// Observed objects and options of the controller.
#[derive(Clone)]
pub struct PolicyInputs {
    /// Workloads and VPAs.
    pub view: watch::Receiver<View>,
    /// Policies and namespaces; empty while their kinds are not installed.
    pub policies: watch::Receiver<View>,
    pub questions: ScaleRequests,
    pub recommender: String,
    /// For the status of cluster policies.
    pub shard: Shard,
    pub workers: usize,
}

/// The controller. Clones share everything.
#[derive(Clone)]
pub struct PolicyController {
    inputs: PolicyInputs,
    objects: ObjectWriter,
    metrics: PolicyMetrics,
}

struct PolicyTerm {
    controller: PolicyController,
    attempts: KeyedBackoff<ObjectKey>,
    /// Whether there is nothing to do until a policy changes.
    is_idle: bool,
}

impl PolicyController {
    pub fn new(inputs: PolicyInputs, manager: &Manager) -> Result<Self, prometheus::Error> {
        Ok(Self {
            inputs,
            objects: manager.object_writer(),
            metrics: PolicyMetrics::register(&manager.registry)?,
        })
    }

    /// Runs until shutdown, or until it is dropped with the lease.
    pub async fn run(
        mut self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        self.objects = self.objects.during(&leading);
        let controller = Controller {
            pace: PACE,
            leading,
            shutdown,
        };
        let term = PolicyTerm {
            controller: self,
            attempts: KeyedBackoff::new(BACKOFF),
            is_idle: false,
        };
        controller.run(term).await;
        Ok(())
    }
}

impl Reconcile for PolicyTerm {
    type Plan = Plan;

    async fn changed(&mut self) {
        let PolicyInputs { policies, view, .. } = &mut self.controller.inputs;
        tokio::select! {
            () = changed(policies) => {}
            () = changed(view), if !self.is_idle => {}
        }
    }

    /// `None` while a watch is down.
    fn plan(&mut self, _: Instant) -> Option<Plan> {
        let plan = self.observe()?;
        self.controller.inputs.questions.ask(plan.questions.clone());
        let keys: BTreeSet<_> = plan.writes.iter().map(|write| &write.key).collect();
        self.attempts.retain(|key| keys.contains(key));
        Some(plan)
    }

    /// Writes the objects, and updates the status of each policy.
    async fn apply(&mut self, mut plan: Plan) -> Option<Instant> {
        let now = Instant::now();
        let all = plan.writes.iter().enumerate();
        let mut due = all.filter(|(_, write)| self.attempts.is_due(&write.key, now));
        let chosen: Vec<_> = due.by_ref().take(BATCH).collect();
        let rest = due.next().map(|_| now);
        let PolicyController {
            inputs,
            objects,
            metrics,
        } = &self.controller;
        let summaries = &plan.summaries;
        let writing = stream::iter(chosen).map(async |(index, write)| {
            let policy = &summaries[write.summary].policy;
            let written = self::write(objects, &write.key, &write.action, policy);
            (index, written.await)
        });
        let outcomes: Vec<(usize, Result<WriteOutcome, String>)> =
            writing.buffer_unordered(inputs.workers).collect().await;
        let mut counts = vec![WriteCounts::default(); plan.summaries.len()];
        for (index, outcome) in outcomes {
            let write = &plan.writes[index];
            let result = outcome.as_ref().copied().unwrap_or(WriteOutcome::Failed);
            metrics.written(&write.action, result);
            match outcome {
                Ok(WriteOutcome::NotLeading) => return None,
                Ok(_) => {
                    plan.summaries[write.summary].written(&write.action);
                    counts[write.summary].add(&write.action);
                    self.attempts.succeeded(&write.key);
                }
                Err(problem) => {
                    let now = Instant::now();
                    self.attempts.failed(write.key.clone(), problem, now);
                }
            }
        }
        metrics.counted(&plan.summaries);
        let retry = self.update_statuses(&plan, &counts).await;
        let next = [rest, retry, self.attempts.next()];
        next.into_iter().flatten().min()
    }
}

impl PolicyTerm {
    /// The plan for the policies and workloads as they are now.
    fn observe(&mut self) -> Option<Plan> {
        let policies = self.controller.inputs.policies.borrow_and_update();
        let view = self.controller.inputs.view.borrow_and_update();
        if !is_current(&policies) {
            return None;
        }
        let cluster_policies = policies.cluster_policies.iter();
        let all = policies.policies.iter().chain(cluster_policies);
        let all: Vec<_> = all.cloned().collect();
        self.is_idle = all.is_empty();
        if self.is_idle {
            return Some(Plan::default());
        }
        let is_failing = |key: &ObjectKey| self.attempts.problem(key).is_some();
        let input = is_current(&view).then(|| PlanInput {
            policies: &all,
            namespaces: &policies.namespaces,
            view: &view,
            recommender: &self.controller.inputs.recommender,
            now: Timestamp::now(),
            is_failing: &is_failing,
        })?;
        let plan = block_in_place(|| plan(&input)).inspect_err(|error| {
            tracing::error!(%error, "cannot plan the objects of sizing policies");
        });
        plan.ok()
    }

    /// Writes changed statuses and their events. Returns the time of the next attempt if one fails.
    async fn update_statuses(&self, plan: &Plan, counts: &[WriteCounts]) -> Option<Instant> {
        // By summary.
        let mut failures: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for write in &plan.writes {
            if let Some(problem) = self.attempts.problem(&write.key) {
                failures.entry(write.summary).or_default().push(problem);
            }
        }
        let (now, controller) = (Timestamp::now(), &self.controller);
        let statuses = plan.summaries.iter().zip(counts).enumerate();
        let updating = stream::iter(statuses).map(async |(index, (summary, counts))| {
            let failed = failures.get(&index).map(Vec::as_slice).unwrap_or_default();
            let update = status_update(controller.inputs.shard, summary, failed, now);
            let (policy, objects) = (&summary.policy, &controller.objects);
            let outcome = if update.is_known(policy) {
                Ok(WriteOutcome::Written)
            } else {
                write_status(objects, policy, &update).await
            };
            if outcome == Ok(WriteOutcome::Written) {
                let events = update.events(policy);
                record_events(objects, policy, &events, counts).await;
            }
            outcome.is_err()
        });
        let workers = controller.inputs.workers;
        let failed: Vec<bool> = updating.buffer_unordered(workers).collect().await;
        failed.contains(&true).then(|| Instant::now() + RETRY)
    }
}

impl Drop for PolicyTerm {
    /// Resets the metrics: a standby manages nothing.
    fn drop(&mut self) {
        self.controller.metrics.counted(&[]);
    }
}
