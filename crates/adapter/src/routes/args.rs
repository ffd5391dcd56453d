//! Flags about other providers.

use std::path::PathBuf;

/// Flags about other providers.
#[derive(Debug, Clone, clap::Args)]
pub struct RoutesArgs {
    /// Which external metrics are left to other providers (YAML; see the README). Read again when
    /// it changes. Without, none are.
    #[arg(long, value_name = "FILE")]
    pub routes_file: Option<PathBuf>,
    /// The token by which other providers know the adapter. Read again every minute.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    pub routes_token_file: PathBuf,
}
