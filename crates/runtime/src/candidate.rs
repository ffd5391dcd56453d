//! One candidate's way to leadership and through it. The rules are in [`crate::lease`]; what it
//! knows of the Lease object is in `candidate/record.rs`.

mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use http::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use prometheus::IntGauge;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::clock::{ApiServerClock, steady as now};
use crate::leading::Leading;
use crate::lease::{Action, Timings, decide, held, released};
use record::Record;

/// Conflicting writes in one attempt before it counts as failed.
const MAX_CONFLICTS: u32 = 3;

/// How long a leaving leader tries to give the lease away.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Wants to lead under one name.
pub(crate) struct Candidate {
    record: Record,
    name: String,
    me: String,
    timings: Timings,
    /// Dates what is written. No decision follows from it.
    clock: ApiServerClock,
    /// A write of ours was sent and may have arrived, whatever became of its answer.
    perhaps_held: bool,
}

enum Step {
    /// The lease is ours, from the moment at which the request that made it so was sent.
    Held { since: Instant },
    /// Another's, for at least this long unless it is released.
    Theirs { wait: Duration },
}

impl Candidate {
    pub(crate) fn new(
        api: Api<Lease>,
        name: String,
        me: String,
        timings: Timings,
        clock: ApiServerClock,
    ) -> Self {
        // No answer is awaited for longer than leaves time for a second request before the renew
        // deadline.
        let record = Record::new(api, name.clone(), timings.renew_deadline / 2);
        Self {
            record,
            name,
            me,
            timings,
            clock,
            perhaps_held: false,
        }
    }

    /// The same; while it holds the lease, that has these annotations beside others.
    pub(crate) fn annotating(self, annotations: BTreeMap<String, String>) -> Self {
        Self {
            record: self.record.annotating(annotations),
            ..self
        }
    }

    /// Takes the lease, runs `work` while it lasts, and begins again when it is lost; ends when
    /// `work` returns.
    pub(crate) async fn lead<W>(
        mut self,
        shutdown: &CancellationToken,
        status: &IntGauge,
        work: &mut impl FnMut(Leading) -> W,
    ) -> anyhow::Result<()>
    where
        W: Future<Output = anyhow::Result<()>>,
    {
        loop {
            tracing::info!(
                lease = self.name,
                identity = self.me,
                "waiting for leadership"
            );
            let Some(since) = shutdown.run_until_cancelled(self.acquire()).await else {
                self.release().await;
                return Ok(());
            };
            tracing::info!(lease = self.name, "leading");
            status.set(1);
            let leading = Leading::new(
                self.record.term(),
                Some(since + self.timings.renew_deadline),
            );
            let enough = CancellationToken::new();
            // In a task of its own: work that computes for long must not keep the lease from being
            // renewed, or its loss from being told.
            let mut holding = AbortOnDropHandle::new(tokio::spawn(self.hold_until(
                enough.clone(),
                since,
                leading.clone(),
            )));
            let ended = tokio::select! {
                ended = work(leading.clone()) => {
                    let is_lost = leading.lost().is_cancelled();
                    enough.cancel();
                    self = holding.await?;
                    // Work may end well because its term is over, and be seen to before the
                    // candidate is back.
                    (!is_lost || ended.is_err()).then_some(ended)
                }
                candidate = &mut holding => {
                    self = candidate?;
                    None
                }
            };
            status.set(0);
            if let Some(ended) = ended {
                self.release().await;
                return ended;
            }
        }
    }

    async fn hold_until(
        mut self,
        enough: CancellationToken,
        since: Instant,
        leading: Leading,
    ) -> Self {
        enough.run_until_cancelled(self.hold(since, &leading)).await;
        leading.end();
        self
    }

    /// Returns once the lease is ours, with the time at which the request that took it was sent.
    async fn acquire(&mut self) -> Instant {
        let mut said = None;
        // What was known in an earlier term may be old.
        self.record.forget_changes();
        let mut known = self.record.refresh().await;
        loop {
            let step = match known {
                Ok(()) => self.step(false).await,
                Err(error) => Err(error),
            };
            let wait = match step {
                Ok(Step::Held { since }) => return since,
                Ok(Step::Theirs { wait }) => {
                    said = None;
                    wait
                }
                Err(error) => {
                    let error = error.to_string();
                    if said.as_ref() != Some(&error) {
                        tracing::warn!(lease = self.name, %error, "cannot take the lease; trying on");
                    }
                    said = Some(error);
                    Duration::MAX
                }
            };
            // client-go's jitter: candidates that start together do not ask together.
            let pause = self
                .timings
                .retry_period
                .mul_f64(1.0 + 1.2 * rand::random::<f64>());
            known = match tokio::time::timeout(pause.min(wait), self.record.change()).await {
                Ok(()) => Ok(()),
                Err(_) => self.record.refresh().await,
            };
        }
    }

