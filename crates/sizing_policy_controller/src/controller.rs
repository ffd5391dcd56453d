//! Controller of sizing policies. It runs after every change that has settled, and periodically. It
//! does nothing while a watch is down, since unseen objects may exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ::watch::ScaleRequests;
use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;
use runtime::{Chassis, Leading, WriteOutcome};
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use vertical::policies::plan::{Plan, PlanInput, plan};
use vertical::policies::status::{ShardIdentity, status_update};
use view::{Namespace, Policy, Table, View};

use crate::attempts::Attempts;
use crate::metrics::PolicyMetrics;
use crate::writer::{WriteCounts, Writer};

/// Time during which changes are collected before a reconciliation.
const SETTLE: Duration = Duration::from_secs(1);
/// Interval of reconciliations without a change.
const RESYNC_INTERVAL: Duration = Duration::from_mins(5);
/// Pause after a reconciliation, as a multiple of its duration.
const COOLDOWN_FACTOR: u32 = 20;
/// Pause before a failed status write is retried.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum number of writes before the next reconciliation, so that changes of a policy take effect
/// soon.
const BATCH: usize = 500;

/// Observed objects and options of the controller.
#[derive(Clone)]
pub struct PolicyInputs {
    /// Workloads and autoscalers.
    pub view: watch::Receiver<View>,
    /// Policies and namespaces; empty while their kinds are not installed.
    pub policies: watch::Receiver<View>,
    /// Requests for the scale subresources of workloads.
    pub questions: ScaleRequests,
    /// Name of this recommender.
    pub recommender: String,
    /// Identity of this shard, for the status of cluster policies.
    pub shard: ShardIdentity,
    /// Number of concurrent writes.
    pub workers: usize,
}

/// The controller. Clones share everything.
#[derive(Clone)]
pub struct PolicyController {
    inputs: PolicyInputs,
    writer: Writer,
    metrics: PolicyMetrics,
}

/// State of one term of leadership.
struct TermState {
    metrics: PolicyMetrics,
    attempts: Attempts,
    /// Whether there is nothing to do until a policy changes.
    is_idle: bool,
    /// Time of the next reconciliation without a change.
    next: Instant,
    /// Duration of the last plan.
    plan_duration: Duration,
}

impl PolicyController {
    /// Creates the controller and registers its metrics.
    pub fn new(inputs: PolicyInputs, chassis: &Chassis) -> Result<Self, prometheus::Error> {
        Ok(Self {
            inputs,
            writer: Writer::new(chassis.object_writer()),
            metrics: PolicyMetrics::register(&chassis.registry)?,
        })
    }

