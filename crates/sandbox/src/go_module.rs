//! The pinned Go modules of the control planes and of a real node, and their build flags.

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::prebuilt::Release;

/// A Go module whose `tool` lines name the programs to build.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Name of the cache folder, before the hash.
    pub name: &'static str,
    pub go_mod: &'static str,
    pub go_sum: &'static str,
    /// Go files of the module itself: names and contents.
    pub sources: &'static [(&'static str, &'static str)],
    /// Files of dependencies that the sandbox reads, and folders: module, then paths in it.
    pub files: &'static [(&'static str, &'static [&'static str])],
    pub tags: &'static str,
    pub programs: &'static [Program],
    /// Go module whose version the linker flags give to all programs.
    pub version: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// File name of the program.
    pub(crate) name: &'static str,
    /// Path of its main package.
    pub package: &'static str,
    /// Go module whose version is the program's.
    module: &'static str,
}

impl Program {
    /// `package` is the path of the main package, `module` that of its Go module.
    pub const fn new(name: &'static str, package: &'static str, module: &'static str) -> Self {
        Self {
            name,
            package,
            module,
        }
    }

    /// File name that `go build` gives the program: the last element of the package's path that is
    /// no version.
    pub(crate) fn built_name(&self) -> &'static str {
        let is_version = |part: &str| {
            part.strip_prefix('v')
                .is_some_and(|v| v.parse::<u32>().is_ok())
        };
        self.package
            .rsplit('/')
            .find(|part| !is_version(part))
            .unwrap_or(self.package)
    }

    /// Arguments that make the program print its version.
    pub(crate) fn version_arguments(&self) -> &'static [&'static str] {
        match self.name {
            "kubectl" => &["version", "--client"],
            "helm" => &["version", "--template={{.Version}}"],
            _ => &["--version"],
        }
    }
}

const KUBERNETES: &str = "k8s.io/kubernetes";
const PROMETHEUS_MODULE: &str = "github.com/prometheus/prometheus";

/// A program by its name, its Go module, and the path of its main package there.
macro_rules! program {
    ($name:literal = $module:literal / $path:literal) => {
        Program::new($name, concat!($module, "/", $path), $module)
    };
}

/// A module with the `go.mod` and `go.sum` of a folder, and without programs. Those of a folder compile once
/// what they have in common.
macro_rules! pinned {
    ($name:literal) => {
        Module {
            name: $name,
            go_mod: include_str!(concat!("../", $name, "/go.mod")),
            go_sum: include_str!(concat!("../", $name, "/go.sum")),
            sources: &[],
            files: &[],
            tags: "",
            programs: &[],
            version: None,
        }
    };
}

macro_rules! kubernetes {
    ($name:literal) => {
        Program::new($name, concat!("k8s.io/kubernetes/cmd/", $name), KUBERNETES)
    };
}

const ETCD: Program = Program::new(
    "etcd",
    "go.etcd.io/etcd/server/v3",
    "go.etcd.io/etcd/server/v3",
);
const KUBE_APISERVER: Program = kubernetes!("kube-apiserver");
const KUBE_CONTROLLER_MANAGER: Program = kubernetes!("kube-controller-manager");
const KUBE_SCHEDULER: Program = kubernetes!("kube-scheduler");
const KUBECTL: Program = kubernetes!("kubectl");
const KWOK: Program = program!("kwok" = "sigs.k8s.io/kwok" / "cmd/kwok");
const METRICS_SERVER: Program =
    program!("metrics-server" = "sigs.k8s.io/metrics-server" / "cmd/metrics-server");

/// The newest supported Kubernetes, etcd, KWOK and metrics-server.
pub const CONTROL_PLANE: Module = Module {
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
    programs: &[
        ETCD,
        KUBE_APISERVER,
        KUBE_CONTROLLER_MANAGER,
        KUBE_SCHEDULER,
        KUBECTL,
        KWOK,
        METRICS_SERVER,
    ],
    version: Some(KUBERNETES),
    ..pinned!("control-plane")
};

/// Kubelet and kube-proxy of [`CONTROL_PLANE`]'s Kubernetes, for a real node.
pub(crate) const NODE: Module = Module {
    name: "node",
    files: &[],
    programs: &[kubernetes!("kubelet"), kubernetes!("kube-proxy")],
    ..CONTROL_PLANE
};

