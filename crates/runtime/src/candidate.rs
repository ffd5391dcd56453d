//! A candidate of leader election: acquires a Lease, renews it while the work runs, and releases
//! it. The rules are in [`crate::lease`].

mod observed_lease;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use prometheus::IntGauge;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::api_server_clock::{ApiServerClock, steady as now};
use crate::leader_term::Leading;
use crate::lease::{Action, Timings, decide, held, released};
use crate::log::LogOnce;
use observed_lease::ObservedLease;

const MAX_CONFLICTS: u32 = 3;

const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Candidate {
    lease: ObservedLease,
    name: String,
    identity: String,
    timings: Timings,
    /// The time that is written to the Lease. No decision depends on it.
    clock: ApiServerClock,
    /// Whether a write was sent that may have succeeded, even if its response was lost.
    may_be_held: bool,
}

enum Attempt {
    /// This candidate holds the Lease since it sent the request that acquired it.
    Held { since: Instant },
    /// Another candidate holds the Lease, for at least this long unless it is released.
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
        // Half of the renew deadline leaves time for a second request.
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

    /// Adds annotations to the Lease while this candidate holds it.
    pub(crate) fn with_annotations(mut self, annotations: BTreeMap<String, String>) -> Self {
        self.lease.annotations = annotations;
        self
    }

    /// Acquires the Lease and runs `work` while it is held, again and again until `work` returns.
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
            // A task of its own, so that work that blocks for long delays neither renewals nor the
            // notice of a lost Lease.
            let (stopped, term) = (stop.clone(), leading.clone());
            let mut renewal = AbortOnDropHandle::new(tokio::spawn(async move {
                stopped.run_until_cancelled(self.renew(since, &term)).await;
                term.end();
                self
            }));
            let ended = tokio::select! {
                ended = work(leading.clone()) => {
                    let is_lost = leading.lost().is_cancelled();
                    stop.cancel();
                    self = renewal.await?;
                    // Work may return because the term is over, before the renewal does.
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

    /// Returns once the Lease is acquired, with the time at which the request was sent.
    async fn acquire(&mut self) -> Instant {
        let mut logged = LogOnce::default();
        // The watch of an earlier term may be outdated.
        self.lease.changes = None;
        let mut known = self.lease.refresh().await;
        loop {
            let step = match known {
                Ok(()) => self.attempt(false).await,
                Err(error) => Err(error),
            };
            let wait = match step {
                Ok(Attempt::Held { since }) => return since,
                Ok(Attempt::HeldByOther { wait }) => {
                    logged.clear();
                    wait
                }
                Err(error) => {
                    if logged.is_new(error.to_string()) {
                        tracing::warn!(lease = self.name, %error, "cannot take the lease; retrying");
                    }
                    Duration::MAX
                }
            };
            // client-go's jitter, so that candidates that start together do not retry together.
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

    /// Renews until the Lease is lost, at the latest until the renew deadline.
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
                        "leadership lost: another candidate holds the lease"
                    );
                    return;
                }
                Err(error) => tracing::warn!(lease = self.name, %error, "cannot renew the lease"),
            }
        }
    }

    /// Makes one attempt to acquire or renew the Lease. Reads it again after a conflict.
    async fn attempt(&mut self, holding: bool) -> kube::Result<Attempt> {
        let mut conflicts = 0;
        loop {
            let spec = self.lease.spec();
            let since = now();
            let unchanged_since = self.lease.unchanged_since;
            let written = match decide(
                spec.as_ref(),
                unchanged_since,
                since,
                &self.identity,
                self.timings.lease_duration,
            ) {
                Action::Wait(wait) => return Ok(Attempt::HeldByOther { wait }),
                // A holder that was removed should let another candidate lead.
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

    /// Releases the Lease if it is held, so that the next candidate need not wait until it expires.
    async fn release(&mut self) {
        if !self.may_be_held {
            return;
        }
        match tokio::time::timeout(RELEASE_TIMEOUT, self.try_release()).await {
            Ok(Ok(true)) => tracing::info!(lease = self.name, "released the lease"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(lease = self.name, %error, "cannot release the lease; it will expire");
            }
            Err(_) => tracing::warn!(
                lease = self.name,
                "timed out releasing the lease; it will expire"
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
                // An earlier renewal has arrived meanwhile.
                Err(error) if conflicts < MAX_CONFLICTS && is_outdated(&error) => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether another writer has changed, created or deleted the Lease since it was read.
fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}
