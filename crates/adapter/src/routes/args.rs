//! Flags of routes to other providers.

use std::path::PathBuf;

/// Flags of routes to other providers.
#[derive(Debug, Clone, clap::Args)]
pub struct RoutesArgs {
    /// Routes file (YAML): external metrics that are forwarded to other providers. Reloaded when it
    /// changes. Default: none are forwarded.
    #[arg(long, value_name = "FILE")]
    pub routes_file: Option<PathBuf>,
    /// File with the service account token that is sent to other providers. Read every minute.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    pub routes_token_file: PathBuf,
}
