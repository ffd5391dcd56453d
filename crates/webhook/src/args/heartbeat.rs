//! Flags of the heartbeat Lease.

use std::time::Duration;

use kube::Api;
use runtime::duration::at_least;
use runtime::{ApiServerClock, GoDuration, LeaderElectionArgs, ResourceLock};

use crate::heartbeat::Heartbeat;

/// Flags of the heartbeat.
#[derive(Debug, Clone, clap::Args)]
pub struct HeartbeatArgs {
    /// Name of the heartbeat Lease. The updater evicts pods only while it is renewed.
    #[arg(long, default_value = "vpa-admission-controller", value_name = "NAME")]
    pub status_lease_name: String,
    /// Namespace of the heartbeat Lease. Empty means that of the environment variable NAMESPACE, or
    /// else kube-system.
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    pub status_lease_namespace: String,
    /// Interval between renewals of the Lease.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = at_least_a_second)]
    pub status_lease_update_interval: GoDuration,
}

impl HeartbeatArgs {
    fn namespace<'a>(&'a self, own_namespace: &'a str) -> &'a str {
        if self.status_lease_namespace.is_empty() {
            own_namespace
        } else {
            &self.status_lease_namespace
        }
    }

    /// The heartbeat of the replica `holder`.
    pub fn heartbeat(
        &self,
        client: kube::Client,
        clock: ApiServerClock,
        own_namespace: &str,
        holder: String,
    ) -> Heartbeat {
        Heartbeat {
            leases: Api::namespaced(client, self.namespace(own_namespace)),
            clock,
            name: self.status_lease_name.clone(),
            holder,
            interval: self.status_lease_update_interval.0,
        }
    }

    /// The election of the replica that writes the registration, by a Lease next to the heartbeat:
    /// that one is renewed by all replicas.
    pub fn election(&self, own_namespace: &str) -> LeaderElectionArgs {
        let seconds = |seconds| GoDuration(Duration::from_secs(seconds));
        LeaderElectionArgs {
            leader_elect: true,
            leader_elect_lease_duration: seconds(15),
            leader_elect_renew_deadline: seconds(10),
            leader_elect_retry_period: seconds(2),
            leader_elect_resource_lock: ResourceLock::Leases,
            leader_elect_resource_name: format!("{}-registration", self.status_lease_name),
            leader_elect_resource_namespace: self.namespace(own_namespace).to_owned(),
        }
    }
}

/// Parses a duration. The Lease has whole seconds.
fn at_least_a_second(text: &str) -> Result<GoDuration, String> {
    at_least(Duration::from_secs(1), text)
}
