//! One candidate's way to leadership and through it. The rules are in [`crate::lease`]; what it
//! knows of the Lease object is in `candidate/observed_lease.rs`.

mod observed_lease;
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
use observed_lease::ObservedLease;

/// Conflicting writes in one attempt before it counts as failed.
const MAX_CONFLICTS: u32 = 3;

/// How long a leaving leader tries to give the lease away.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Wants to lead under one name.
pub(crate) struct Candidate {
    lease: ObservedLease,
    name: String,
    identity: String,
    timings: Timings,
    /// Dates what is written. No decision follows from it.
    clock: ApiServerClock,
    /// A write of ours was sent and may have arrived, whatever became of its answer.
    may_be_held: bool,
}

enum Attempt {
    /// The lease is ours, from the moment at which the request that made it so was sent.
    Held { since: Instant },
    /// Another's, for at least this long unless it is released.
    HeldByOther { wait: Duration },
}

impl Candidate {
    pub(crate) fn new(
        api: Api<Lease>,
        name: String,
        identity: String,
        timings: Timings,
        clock: ApiServerClock,
    ) -> Self {
        // No answer is awaited for longer than leaves time for a second request before the renew
        // deadline.
        let lease = ObservedLease::new(api, name.clone(), timings.renew_deadline / 2);
        Self {
            lease,
            name,
            identity,
            timings,
            clock,
            may_be_held: false,
        }
    }

    /// The same; while it holds the lease, that has these annotations beside others.
    pub(crate) fn with_annotations(self, annotations: BTreeMap<String, String>) -> Self {
        Self {
            lease: self.lease.with_annotations(annotations),
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
                identity = self.identity,
                "waiting for leadership"
            );
            let Some(since) = shutdown.run_until_cancelled(self.acquire()).await else {
                self.release().await;
                return Ok(());
            };
            tracing::info!(lease = self.name, "leading");
            status.set(1);
            let leading =
                Leading::new(self.lease.term(), Some(since + self.timings.renew_deadline));
            let stop = CancellationToken::new();
            // In a task of its own: work that computes for long must not keep the lease from being
            // renewed, or its loss from being told.
            let mut renewal = AbortOnDropHandle::new(tokio::spawn(self.renew_until(
                stop.clone(),
                since,
                leading.clone(),
            )));
            let ended = tokio::select! {
                ended = work(leading.clone()) => {
                    let is_lost = leading.lost().is_cancelled();
                    stop.cancel();
                    self = renewal.await?;
                    // Work may end well because its term is over, and be seen to before the
                    // candidate is back.
                    (!is_lost || ended.is_err()).then_some(ended)
                }
                candidate = &mut renewal => {
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

    async fn renew_until(
        mut self,
        stop: CancellationToken,
        since: Instant,
        leading: Leading,
    ) -> Self {
        stop.run_until_cancelled(self.renew(since, &leading)).await;
        leading.end();
        self
    }

    /// Returns once the lease is ours, with the time at which the request that took it was sent.
    async fn acquire(&mut self) -> Instant {
        let mut last_error = None;
        // What was known in an earlier term may be old.
        self.lease.forget_changes();
        let mut known = self.lease.refresh().await;
        loop {
            let step = match known {
                Ok(()) => self.attempt(false).await,
                Err(error) => Err(error),
            };
            let wait = match step {
                Ok(Attempt::Held { since }) => return since,
                Ok(Attempt::HeldByOther { wait }) => {
                    last_error = None;
                    wait
                }
                Err(error) => {
                    let error = error.to_string();
                    if last_error.as_ref() != Some(&error) {
                        tracing::warn!(lease = self.name, %error, "cannot take the lease; trying on");
                    }
                    last_error = Some(error);
                    Duration::MAX
                }
            };
            // client-go's jitter: candidates that start together do not ask together.
            let pause = self
                .timings
                .retry_period
                .mul_f64(1.0 + 1.2 * rand::random::<f64>());
            known = match tokio::time::timeout(pause.min(wait), self.lease.change()).await {
                Ok(()) => Ok(()),
                Err(_) => self.lease.refresh().await,
            };
        }
    }

    /// Renews until the lease is lost; then returns, at the latest when the renew deadline is over.
    async fn renew(&mut self, mut since: Instant, leading: &Leading) {
        let Timings {
            renew_deadline,
            retry_period,
            ..
        } = self.timings;
        loop {
            let attempt = async {
                tokio::time::sleep(retry_period).await;
                self.attempt(true).await
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
                Ok(Attempt::Held { since: sent }) => {
                    since = sent;
                    leading.extend(since + renew_deadline);
                }
                Ok(Attempt::HeldByOther { .. }) => {
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
    async fn attempt(&mut self, holding: bool) -> kube::Result<Attempt> {
        let mut conflicts = 0;
        loop {
            let spec = self.lease.spec();
            let since = now();
            let unchanged_since = self.lease.unchanged_since();
            let written = match decide(
                spec.as_ref(),
                unchanged_since,
                since,
                &self.identity,
                self.timings.lease_duration,
            ) {
                Action::Wait(wait) => return Ok(Attempt::HeldByOther { wait }),
                // Whoever gave the lease away while we held it meant another to lead.
                Action::Take if holding => {
                    return Ok(Attempt::HeldByOther {
                        wait: Duration::ZERO,
                    });
                }
                Action::Create | Action::Take | Action::Renew => {
                    self.may_be_held = true;
                    let spec = held(
                        spec.as_ref(),
                        &self.identity,
                        self.timings.lease_duration,
                        self.clock.timestamp(),
                    );
                    self.lease.write(spec).await
                }
            };
            match written {
                Ok(()) => return Ok(Attempt::Held { since }),
                Err(error) if conflicts < MAX_CONFLICTS && is_outdated(&error) => {
                    conflicts += 1;
                    self.lease.refresh().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the lease away if it is ours, so that the next candidate need not wait for it to run
    /// out.
    async fn release(&mut self) {
        if !self.may_be_held {
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
            self.lease.refresh().await?;
            let Some(spec) = self.lease.spec() else {
                return Ok(false);
            };
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(false);
            }
            match self
                .lease
                .write(released(&spec, self.clock.timestamp()))
                .await
            {
                Ok(()) => {
                    self.may_be_held = false;
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
