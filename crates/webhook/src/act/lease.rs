//! The heartbeat by which the updater knows that evicted pods come back resized: a Lease that every
//! replica renews.
//!
//! Source: upstream `pkg/utils/status/status_object.go`. A new Lease has no time of renewal; its
//! creation counts.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use runtime::{ApiServerClock, Backoff};
use tokio::sync::watch;

/// As often and as long as upstream's client tries.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(100),
    cap: Duration::from_millis(900),
    tries: 3,
};

/// The heartbeat of one replica.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The Leases of its namespace.
    pub leases: Api<Lease>,
    /// The API server's time, which the client of `leases` sets.
    pub clock: ApiServerClock,
    /// The name of the Lease.
    pub name: String,
    /// The replica.
    pub holder: String,
    /// Time between two beats.
    pub interval: Duration,
}

impl Heartbeat {
    /// Beats while the webhook is `in_effect`; ends when that is no longer told. A beat that fails
    /// is logged, and the next one follows.
    pub async fn run(self, mut in_effect: watch::Receiver<bool>) {
        let mut beats = tokio::time::interval(self.interval);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while in_effect.wait_for(|is| *is).await.is_ok() {
            beats.tick().await;
            if !*in_effect.borrow() {
                tracing::warn!(
                    lease = self.name,
                    "no heartbeat while the API server refuses the certificate"
                );
                continue;
            }
            match tokio::time::timeout(self.interval, self.beat()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "cannot renew the heartbeat");
                }
                Err(_) => tracing::warn!(lease = self.name, "the heartbeat took too long"),
            }
        }
    }

    async fn beat(&self) -> kube::Result<()> {
        let beaten = BACKOFF.retry(|| self.try_beat()).await;
        match beaten {
            // Another replica was first, which is as good.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            beaten => beaten,
        }
    }

    async fn try_beat(&self) -> kube::Result<()> {
        let params = PostParams::default();
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            };
            let spec = LeaseSpec {
                holder_identity: Some(self.holder.clone()),
                lease_duration_seconds: Some(
                    i32::try_from(self.interval.as_secs()).unwrap_or(i32::MAX),
                ),
                ..LeaseSpec::default()
            };
            return self
                .leases
                .create(
                    &params,
                    &Lease {
                        metadata,
                        spec: Some(spec),
                    },
                )
                .await
                .map(drop);
        };
        let spec = lease.spec.get_or_insert_default();
        let last = spec.renew_time.as_ref().map(|time| time.0);
        spec.renew_time = Some(MicroTime(renewal(
            last,
            self.clock.timestamp(),
            self.interval,
        )));
        spec.holder_identity = Some(self.holder.clone());
        self.leases
            .replace(&self.name, &params, &lease)
            .await
            .map(drop)
    }
}

/// The time of renewal to write at `now`. A time a little ahead stays, so that replicas with
/// different clocks do not take each other's renewals back. A time further ahead than `interval` is
/// that of a wrong clock: it would keep the webhook alive without any beats.
fn renewal(last: Option<Timestamp>, now: Timestamp, interval: Duration) -> Timestamp {
    let is_believed = |last: &Timestamp| {
        *last > now
            && Duration::try_from(last.duration_since(now)).is_ok_and(|ahead| ahead <= interval)
    };
    last.filter(is_believed).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_renewal_is_not_taken_back_unless_a_wrong_clock_wrote_it() {
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).expect("in range");
        let interval = Duration::from_secs(10);
        for (last, now, expected) in [
            (0, 7, 7),
            (5, 0, 5),
            (10, 0, 10),
            (11, 0, 0),
            (17_280_000, 0, 0),
            (0, 0, 0),
        ] {
            assert_eq!(
                renewal(Some(at(last)), at(now), interval),
                at(expected),
                "{last} {now}"
            );
        }
        assert_eq!(renewal(None, at(3), interval), at(3));
    }
}
