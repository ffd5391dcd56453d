//! Flags of the heartbeat Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use runtime::duration::at_least;
use runtime::{ApiServerClock, GoDuration};

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
    /// The heartbeat of the replica `holder`.
    pub fn heartbeat(
        self,
        client: kube::Client,
        clock: ApiServerClock,
        own_namespace: &str,
        holder: String,
    ) -> Heartbeat {
        let Self {
            status_lease_name,
            status_lease_namespace,
            status_lease_update_interval,
        } = self;
        let namespace = if status_lease_namespace.is_empty() {
            own_namespace
        } else {
            &status_lease_namespace
        };
        let leases: Api<Lease> = Api::namespaced(client, namespace);
        Heartbeat {
            leases,
            clock,
            name: status_lease_name,
            holder,
            interval: status_lease_update_interval.0,
        }
    }
}

/// Parses a duration. The Lease has whole seconds.
fn at_least_a_second(text: &str) -> Result<GoDuration, String> {
    at_least(Duration::from_secs(1), text)
}
