//! The heartbeat: a Lease that every replica renews. The updater evicts pods only while it is
//! valid, because new pods get their recommended size then.
//!
//! Source: upstream `pkg/utils/status/status_object.go`. A new Lease has no `renewTime`; its
//! creation counts.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use runtime::{ApiServerClock, Backoff};
use tokio::sync::watch;

/// Retries of one renewal, as upstream's client.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(100),
    cap: Duration::from_millis(900),
    tries: 3,
};

#[derive(Debug, Clone)]
pub struct Heartbeat {
    pub leases: Api<Lease>,
    /// The API server's time, set by the client of `leases`.
    pub clock: ApiServerClock,
    pub name: String,
    pub holder: String,
    pub interval: Duration,
}

impl Heartbeat {
    /// Renews the Lease while the webhook is `in_effect`. Ends when the sender is dropped. A failed
    /// renewal is logged.
    pub async fn run(self, mut in_effect: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while in_effect.wait_for(|is| *is).await.is_ok() {
            ticks.tick().await;
            if !*in_effect.borrow() {
                tracing::warn!(
                    lease = self.name,
                    "not renewing the heartbeat: the API server refuses the certificate"
                );
                continue;
            }
            match tokio::time::timeout(self.interval, self.renew()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "cannot renew the heartbeat");
                }
                Err(_) => tracing::warn!(lease = self.name, "renewing the heartbeat timed out"),
            }
        }
    }

    async fn renew(&self) -> kube::Result<()> {
        let renewed = BACKOFF.retry(|| self.try_renew()).await;
        match renewed {
            // Another replica has renewed it.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            renewed => renewed,
        }
    }

    async fn try_renew(&self) -> kube::Result<()> {
        let params = PostParams::default();
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let mut lease = Lease::default();
            lease.metadata.name = Some(self.name.clone());
            let seconds = i32::try_from(self.interval.as_secs()).unwrap_or(i32::MAX);
            lease.spec = Some(LeaseSpec {
                holder_identity: Some(self.holder.clone()),
                lease_duration_seconds: Some(seconds),
                ..LeaseSpec::default()
            });
            return self.leases.create(&params, &lease).await.map(drop);
        };
        let spec = lease.spec.get_or_insert_default();
        let last = spec.renew_time.as_ref().map(|time| time.0);
        let renewed = renew_time(last, self.clock.timestamp(), self.interval);
        spec.renew_time = Some(MicroTime(renewed));
        spec.holder_identity = Some(self.holder.clone());
        let replaced = self.leases.replace(&self.name, &params, &lease).await;
        replaced.map(drop)
    }
}

/// The `renewTime` to write at `now`. A `last` one at most `interval` ahead is kept, so that
/// replicas with different clocks do not move it back. One further ahead comes from a wrong clock,
/// and would keep the Lease valid without renewals.
fn renew_time(last: Option<Timestamp>, now: Timestamp, interval: Duration) -> Timestamp {
    let is_plausible = |last: &Timestamp| {
        *last > now
            && Duration::try_from(last.duration_since(now)).is_ok_and(|ahead| ahead <= interval)
    };
    last.filter(is_plausible).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_renew_time_moves_back_only_if_it_is_implausible() {
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).expect("in range");
        let interval = Duration::from_secs(10);
        let far = (17_280_000, 0, 0);
        for (last, now, expected) in [
            (0, 7, 7),
            (5, 0, 5),
            (10, 0, 10),
            (11, 0, 0),
            far,
            (0, 0, 0),
        ] {
            let renewed = renew_time(Some(at(last)), at(now), interval);
            assert_eq!(renewed, at(expected), "{last} {now}");
        }
        assert_eq!(renew_time(None, at(3), interval), at(3));
    }
}