    /// Runs until shutdown, or until it is dropped with the lease.
    pub async fn run(
        mut self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut term = TermState {
            metrics: self.metrics.clone(),
            attempts: Attempts::default(),
            is_idle: false,
            next: Instant::now(),
            plan_duration: Duration::ZERO,
        };
        let work = async {
            loop {
                self.reconcile(&mut term, &leading).await;
                self.wait(&term).await;
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }

    async fn wait(&mut self, term: &TermState) {
        tokio::select! {
            () = changed(&mut self.inputs.policies) => {}
            () = changed(&mut self.inputs.view), if !term.is_idle => {}
            () = sleep_until(term.next), if !term.is_idle => {}
        }
        sleep(SETTLE.max(term.plan_duration * COOLDOWN_FACTOR)).await;
    }

    /// Plans, writes the objects, and updates the status of each policy.
    async fn reconcile(&mut self, term: &mut TermState, leading: &Leading) {
        term.next = Instant::now() + RESYNC_INTERVAL;
        self.inputs.policies.mark_unchanged();
        self.inputs.view.mark_unchanged();
        let Some((policies, namespaces)) = self.current() else {
            return;
        };
        term.is_idle = policies.is_empty();
        let started = Instant::now();
        let plan = block_in_place(|| self.plan(&policies, &namespaces));
        term.plan_duration = started.elapsed();
        let plan = match plan {
            Some(Ok(plan)) => plan,
            Some(Err(error)) => {
                return tracing::error!(%error, "cannot plan the objects of sizing policies");
            }
            None => return,
        };
        self.inputs.questions.ask(plan.questions.clone());
        term.attempts
            .keep_only(&plan.writes.iter().map(|write| &write.key).collect());
        self.apply(plan, term, leading).await;
    }

    /// All policies and namespaces; `None` while a watch is down.
    fn current(&self) -> Option<(Vec<Arc<Policy>>, Table<Namespace>)> {
        let seen = self.inputs.policies.borrow();
        let policies = seen
            .policies
            .iter()
            .chain(seen.cluster_policies.iter())
            .cloned()
            .collect();
        is_current(&seen).then(|| (policies, seen.namespaces.clone()))
    }

    fn plan(
        &self,
        policies: &[Arc<Policy>],
        namespaces: &Table<Namespace>,
    ) -> Option<Result<Plan, serde_json::Error>> {
        if policies.is_empty() {
            return Some(Ok(Plan::default()));
        }
        let view = self.inputs.view.borrow();
        is_current(&view).then(|| {
            plan(&PlanInput {
                policies,
                namespaces,
                view: &view,
                recommender: &self.inputs.recommender,
            })
        })
    }

    async fn apply(&self, mut plan: Plan, term: &mut TermState, leading: &Leading) {
        let now = Instant::now();
        let all = plan.writes.iter().enumerate();
        let due = all
            .filter(|(_, write)| term.attempts.is_due(&write.key, now.into_std()))
            .map(|(index, _)| index);
        let mut chosen: BTreeSet<usize> = due.take(BATCH + 1).collect();
        if chosen.len() > BATCH {
            chosen.pop_last();
            term.next = now;
        }
        let summaries = &plan.summaries;
        let writes = plan
            .writes
            .iter()
            .enumerate()
            .filter(|(index, _)| chosen.contains(index));
        let writing = stream::iter(writes).map(async |(index, write)| {
            let policy = &summaries[write.summary].policy;
            (
                index,
                self.writer
                    .write(&write.key, &write.action, policy, leading)
                    .await,
            )
        });
        let outcomes: Vec<(usize, Result<WriteOutcome, String>)> = writing
            .buffer_unordered(self.inputs.workers)
            .collect()
            .await;
        let mut counts = vec![WriteCounts::default(); plan.summaries.len()];
        for (index, outcome) in outcomes {
            let write = &plan.writes[index];
            let result = outcome.as_ref().copied().unwrap_or(WriteOutcome::Failed);
            self.metrics.written(&write.action, result);
            match outcome {
                Ok(WriteOutcome::NotLeading) => return,
                Ok(_) => {
                    plan.summaries[write.summary].written(&write.action);
                    counts[write.summary].add(&write.action);
                    term.attempts.succeeded(&write.key);
                }
                Err(problem) => {
                    let now = Instant::now().into_std();
                    term.attempts
                        .failed(write.key.clone(), problem, now, rand::random());
                }
            }
        }
        self.metrics.counted(&plan.summaries);
        self.update_statuses(&plan, &counts, term, leading).await;
        term.next = term
            .attempts
            .next()
            .map(Instant::from_std)
            .into_iter()
            .fold(term.next, Instant::min);
    }

    /// Writes changed statuses and their events.
    async fn update_statuses(
        &self,
        plan: &Plan,
        counts: &[WriteCounts],
        term: &mut TermState,
        leading: &Leading,
    ) {
        // By summary.
        let mut failures: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for write in &plan.writes {
            if let Some(problem) = term.attempts.problem(&write.key) {
                failures.entry(write.summary).or_default().push(problem);
            }
        }
        let now = Timestamp::now();
        let statuses =
            plan.summaries
                .iter()
                .zip(counts)
                .enumerate()
                .map(|(index, (summary, counts))| {
                    let failed = failures.get(&index).map(Vec::as_slice).unwrap_or_default();
                    (
                        &summary.policy,
                        status_update(self.inputs.shard, summary, failed, now),
                        counts,
                    )
                });
        let updating =
            stream::iter(statuses.collect::<Vec<_>>()).map(async |(policy, update, counts)| {
                let outcome = if update.is_known(policy) {
                    Ok(WriteOutcome::Written)
                } else {
                    self.writer.write_status(policy, &update, leading).await
                };
                if outcome == Ok(WriteOutcome::Written) {
                    self.writer
                        .record_events(policy, &update.events(policy), counts)
                        .await;
                }
                outcome.is_err()
            });
        let failed: Vec<bool> = updating
            .buffer_unordered(self.inputs.workers)
            .collect()
            .await;
        if failed.contains(&true) {
            term.next = term.next.min(Instant::now() + RETRY);
        }
    }
}

impl Drop for TermState {
    /// Resets the metrics: a standby manages nothing.
    fn drop(&mut self) {
        self.metrics.counted(&[]);
    }
}

fn is_current(view: &View) -> bool {
    view.is_synced() && view.stale_since().is_none()
}

/// Waits for a change; for ever once the view has no writer.
async fn changed(view: &mut watch::Receiver<View>) {
    if view.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
