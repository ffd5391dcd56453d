//! The two pinned Go modules that a sandbox is built from, and how each is compiled.

use std::path::Path;

use sha2::{Digest, Sha256};

/// A Go module whose `tool` lines name the programs to build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Module {
    /// What the cache folder is called, before the hash.
    pub(crate) name: &'static str,
    /// What is said while it is built.
    pub(crate) announcement: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
    /// Files that the module's dependencies carry and the sandbox reads: module, folder in it,
    /// files.
    pub(crate) files: &'static [(&'static str, &'static [&'static str])],
    tags: &'static str,
    /// Programs whose package name is not what they are called.
    pub(crate) renames: &'static [(&'static str, &'static str)],
    /// What must have been built.
    pub(crate) programs: &'static [&'static str],
    version: Option<&'static str>,
}

/// Kubernetes, etcd, KWOK and metrics-server.
pub(crate) const CONTROL_PLANE: Module = Module {
    name: "control-plane",
    announcement: "Building etcd, Kubernetes, KWOK and metrics-server from their Go modules: once per machine, about 5 minutes",
    go_mod: include_str!("../control-plane/go.mod"),
    go_sum: include_str!("../control-plane/go.sum"),
    files: &[(
        "sigs.k8s.io/kwok",
        &[
            "kustomize/stage/node/fast/node-initialize.yaml",
            "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
            "kustomize/stage/pod/fast/pod-complete.yaml",
            "kustomize/stage/pod/fast/pod-delete.yaml",
            "kustomize/metrics/resource/metrics-resource.yaml",
            "kustomize/metrics/usage/usage-from-annotation.yaml",
            "kustomize/crd/bases/kwok.x-k8s.io_logs.yaml",
            "kustomize/crd/bases/kwok.x-k8s.io_portforwards.yaml",
        ],
    )],
    tags: "",
    renames: &[("server", "etcd")],
    programs: &[
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
        "metrics-server",
    ],
    version: Some("k8s.io/kubernetes"),
};

/// Prometheus; its dependencies disagree with those of the control plane.
pub(crate) const PROMETHEUS: Module = Module {
    name: "prometheus",
    announcement: "Building Prometheus from its Go module: once per machine, about 2 minutes",
    go_mod: include_str!("../prometheus/go.mod"),
    go_sum: include_str!("../prometheus/go.sum"),
    files: &[],
    tags: "remove_all_sd,enable_kubernetes_sd",
    renames: &[],
    programs: &["prometheus"],
    version: None,
};

impl Module {
    /// Name of the cache folder: any other pin or flag gives another name.
    pub(crate) fn folder(&self) -> String {
        let mut hash = Sha256::new();
        for part in [
            self.go_mod,
            self.go_sum,
            &self.arguments().join(" "),
            &format!("{:?}{:?}", self.files, self.programs),
        ] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digest = hash
            .finalize()
            .iter()
            .take(8)
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        format!("{}-{digest}", self.name)
    }

    /// What `go build` is told, except for the output folder.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let tags = format!("-tags={}", self.tags);
        let linker = format!("-ldflags={}", self.linker_flags());
        ["build", "-v", "-mod=readonly", "-trimpath", &tags, &linker]
            .map(str::to_owned)
            .to_vec()
    }

    /// The text of `go.mod`.
    pub(crate) fn go_mod(&self) -> &'static str {
        self.go_mod
    }

    /// Writes `go.mod` and `go.sum` into a folder.
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("go.mod"), self.go_mod)?;
        std::fs::write(folder.join("go.sum"), self.go_sum)
    }

    /// Without these, Kubernetes reports version v0.0.0.
    fn linker_flags(&self) -> String {
        let strip = "-s -w".to_owned();
        let Some(version) = self
            .version
            .and_then(|module| required_version(self.go_mod, module))
        else {
            return strip;
        };
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (
            numbers.next().unwrap_or_default(),
            numbers.next().unwrap_or_default(),
        );
        ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].iter().fold(strip, |flags, package| {
            format!(
                "{flags} -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
            )
        })
    }
}

/// The version of a module that a `go.mod` requires.
fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(module))
            .then(|| words.next())
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_is_told_its_own_version() {
        let flags = CONTROL_PLANE.linker_flags();
        let version = required_version(CONTROL_PLANE.go_mod, "k8s.io/kubernetes").unwrap();
        assert!(
            flags.contains(&format!("client-go/pkg/version.gitVersion={version}")),
            "{flags}"
        );
        assert!(flags.contains(".gitMajor=1 "), "{flags}");
    }

    #[test]
    fn another_pin_is_another_folder() {
        let other = Module {
            go_sum: "",
            ..CONTROL_PLANE
        };
        assert_ne!(other.folder(), CONTROL_PLANE.folder());
        assert_eq!(CONTROL_PLANE.folder(), CONTROL_PLANE.folder());
    }
}
