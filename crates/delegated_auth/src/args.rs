//! Flags of authentication and authorization, named as those of `k8s.io/apiserver` where it has
//! them.

use runtime::GoDuration;

use crate::always_allowed::AlwaysAllowedPath;

/// Flags of authentication and authorization.
#[derive(Debug, Clone, clap::Args)]
pub struct AuthArgs {
    /// Accept requests without credentials as user system:anonymous, with the rights that RBAC
    /// grants it. If false, they get a 401.
    #[arg(long, default_value_t = true)]
    pub anonymous_auth: bool,
    /// Time for which the result of a `TokenReview` is cached.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub authentication_token_webhook_cache_ttl: GoDuration,
    /// Paths that need no authorization, separated by commas. A path that ends with `*` is a prefix.
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    pub authorization_always_allow_paths: Vec<AlwaysAllowedPath>,
    /// Time for which an access review that allows is cached.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub authorization_webhook_cache_authorized_ttl: GoDuration,
    /// Time for which an access review that denies is cached.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub authorization_webhook_cache_unauthorized_ttl: GoDuration,
}
