//! The commands and their flags.

use crate::own_service::OwnService;

/// A command to run instead of the adapter.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Command {
    /// Point the `APIService` of external.metrics.k8s.io at this adapter. Needs a route to its
    /// current provider. Keeps the previous spec in an annotation. Uses your own rights.
    Adopt(AdoptArgs),
    /// Restore the `APIService` as it was before `adopt`.
    Release(ReleaseArgs),
}

/// The adapter in the cluster.
#[derive(Debug, Clone, clap::Args)]
pub struct TargetArgs {
    /// Namespace of the adapter.
    #[arg(long, default_value = "plimsoll-system", value_name = "NAMESPACE")]
    pub namespace: String,
    /// Service of the adapter.
    #[arg(long, default_value = "plimsoll-adapter", value_name = "NAME")]
    pub service_name: String,
    /// Proceed despite warnings.
    #[arg(long)]
    pub force: bool,
}

impl TargetArgs {
    /// Returns the adapter's Service.
    pub(super) fn service(&self) -> OwnService {
        OwnService::new(&*self.namespace, &*self.service_name)
    }
}

/// Flags of `adopt`.
#[derive(Debug, Clone, clap::Args)]
pub struct AdoptArgs {
    /// The adapter in the cluster.
    #[command(flatten)]
    pub target: TargetArgs,
    /// `ConfigMap` with the routes file, in the adapter's namespace.
    #[arg(long, default_value = "plimsoll-metric-routes", value_name = "NAME")]
    pub routes_config_map: String,
    /// Port of /metrics on the adapter's pods.
    #[arg(long, default_value_t = 8945, value_name = "PORT")]
    pub metrics_port: u16,
    /// Print the change and all warnings; write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Flags of `release`.
#[derive(Debug, Clone, clap::Args)]
pub struct ReleaseArgs {
    /// The adapter in the cluster.
    #[command(flatten)]
    pub target: TargetArgs,
}
