//! Flags about callers. Named as those of `k8s.io/apiserver` where it has them.

use runtime::GoDuration;

use crate::access::Mode;
use crate::always_allowed::AlwaysAllowed;
use crate::own::TrustArgs;

/// Flags about callers.
#[derive(Debug, Clone, clap::Args)]
pub struct GuardArgs {
    /// Whether those who show nothing that could be checked are somebody: `system:anonymous`, who
    /// may what roles say. Without, they are refused.
    #[arg(long, default_value_t = true)]
    pub anonymous_auth: bool,
    /// How long the answer counts whose token it is.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub authentication_token_webhook_cache_ttl: GoDuration,
    /// How much the API server is asked about a user: each thing (`sar`), first whether all metrics
    /// may be read (`sar-wildcard`), or nothing about users for whom it vouches
    /// (`trust-front-proxy`).
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    pub authorization_mode: Mode,
    /// Paths that anybody may read, separated by commas; with `*` at its end everything that begins
    /// like it.
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    pub authorization_always_allow_paths: Vec<AlwaysAllowed>,
    /// How long counts that a user may do something.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub authorization_webhook_cache_authorized_ttl: GoDuration,
    /// How long counts that a user may not do something.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub authorization_webhook_cache_unauthorized_ttl: GoDuration,
    /// Flags that say whom to trust about callers.
    #[command(flatten)]
    pub trust: TrustArgs,
}
