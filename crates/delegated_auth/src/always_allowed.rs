//! Paths without authorization (`--authorization-always-allow-paths`): probes send no credentials.
//!
//! Source: `k8s.io/apiserver/pkg/authorization/path/path.go`.

use std::str::FromStr;

/// A path, or a prefix of paths if it ends with `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlwaysAllowedPath {
    path: String,
    is_prefix: bool,
}

/// A `*` before the end of a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("only the last character of {0:?} may be *")]
pub struct PathError(String);

impl FromStr for AlwaysAllowedPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let path = text.strip_prefix('/').unwrap_or(text);
        let (path, is_prefix) = path
            .strip_suffix('*')
            .map_or((path, false), |prefix| (prefix, true));
        if path.contains('*') {
            return Err(PathError(text.to_owned()));
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
                Err(PathError(text.to_owned()))
            );
        }
    }
}
