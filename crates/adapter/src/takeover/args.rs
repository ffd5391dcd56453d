//! The commands of a person, and their flags.

/// What is done instead of answering metrics.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Command {
    /// Has this adapter answer external.metrics.k8s.io in place of the present provider, to which a
    /// route must lead. What the `APIService` was is kept in an annotation of it. With your own
    /// rights.
    Adopt(AdoptArgs),
    /// Makes the `APIService` what it was before `adopt`.
    Release(ReleaseArgs),
}

/// Where the adapter is.
#[derive(Debug, Clone, clap::Args)]
pub struct TargetArgs {
    /// The adapter's namespace.
    #[arg(long, default_value = "plimsoll-system", value_name = "NAMESPACE")]
    pub namespace: String,
    /// The Service at which the API server reaches the adapter.
    #[arg(long, default_value = "plimsoll-adapter", value_name = "NAME")]
    pub service_name: String,
    /// Do it also where something speaks against it that would not break it at once.
    #[arg(long)]
    pub force: bool,
}

/// Flags of `adopt`.
#[derive(Debug, Clone, clap::Args)]
pub struct AdoptArgs {
    /// Where the adapter is.
    #[command(flatten)]
    pub target: TargetArgs,
    /// The `ConfigMap` with the file of routes, in the adapter's namespace.
    #[arg(long, default_value = "plimsoll-metric-routes", value_name = "NAME")]
    pub routes_config_map: String,
    /// The port of the adapter's pods at which they say which providers they know.
    #[arg(long, default_value_t = 8945, value_name = "PORT")]
    pub metrics_port: u16,
    /// Only say what would be done, and what speaks against it.
    #[arg(long)]
    pub dry_run: bool,
}

/// Flags of `release`.
#[derive(Debug, Clone, clap::Args)]
pub struct ReleaseArgs {
    /// Where the adapter is.
    #[command(flatten)]
    pub target: TargetArgs,
}
