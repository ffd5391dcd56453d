//! Controller of the CA bundles that the API server verifies a server with.
//!
//! The bundles are in objects such as `APIService`. A server certificate may be replaced only after
//! its CA is in all of them, so one loop rotates or reloads the certificates, writes their CA
//! bundle to the objects, and verifies the served certificate against the bundles found there.

use std::time::{Duration, Instant};

use runtime::{Activity, ApiServerClock, LogOnce};
use tokio::sync::watch;

use crate::certificates::{CertificateMonitor, Certificates, ObservedCaBundle, Verification};

/// The prefix of annotations with which cert-manager injects a CA bundle into an object.
pub const CERT_MANAGER_INJECT: &str = "cert-manager.io/inject-";

/// The time after which objects that cannot be reconciled count as missing.
const LONGEST_FAILURE: Duration = Duration::from_mins(1);

pub trait CaBundleObjects {
    /// Reads the objects and writes `bundle` to those that this program maintains and that have
    /// another one. `None` writes nothing, because another program maintains the bundle.
    fn reconcile(
        &mut self,
        bundle: Option<&str>,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// The bundle that the API server uses, by the last reconciliation; `None` if unknown or not
    /// the same everywhere.
    fn trusted(&self) -> Option<&str>;

    /// The bundles found by the last reconciliation.
    fn observed(&self) -> Vec<ObservedCaBundle>;
}

/// The bundle of clients that have a copy of it, which cannot be read here: they count as having the
/// present one.
#[derive(Debug)]
pub struct CopiedBundle {
    server_name: String,
    bundle: Option<String>,
}

impl CopiedBundle {
    /// The bundle of clients that verify `server_name`.
    pub fn new(server_name: String) -> Self {
        Self {
            server_name,
            bundle: None,
        }
    }
}

impl CaBundleObjects for CopiedBundle {
    async fn reconcile(&mut self, bundle: Option<&str>) -> anyhow::Result<()> {
        self.bundle = bundle.map(str::to_owned);
        Ok(())
    }

    fn trusted(&self) -> Option<&str> {
        self.bundle.as_deref()
    }

    fn observed(&self) -> Vec<ObservedCaBundle> {
        let observed = |bundle: &String| ObservedCaBundle {
            object: "clients".to_owned(),
            name: self.server_name.clone(),
            bundle: bundle.clone(),
        };
        self.bundle.iter().map(observed).collect()
    }
}

pub struct Controller<T> {
    certificates: Certificates,
    objects: T,
    monitor: CertificateMonitor,
    clock: ApiServerClock,
    /// Interval between reconciliations while nothing changes.
    resync: Duration,
    last: Option<Reconciliation>,
    logged: LogOnce<String>,
    in_effect: watch::Sender<bool>,
}

struct Reconciliation {
    bundle: Option<String>,
    at: Instant,
}

impl Reconciliation {
    /// Whether another one is due at `now`.
    fn is_outdated(&self, bundle: Option<&str>, resync: Duration, now: Instant) -> bool {
        self.bundle.as_deref() != bundle || now.saturating_duration_since(self.at) >= resync
    }
}

impl<T: CaBundleObjects> Controller<T> {
    /// Returns a controller that reconciles `objects` every `resync` while nothing changes. With
    /// self-managed certificates it reconciles on each pass, since a rotation waits for the result.
    /// `clock` is the API server's time.
    pub fn new(
        certificates: Certificates,
        objects: T,
        monitor: CertificateMonitor,
        clock: ApiServerClock,
        resync: Duration,
    ) -> Self {
        Self {
            certificates,
            objects,
            monitor,
            clock,
            resync,
            last: None,
            logged: LogOnce::default(),
            in_effect: watch::Sender::default(),
        }
    }

    /// Whether the objects could be reconciled within the last minute and the API server does not
    /// refuse the served certificate. `false` until the first pass.
    pub fn in_effect(&self) -> watch::Receiver<bool> {
        self.in_effect.subscribe()
    }

    /// Runs forever. Records each pass in `activity`.
    pub async fn run(mut self, activity: Activity) {
        let mut reconciled_at = None;
        loop {
            activity.record(Instant::now());
            let refreshed = self
                .certificates
                .refresh(self.objects.trusted(), self.clock.now())
                .await;
            let reconciled = self.reconcile().await;
            if reconciled.is_ok() {
                reconciled_at = Some(Instant::now());
            }
            let verification = self
                .monitor
                .check(
                    &self.certificates,
                    &self.objects.observed(),
                    self.clock.now(),
                )
                .await;
            let in_effect =
                verification != Verification::Failed && are_in_place(reconciled_at, Instant::now());
            self.in_effect
                .send_if_modified(|known| std::mem::replace(known, in_effect) != in_effect);
            if matches!(verification, Verification::Suspect | Verification::Failed) {
                self.last = None;
            }
            self.log(refreshed.and(reconciled));
            tokio::time::sleep(self.certificates.period()).await;
        }
    }

    async fn reconcile(&mut self) -> anyhow::Result<()> {
        let bundle = self.certificates.bundle();
        let is_due = self.certificates.are_managed()
            || self.last.as_ref().is_none_or(|last| {
                last.is_outdated(bundle.as_deref(), self.resync, Instant::now())
            });
        if !is_due {
            return Ok(());
        }
        self.objects.reconcile(bundle.as_deref()).await?;
        let at = Instant::now();
        self.last = Some(Reconciliation { bundle, at });
        Ok(())
    }

    fn log(&mut self, result: anyhow::Result<()>) {
        let error = result.err().map(|error| format!("{error:#}"));
        if let Some(error) = self.logged.update(error) {
            tracing::warn!(
                error,
                "cannot update certificates or CA bundles; keeping them and retrying"
            );
        }
    }
}

/// Whether the objects count as in place: one that was deleted and cannot be rewritten is not.
fn are_in_place(reconciled_at: Option<Instant>, now: Instant) -> bool {
    reconciled_at.is_some_and(|at| now.saturating_duration_since(at) < LONGEST_FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_cannot_be_reconciled_for_a_minute_are_not_in_place() {
        let now = Instant::now();
        assert!(!are_in_place(None, now));
        assert!(are_in_place(Some(now), now + Duration::from_secs(59)));
        assert!(!are_in_place(Some(now), now + Duration::from_mins(1)));
    }

    #[test]
    fn reconciliations_are_due_after_a_change_and_after_the_interval() {
        let (at, resync) = (Instant::now(), Duration::from_secs(15));
        for (old, new, seconds, expected) in [
            (None, None, 0, false),
            (None, None, 15, true),
            (Some("a"), Some("a"), 14, false),
            (Some("a"), Some("a"), 15, true),
            (Some("a"), Some("b"), 0, true),
            (None, Some("a"), 0, true),
            (Some("a"), None, 0, true),
        ] {
            let bundle = old.map(str::to_owned);
            let last = Reconciliation { bundle, at };
            let now = at + Duration::from_secs(seconds);
            let is_outdated = last.is_outdated(new, resync, now);
            assert_eq!(is_outdated, expected, "{old:?} {new:?} {seconds}");
        }
    }
}