/// The container runtime of a real node, and the plugins of its pod network. The tags leave out what
/// needs C libraries or file systems that are not used.
pub(crate) const CONTAINER_RUNTIME: Module = Module {
    tags: "no_btrfs,no_zfs,no_devmapper,no_aufs",
    programs: &[
        program!("containerd" = "github.com/containerd/containerd/v2" / "cmd/containerd"),
        program!(
            "containerd-shim-runc-v2" =
                "github.com/containerd/containerd/v2" / "cmd/containerd-shim-runc-v2"
        ),
        program!("ctr" = "github.com/containerd/containerd/v2" / "cmd/ctr"),
        program!("bridge" = "github.com/containernetworking/plugins" / "plugins/main/bridge"),
        program!("loopback" = "github.com/containernetworking/plugins" / "plugins/main/loopback"),
        program!(
            "host-local" = "github.com/containernetworking/plugins" / "plugins/ipam/host-local"
        ),
        program!("portmap" = "github.com/containernetworking/plugins" / "plugins/meta/portmap"),
    ],
    name: "container-runtime",
    ..pinned!("control-plane")
};

/// KWOK and metrics-server of [`CONTROL_PLANE`], next to another Kubernetes.
pub(crate) const NODES_AND_METRICS: Module = Module {
    name: "nodes-and-metrics",
    programs: &[KWOK, METRICS_SERVER],
    ..CONTROL_PLANE
};

/// The oldest supported Kubernetes, with the etcd of its release.
pub(crate) const OLDEST_KUBERNETES: Module = Module {
    programs: &[
        ETCD,
        KUBE_APISERVER,
        KUBE_CONTROLLER_MANAGER,
        KUBE_SCHEDULER,
        KUBECTL,
    ],
    version: Some(KUBERNETES),
    ..pinned!("control-plane-oldest")
};

/// Prometheus, with Kubernetes' service discovery alone.
pub const PROMETHEUS: Module = Module {
    tags: "remove_all_sd,enable_kubernetes_sd",
    programs: &[program!(
        "prometheus" = "github.com/prometheus/prometheus" / "cmd/prometheus"
    )],
    name: "prometheus",
    ..pinned!("control-plane")
};

impl Module {
    /// Name of the cache folder: any other pin or flag gives another name.
    pub(crate) fn folder(&self) -> String {
        let names: Vec<&str> = self.programs.iter().map(|program| program.name).collect();
        let (arguments, found) = (
            self.arguments().join(" "),
            format!("{:?}{:?}", self.files, names),
        );
        let parts = [self.go_mod, self.go_sum, &arguments, &found];
        let sources = self.sources.iter().map(|(_, text)| *text);
        let mut hash = Sha256::new();
        for part in parts.into_iter().chain(sources) {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        format!("{}-{}", self.name, hex(&hash.finalize()))
    }

    /// Arguments of `go build`, except for the output folder and the packages.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let command = ["build", "-v"].map(str::to_owned);
        command.into_iter().chain(self.flags()).collect()
    }

    /// Flags that decide what is built.
    pub(crate) fn flags(&self) -> [String; 4] {
        let tags = format!("-tags={}", self.tags);
        let linker = format!("-ldflags={}", self.linker_flags());
        [
            "-mod=readonly".to_owned(),
            "-trimpath".to_owned(),
            tags,
            linker,
        ]
    }

    pub(crate) fn file_names(&self) -> impl Iterator<Item = &'static str> {
        let files = self.files.iter().flat_map(|(_, files)| files.iter());
        files.filter_map(|file| file.rsplit('/').next())
    }

    /// Whether a folder has all files that the sandbox reads.
    pub(crate) fn has_files(&self, folder: &Path) -> bool {
        self.file_names().all(|name| folder.join(name).exists())
    }

    /// Releases of a program that may be used: the pinned one, and the one that builds of this
    /// module print.
    pub(crate) fn releases(&self, program: &Program) -> Vec<Release> {
        let pinned = |module| required_version(self.go_mod, module).and_then(Release::find);
        let own = pinned(program.module).map(|release| match (program.module, release) {
            // Release 3.5 of Prometheus is version 0.305 of its Go module.
            (PROMETHEUS_MODULE, Release { major: 0, minor }) if minor >= 300 => Release {
                major: minor / 100,
                minor: minor % 100,
            },
            _ => release,
        });
        let mut releases: Vec<Release> = own.into_iter().collect();
        if program.name == "metrics-server" {
            // Our build prints the version that the linker flags set for Kubernetes.
            releases.extend(self.version.and_then(pinned));
        }
        releases
    }

    pub(crate) fn kubernetes(&self) -> Option<Release> {
        required_version(self.go_mod, KUBERNETES).and_then(Release::find)
    }

    /// Writes `go.mod`, `go.sum` and the module's own files into a folder.
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for (name, text) in self.sources {
            let path = folder.join(name);
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(path, text)?;
        }
        std::fs::write(folder.join("go.mod"), self.go_mod)?;
        std::fs::write(folder.join("go.sum"), self.go_sum)
    }

    /// Linker flags that set the version; without them Kubernetes reports v0.0.0.
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

/// The first eight bytes of a digest as text.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest
        .iter()
        .take(8)
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module))
            .then(|| words.next())
            .flatten()
    })
}

#[cfg(test)]
mod tests;