    /// Renews until the lease is lost; then returns, at the latest when the renew deadline is over.
    async fn hold(&mut self, mut since: Instant, leading: &Leading) {
        let Timings {
            renew_deadline,
            retry_period,
            ..
        } = self.timings;
        loop {
            let attempt = async {
                tokio::time::sleep(retry_period).await;
                self.step(true).await
            };
            let attempt = tokio::select! {
                biased;
                () = tokio::time::sleep_until((since + renew_deadline).into()) => {
                    tracing::error!(lease = self.name, ?renew_deadline, "leadership lost: not renewed in time");
                    return;
                }
                attempt = attempt => attempt,
            };
            match attempt {
                Ok(Step::Held { since: sent }) => {
                    since = sent;
                    leading.extend(since + renew_deadline);
                }
                Ok(Step::Theirs { .. }) => {
                    tracing::error!(
                        lease = self.name,
                        "leadership lost: the lease is no longer ours"
                    );
                    return;
                }
                Err(error) => tracing::warn!(lease = self.name, %error, "cannot renew the lease"),
            }
        }
    }

    /// Does what the rules say about the lease as last seen; reads it again when a write shows that
    /// it has changed.
    async fn step(&mut self, holding: bool) -> kube::Result<Step> {
        let mut conflicts = 0;
        loop {
            let spec = self.record.spec();
            let since = now();
            let unchanged_since = self.record.unchanged_since();
            let written = match decide(
                spec.as_ref(),
                unchanged_since,
                since,
                &self.me,
                self.timings.lease_duration,
            ) {
                Action::Wait(wait) => return Ok(Step::Theirs { wait }),
                // Whoever gave the lease away while we held it meant another to lead.
                Action::Take if holding => {
                    return Ok(Step::Theirs {
                        wait: Duration::ZERO,
                    });
                }
                Action::Create | Action::Take | Action::Renew => {
                    self.perhaps_held = true;
                    let spec = held(
                        spec.as_ref(),
                        &self.me,
                        self.timings.lease_duration,
                        self.clock.timestamp(),
                    );
                    self.record.write(spec).await
                }
            };
            match written {
                Ok(()) => return Ok(Step::Held { since }),
                Err(error) if conflicts < MAX_CONFLICTS && is_outdated(&error) => {
                    conflicts += 1;
                    self.record.refresh().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the lease away if it is ours, so that the next candidate need not wait for it to run
    /// out.
    async fn release(&mut self) {
        if !self.perhaps_held {
            return;
        }
        match tokio::time::timeout(RELEASE_TIMEOUT, self.try_release()).await {
            Ok(Ok(true)) => tracing::info!(lease = self.name, "released the lease"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(lease = self.name, %error, "cannot release the lease; it will run out")
            }
            Err(_) => tracing::warn!(
                lease = self.name,
                "no answer to releasing the lease; it will run out"
            ),
        }
    }

    async fn try_release(&mut self) -> kube::Result<bool> {
        let mut conflicts = 0;
        loop {
            self.record.refresh().await?;
            let Some(spec) = self.record.spec() else {
                return Ok(false);
            };
            if spec.holder_identity.as_deref() != Some(&self.me) {
                return Ok(false);
            }
            match self
                .record
                .write(released(&spec, self.clock.timestamp()))
                .await
            {
                Ok(()) => {
                    self.perhaps_held = false;
                    return Ok(true);
                }
                // A renewal of ours that was under way has arrived.
                Err(error) if conflicts < MAX_CONFLICTS && is_outdated(&error) => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Someone else wrote, created or deleted the lease since we read it.
fn is_outdated(error: &kube::Error) -> bool {
    let outdated = [
        StatusCode::CONFLICT.as_u16(),
        StatusCode::NOT_FOUND.as_u16(),
    ];
    matches!(error, kube::Error::Api(status) if outdated.contains(&status.code))
}
