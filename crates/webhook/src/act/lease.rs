//! The heartbeat by which the updater knows that evicted pods come back resized: a Lease that every replica renews.
//!
//! Source: upstream `pkg/utils/status/status_object.go`. A new Lease has no time of renewal; its creation counts.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use runtime::Backoff;

/// As often and as long as upstream's client tries.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(100), cap: Duration::from_millis(900), tries: 3 };

/// The heartbeat of one replica.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The Leases of its namespace.
    pub leases: Api<Lease>,
    /// The name of the Lease.
    pub name: String,
    /// The replica.
    pub holder: String,
    /// Time between two beats.
    pub interval: Duration,
}

impl Heartbeat {
    /// Beats for ever. A beat that fails is said, and the next one follows.
    pub async fn run(self) {
        let mut beats = tokio::time::interval(self.interval);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            match tokio::time::timeout(self.interval, self.beat()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "cannot renew the heartbeat"),
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
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let spec = LeaseSpec {
                holder_identity: Some(self.holder.clone()),
                lease_duration_seconds: Some(i32::try_from(self.interval.as_secs()).unwrap_or(i32::MAX)),
                ..LeaseSpec::default()
            };
            return self.leases.create(&params, &Lease { metadata, spec: Some(spec) }).await.map(drop);
        };
        let spec = lease.spec.get_or_insert_default();
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        spec.holder_identity = Some(self.holder.clone());
        self.leases.replace(&self.name, &params, &lease).await.map(drop)
    }
}
