//! Flags of authentication and authorization, named as those of `k8s.io/apiserver` where it has
//! them.

use std::str::FromStr;

use runtime::GoDuration;

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

/// A path without authorization, or a prefix of paths if it ends with `*`: probes send no credentials.
///
/// Source: `k8s.io/apiserver/pkg/authorization/path/path.go`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlwaysAllowedPath {
    path: String,
    is_prefix: bool,
}

impl FromStr for AlwaysAllowedPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix('/').unwrap_or(text);
        let (path, is_prefix) = path
            .strip_suffix('*')
            .map_or((path, false), |prefix| (prefix, true));
        if path.contains('*') {
            return Err(format!("only the last character of {text:?} may be *"));
        }
        Ok(Self {
            path: path.to_owned(),
            is_prefix,
        })
    }
}

impl AlwaysAllowedPath {
    pub(crate) fn matches(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        if self.is_prefix {
            path.starts_with(&self.path)
        } else {
            path == self.path
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &str, path: &str, expected: bool) {
        let pattern: AlwaysAllowedPath = allowed.parse().unwrap();
        assert_eq!(pattern.matches(path), expected, "{allowed} and {path}");
    }

    #[test]
    fn a_path_matches_itself_and_as_a_prefix_if_it_ends_with_a_star() {
        check("/healthz", "/healthz", true);
        check("healthz", "/healthz", true);
        check("/healthz", "/healthz/etcd", false);
        check("/healthz", "/healthzz", false);
        check("/healthz/*", "/healthz/etcd", true);
        check("/healthz/*", "/healthz", false);
        check("*", "/anything", true);
        for text in ["/a*b", "/a**"] {
            assert_eq!(
                text.parse::<AlwaysAllowedPath>(),
                Err(format!("only the last character of {text:?} may be *"))
            );
        }
    }
}
