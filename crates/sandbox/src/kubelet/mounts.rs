//! Mount paths. Nothing can be mounted without privileges, so a hosted container's volumes live in
//! the pod's folder, and an argument or environment value that names a path below one of its mount
//! paths is rewritten to that folder: the whole text (`/certs/tls.crt`) or what follows the `=` of
//! a flag (`--cert=/certs/tls.crt`).

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::Container;

use super::WaitingReason;

/// One mount of a container: its path inside, and the local file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Without a slash at the end.
    pub(super) inside: String,
    /// The local file or folder.
    pub(super) local: PathBuf,
}

/// The mounts of a container whose pod keeps its volumes in `volumes/<volume name>`.
pub(super) fn mounts(container: &Container, volumes: &Path) -> Result<Vec<Mount>, WaitingReason> {
    container
        .volume_mounts
        .iter()
        .flatten()
        .map(|mount| {
            if mount.sub_path_expr.is_some() {
                return Err(WaitingReason::unsupported(format!(
                    "volumeMounts[{}].subPathExpr",
                    mount.name
                )));
            }
            let mut local = volumes.join(&mount.name);
            if let Some(sub_path) = mount.sub_path.as_deref().filter(|path| !path.is_empty()) {
                local.push(inner_path(sub_path)?);
            }
            Ok(Mount {
                inside: mount.mount_path.trim_end_matches('/').to_owned(),
                local,
            })
        })
        .collect()
}

/// A path below some folder, refused when it leads out of it.
pub(super) fn inner_path(path: &str) -> Result<PathBuf, WaitingReason> {
    let plain = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if plain {
        Ok(PathBuf::from(path))
    } else {
        Err(WaitingReason::config(format!(
            "path {path:?} leads out of its volume"
        )))
    }
}

/// Rewrites an argument for the local process.
pub(super) fn rewrite_argument(argument: &str, mounts: &[Mount]) -> String {
    match argument.split_once('=') {
        // Settings in braces have paths between quotes.
        Some((flag, value)) if flag.starts_with('-') => {
            let parts = value.split('"').map(|part| rewrite_path(part, mounts));
            format!("{flag}={}", parts.collect::<Vec<_>>().join("\""))
        }
        _ => rewrite_path(argument, mounts),
    }
}

/// Rewrites a path (or any other text) for the local process: replaces the longest mount path that
/// contains it.
pub(super) fn rewrite_path(text: &str, mounts: &[Mount]) -> String {
    mounts
        .iter()
        .filter_map(|mount| Some((mount, text.strip_prefix(mount.inside.as_str())?)))
        .filter(|(_, rest)| rest.is_empty() || rest.starts_with('/'))
        .max_by_key(|(mount, _)| mount.inside.len())
        .map_or_else(
            || text.to_owned(),
            |(mount, rest)| format!("{}{rest}", mount.local.display()),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(argument: &str, expected: &str) {
        let mount = |inside: &str, local: &str| Mount {
            inside: inside.to_owned(),
            local: local.into(),
        };
        let mounts = [
            mount("/certs", "/pod/volumes/tls"),
            mount("/certs/ca", "/pod/volumes/ca"),
        ];
        assert_eq!(rewrite_argument(argument, &mounts), expected);
    }

    #[test]
    fn paths_below_a_mount_move_to_its_volume() {
        check("/certs", "/pod/volumes/tls");
        check("/certs/tls.crt", "/pod/volumes/tls/tls.crt");
        check("--cert=/certs/tls.crt", "--cert=/pod/volumes/tls/tls.crt");
        check("-c=/certs/", "-c=/pod/volumes/tls/");
        let settings = r#"--config={"certDir":"/pod/volumes/tls","shards":2}"#;
        check(r#"--config={"certDir":"/certs","shards":2}"#, settings);
    }

    #[test]
    fn the_longest_mount_wins() {
        check("--ca=/certs/ca/ca.crt", "--ca=/pod/volumes/ca/ca.crt");
    }

    #[test]
    fn other_text_stays() {
        check("--cert", "--cert");
        check("/certificates/x", "/certificates/x");
        check("name=/certs", "name=/certs");
        check("--url=https://host/certs", "--url=https://host/certs");
        check("", "");
    }

    #[test]
    fn a_sub_path_stays_inside_its_volume() {
        assert_eq!(inner_path("a/b").unwrap(), Path::new("a/b"));
        for outside in ["../b", "/b"] {
            assert_eq!(
                inner_path(outside).unwrap_err().message,
                format!("path {outside:?} leads out of its volume")
            );
        }
    }
}
