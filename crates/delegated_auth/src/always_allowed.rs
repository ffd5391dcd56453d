//! Paths that anybody may read, as `--authorization-always-allow-paths` names them: probes have no
//! name to tell.
//!
//! Source: `k8s.io/apiserver/pkg/authorization/path/path.go`.

use std::str::FromStr;

/// One path, or with `*` at its end everything that begins like it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlwaysAllowed {
    beginning: String,
    has_more: bool,
}

/// Why a text is no such path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("only the last character of {0:?} may be *")]
pub struct PathError(String);

impl FromStr for AlwaysAllowed {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let path = text.strip_prefix('/').unwrap_or(text);
        let (beginning, has_more) = path
            .strip_suffix('*')
            .map_or((path, false), |beginning| (beginning, true));
        if beginning.contains('*') {
            return Err(PathError(text.to_owned()));
        }
        Ok(Self {
            beginning: beginning.to_owned(),
            has_more,
        })
    }
}

impl AlwaysAllowed {
    /// Whether this is about the path.
    pub(crate) fn covers(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        if self.has_more {
            path.starts_with(&self.beginning)
        } else {
            path == self.beginning
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &str, path: &str, expected: bool) {
        assert_eq!(
            allowed.parse::<AlwaysAllowed>().unwrap().covers(path),
            expected,
            "{allowed} and {path}"
        );
    }

    #[test]
    fn a_path_is_meant_alone_unless_it_ends_with_a_star() {
        check("/healthz", "/healthz", true);
        check("healthz", "/healthz", true);
        check("/healthz", "/healthz/etcd", false);
        check("/healthz", "/healthzz", false);
        check("/healthz/*", "/healthz/etcd", true);
        check("/healthz/*", "/healthz", false);
        check("*", "/anything", true);
        assert_eq!(
            "/a*b".parse::<AlwaysAllowed>(),
            Err(PathError("/a*b".to_owned()))
        );
        assert_eq!(
            "/a**".parse::<AlwaysAllowed>(),
            Err(PathError("/a**".to_owned()))
        );
    }
}
