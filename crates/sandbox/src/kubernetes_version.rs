//! The Kubernetes versions that a sandbox can run: the oldest and the newest supported one.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};
use serde::{Deserialize, Serialize};

use crate::go_module::{CONTROL_PLANE, Module, NODES_AND_METRICS, OLDEST_KUBERNETES};
use crate::programs::ensure_built;

/// Environment variable of the flag `--kubernetes-version`.
pub(crate) const VARIABLE: &str = "PLIMSOLL_SANDBOX_KUBERNETES_VERSION";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KubernetesVersion {
    Oldest,
    #[default]
    Newest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ControlPlaneFolders {
    /// Folder of etcd and of the programs of Kubernetes.
    pub(crate) kubernetes: PathBuf,
    /// Folder of KWOK, with its files, and of metrics-server.
    pub(crate) nodes_and_metrics: PathBuf,
}

impl ControlPlaneFolders {
    /// Folder of the files from KWOK's module.
    pub(crate) fn files(&self) -> PathBuf {
        self.nodes_and_metrics.join("files")
    }
}

impl KubernetesVersion {
    /// The version that `PLIMSOLL_SANDBOX_KUBERNETES_VERSION` names [default: the newest].
    pub fn from_environment() -> Result<Self> {
        match env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().context(VARIABLE),
            _ => Ok(Self::default()),
        }
    }

    /// Number after `1.`.
    pub fn minor(self) -> u32 {
        self.kubernetes_module()
            .kubernetes()
            .map_or(0, |release| release.minor)
    }

    /// The folders with all programs. Builds what is neither prebuilt nor in the cache, which blocks
    /// for minutes.
    pub(crate) fn ensure_built(self, sandbox: &Path) -> Result<ControlPlaneFolders> {
        let kubernetes = ensure_built(self.kubernetes_module(), sandbox)?;
        let nodes_and_metrics = match self {
            Self::Oldest => ensure_built(&NODES_AND_METRICS, sandbox)?,
            Self::Newest => kubernetes.clone(),
        };
        Ok(ControlPlaneFolders {
            kubernetes,
            nodes_and_metrics,
        })
    }

    fn kubernetes_module(self) -> &'static Module {
        match self {
            Self::Oldest => &OLDEST_KUBERNETES,
            Self::Newest => &CONTROL_PLANE,
        }
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1.{}", self.minor())
    }
}

impl FromStr for KubernetesVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (oldest, newest) = (Self::Oldest, Self::Newest);
        match text.trim_start_matches('v') {
            "oldest" => Ok(oldest),
            "newest" => Ok(newest),
            text if text == oldest.to_string() => Ok(oldest),
            text if text == newest.to_string() => Ok(newest),
            _ => bail!(
                "{text:?} is no supported Kubernetes version: oldest ({oldest}) or newest ({newest})"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<KubernetesVersion>) {
        assert_eq!(text.parse().ok(), expected, "{text:?}");
    }

    #[test]
    fn a_version_is_a_name_or_a_number() {
        check("oldest", Some(KubernetesVersion::Oldest));
        check("newest", Some(KubernetesVersion::Newest));
        check("1.33", Some(KubernetesVersion::Oldest));
        check("v1.37", Some(KubernetesVersion::Newest));
        check("1.32", None);
        check("1.33.13", None);
        check("", None);
    }

    #[test]
    fn an_error_names_the_supported_versions() {
        let error = "1.2".parse::<KubernetesVersion>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"1.2\" is no supported Kubernetes version: oldest (1.33) or newest (1.37)"
        );
    }

    #[test]
    fn the_oldest_version_is_older() {
        assert!(KubernetesVersion::Oldest.minor() < KubernetesVersion::Newest.minor());
    }
}
