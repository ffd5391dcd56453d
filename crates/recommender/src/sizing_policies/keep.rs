//! Keeps the objects of policies current for one term of leadership: after every change that has
//! settled for a moment, and now and then without one. Nothing is done while a watch is down: what
//! is not seen may be there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ::watch::ScaleRequests;
use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;
use runtime::Leading;
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use vertical::policies::plan::{Plan, Scene, plan};
use vertical::policies::status::{Speaker, say};
use view::{Namespace, Policy, Table, View};

use super::attempts::Attempts;
use crate::act::policy::{Made, Writer};
use crate::metrics::PolicyMetrics;
use crate::outcome::PolicyOutcome;

/// How long changes gather before they are looked at together.
const SETTLE: Duration = Duration::from_secs(1);
/// How often everything is looked at without a change.
const SAFETY_NET: Duration = Duration::from_mins(5);
/// Of many workloads it takes a while to look at all; this many times as long goes by before the
/// next look.
const REST: u32 = 20;
/// How soon a status is written again that could not be.
const RETRY: Duration = Duration::from_secs(5);
/// Objects that are written before everything is looked at again: a change of mind takes effect
/// soon.
const BATCH: usize = 500;

/// What keeps the objects of policies current.
#[derive(Clone)]
pub(crate) struct Keeper {
    /// Workloads and autoscalers.
    pub(crate) view: watch::Receiver<View>,
    /// Policies and namespaces. Empty as long as their kinds are not installed.
    pub(crate) policies: watch::Receiver<View>,
    pub(crate) questions: ScaleRequests,
    pub(crate) recommender: String,
    /// Who says what becomes of a policy of the cluster.
    pub(crate) speaker: Speaker,
    pub(crate) writer: Writer,
    /// How many objects are written at the same time.
    pub(crate) workers: usize,
    pub(crate) metrics: PolicyMetrics,
}

/// What is remembered for one term.
struct Term {
    metrics: PolicyMetrics,
    attempts: Attempts,
    /// Whether there is nothing to do as long as no policy changes.
    is_idle: bool,
    /// When to look again, even without a change.
    next: Instant,
    /// How long the last look took.
    took: Duration,
}

impl Keeper {
    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(
        mut self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut term = Term {
            metrics: self.metrics.clone(),
            attempts: Attempts::default(),
            is_idle: false,
            next: Instant::now(),
            took: Duration::ZERO,
        };
        let work = async {
            loop {
                self.pass(&mut term, &leading).await;
                self.wait(&term).await;
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }

    async fn wait(&mut self, term: &Term) {
        tokio::select! {
            () = changed(&mut self.policies) => {}
            () = changed(&mut self.view), if !term.is_idle => {}
            () = sleep_until(term.next), if !term.is_idle => {}
        }
        sleep(SETTLE.max(term.took * REST)).await;
    }

    /// Looks, writes what has to be, and says of each policy what came of it.
    async fn pass(&mut self, term: &mut Term, leading: &Leading) {
        term.next = Instant::now() + SAFETY_NET;
        self.policies.mark_unchanged();
        self.view.mark_unchanged();
        let Some((policies, namespaces)) = self.seen() else {
            return;
        };
        term.is_idle = policies.is_empty();
        let started = Instant::now();
        let plan = block_in_place(|| self.plan(&policies, &namespaces));
        term.took = started.elapsed();
        let plan = match plan {
            Some(Ok(plan)) => plan,
            Some(Err(error)) => {
                return tracing::error!(%error, "cannot plan the objects of sizing policies");
            }
            None => return,
        };
        self.questions.ask(plan.questions.clone());
        term.attempts
            .keep_only(&plan.writes.iter().map(|write| &write.key).collect());
        self.carry_out(plan, term, leading).await;
    }

    /// All policies and namespaces; nothing while they may have changed without notice.
    fn seen(&self) -> Option<(Vec<Arc<Policy>>, Table<Namespace>)> {
        let seen = self.policies.borrow();
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
        let view = self.view.borrow();
        is_current(&view).then(|| {
            plan(&Scene {
                policies,
                namespaces,
                view: &view,
                recommender: &self.recommender,
            })
        })
    }

    async fn carry_out(&self, mut plan: Plan, term: &mut Term, leading: &Leading) {
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
        let tallies = &plan.tallies;
        let writes = plan
            .writes
            .iter()
            .enumerate()
            .filter(|(index, _)| chosen.contains(index));
        let writing = stream::iter(writes).map(async |(index, write)| {
            let policy = &tallies[write.tally].policy;
            (
                index,
                self.writer
                    .write(&write.key, &write.action, policy, leading)
                    .await,
            )
        });
        let outcomes: Vec<(usize, PolicyOutcome)> =
            writing.buffer_unordered(self.workers).collect().await;
        let mut made = vec![Made::default(); plan.tallies.len()];
        for (index, outcome) in outcomes {
            let write = &plan.writes[index];
            self.metrics.written(&write.action, &outcome);
            match outcome {
                PolicyOutcome::Written => {
                    plan.tallies[write.tally].written(&write.action);
                    made[write.tally].add(&write.action);
                    term.attempts.succeeded(&write.key);
                }
                PolicyOutcome::Failed(problem) => {
                    let now = Instant::now().into_std();
                    term.attempts
                        .failed(write.key.clone(), problem, now, rand::random());
                }
                PolicyOutcome::NotLeading => return,
            }
        }
        self.metrics.counted(&plan.tallies);
        self.say(&plan, &made, term, leading).await;
        term.next = term
            .attempts
            .next()
            .map(Instant::from_std)
            .into_iter()
            .fold(term.next, Instant::min);
    }

    /// Writes the statuses that changed, and tells people what is new.
    async fn say(&self, plan: &Plan, made: &[Made], term: &mut Term, leading: &Leading) {
        // By tally.
        let mut failures: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for write in &plan.writes {
            if let Some(problem) = term.attempts.problem(&write.key) {
                failures.entry(write.tally).or_default().push(problem);
            }
        }
        let now = Timestamp::now();
        let statuses = plan
            .tallies
            .iter()
            .zip(made)
            .enumerate()
            .map(|(index, (tally, made))| {
                let failed = failures.get(&index).map(Vec::as_slice).unwrap_or_default();
                (&tally.policy, say(self.speaker, tally, failed, now), made)
            });
        let saying =
            stream::iter(statuses.collect::<Vec<_>>()).map(async |(policy, said, made)| {
                let outcome = if said.is_known(policy) {
                    PolicyOutcome::Written
                } else {
                    self.writer.write_status(policy, &said, leading).await
                };
                if outcome == PolicyOutcome::Written {
                    self.writer.tell(policy, &said.news(policy), made).await;
                }
                matches!(outcome, PolicyOutcome::Failed(_))
            });
        let failed: Vec<bool> = saying.buffer_unordered(self.workers).collect().await;
        if failed.contains(&true) {
            term.next = term.next.min(Instant::now() + RETRY);
        }
    }
}

impl Drop for Term {
    /// A stand-by manages nothing.
    fn drop(&mut self) {
        self.metrics.counted(&[]);
    }
}

fn is_current(view: &View) -> bool {
    view.is_synced() && view.stale_since().is_none()
}

/// Once nobody feeds the view any more, the process is about to end.
async fn changed(view: &mut watch::Receiver<View>) {
    if view.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
