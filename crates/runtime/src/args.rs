//! Flags of every service, with the names and defaults of the Vertical Pod Autoscaler's programs.

use std::path::PathBuf;
use std::time::Duration;

use crate::address::ListenAddress;
use crate::duration::GoDuration;
use crate::log::LogArgs;

/// Flags of every service.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct CommonArgs {
    /// Kubeconfig file. Without it KUBECONFIG is used, else the pod's service account.
    #[arg(long, default_value = "", value_name = "FILE")]
    pub kubeconfig: String,
    /// Average number of requests per second to the API server. Further requests wait. Watches do
    /// not count.
    #[arg(long, default_value_t = 50.0, value_parser = positive, value_name = "REQUESTS")]
    pub kube_api_qps: f64,
    /// Number of requests that can be sent to the API server at once before --kube-api-qps limits
    /// them.
    #[arg(long, default_value_t = 100, value_parser = whole, value_name = "REQUESTS")]
    pub kube_api_burst: u32,
    /// Address (host:port) of /metrics, /healthz, /livez, /readyz and /health-check. Without a
    /// host, all interfaces.
    #[arg(long, value_name = "ADDRESS")]
    pub address: ListenAddress,
    /// Folder with tls.crt and tls.key (PEM), with which --address is served over TLS. Reloaded when
    /// they change. Without it, plain HTTP is served.
    #[arg(long, value_name = "FOLDER")]
    pub metrics_cert_dir: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Flags of leader election.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct LeaderElectionArgs {
    /// Run several replicas, of which only the holder of a Lease is active.
    #[arg(long)]
    pub leader_elect: bool,
    /// Duration after which another replica can take a Lease that is not renewed.
    #[arg(long, default_value = "15s", value_name = "DURATION")]
    pub leader_elect_lease_duration: GoDuration,
    /// Duration for which the leader retries a renewal before it stops. Must be shorter than the
    /// lease duration.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    pub leader_elect_renew_deadline: GoDuration,
    /// Pause between two attempts to acquire or renew the Lease.
    #[arg(long, default_value = "2s", value_name = "DURATION")]
    pub leader_elect_retry_period: GoDuration,
    /// Kind of the lock object.
    #[arg(long, value_enum, default_value_t = ResourceLock::Leases)]
    pub leader_elect_resource_lock: ResourceLock,
    /// Name of the Lease.
    #[arg(long, value_name = "NAME")]
    pub leader_elect_resource_name: String,
    /// Namespace of the Lease.
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    pub leader_elect_resource_namespace: String,
}

impl LeaderElectionArgs {
    /// Namespace and names of the Leases that this installation may hold: of the program, and of
    /// its first shard.
    pub fn own_leases(&self) -> impl Iterator<Item = (&str, String)> {
        let name = &self.leader_elect_resource_name;
        let names = [name.clone(), format!("{name}-0")];
        let namespace = self.leader_elect_resource_namespace.as_str();
        let names = names.into_iter().filter(|_| self.leader_elect);
        names.map(move |name| (namespace, name))
    }
}

/// Kinds of lock objects that Kubernetes still supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ResourceLock {
    /// `coordination.k8s.io/v1` Lease.
    Leases,
}

fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    let bounded =
        value.is_finite() && value > 0.0 && Duration::try_from_secs_f64(value.recip()).is_ok();
    bounded
        .then_some(value)
        .ok_or("must be more than zero".to_owned())
}

/// Parses a count. As in upstream, a fraction is dropped.
fn whole(text: &str) -> Result<u32, String> {
    let whole = positive(text)? as u32;
    (whole > 0)
        .then_some(whole)
        .ok_or("must be at least 1".to_owned())
}

#[cfg(test)]
pub(crate) mod tests;
