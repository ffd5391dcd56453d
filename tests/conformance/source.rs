//! Upstream's specs and what they run, built with Go. The specs come from a checkout, since the module
//! proxy does not serve them; everything else comes from pinned modules.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use e2e::{prints, repository};
use tokio::process::Command;

use crate::images::{COMPONENTS, Programs};

/// The Go module of upstream's programs and manifests.
const MODULE: &str = "k8s.io/autoscaler/vertical-pod-autoscaler";
/// Folders of the checkout with specs, with the names of the programs that are built from them.
const SPECS: [(&str, &str); 2] = [
    ("./e2e/v1", "v1.test"),
    ("./e2e/integration", "integration.test"),
];
/// Package of Kubernetes' own specs.
const KUBERNETES: &str = "k8s.io/kubernetes/test/e2e";
/// Program of Kubernetes' own specs.
pub(crate) const KUBERNETES_SPECS: &str = "e2e.test";
/// Programs that run the specs, and those that the specs run in containers.
const PROGRAMS: [&str; 4] = [
    "github.com/onsi/ginkgo/v2/ginkgo",
    "k8s.io/kubernetes/test/images/agnhost",
    "k8s.io/kubernetes/test/images/resource-consumer",
    "k8s.io/kubernetes/test/images/resource-consumer/consume-cpu",
];

/// Programs and manifests of upstream.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) programs: PathBuf,
    /// Folder of upstream's manifests.
    pub(crate) manifests: PathBuf,
    /// Upstream's manifest of prometheus-adapter, for its tests.
    pub(crate) external_metrics: PathBuf,
}

impl Source {
    /// The text of one of upstream's manifests.
    pub(crate) fn manifest(&self, file: &str) -> Result<String> {
        let path = self.manifests.join(file);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    /// Builds the specs of a checkout and the programs that they need, which takes ten minutes the first
    /// time.
    pub(crate) async fn build(checkout: &Path, programs: Programs) -> Result<Self> {
        let folder = repository().join("target/conformance");
        let module = folder.join("source");
        let specs = copy_specs(checkout, &module)?;
        let external_metrics = specs.with_file_name("hack/e2e/prometheus-adapter.yaml");
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).with_context(|| format!("create {}", bin.display()))?;
        println!("Building upstream's specs and the programs that they need");
        for (package, name) in SPECS {
            build_specs(&module, package, &bin.join(name)).await?;
        }
        let mut packages = PROGRAMS.map(str::to_owned).to_vec();
        if programs == Programs::Upstream {
            packages.extend(COMPONENTS.map(|name| format!("{MODULE}/pkg/{name}")));
        }
        build_programs(&module, &packages, &bin).await?;
        let found = go(&module, &["list", "-m", "-f", "{{.Dir}}", MODULE]).await?;
        Ok(Self {
            programs: bin,
            manifests: Path::new(found.trim()).join("deploy"),
            external_metrics,
        })
    }
}

/// Builds Kubernetes' own specs and the programs that they need, and returns the folder of all.
pub(crate) async fn build_kubernetes() -> Result<PathBuf> {
    let module = repository().join("tests/conformance/kubernetes");
    let bin = repository().join("target/conformance/kubernetes");
    fs::create_dir_all(&bin).with_context(|| format!("create {}", bin.display()))?;
    println!("Building Kubernetes' own specs and the programs that they need");
    build_specs(&module, KUBERNETES, &bin.join(KUBERNETES_SPECS)).await?;
    build_programs(&module, &PROGRAMS.map(str::to_owned), &bin).await?;
    // The name server that the specs look up Services with.
    let name_server = repository().join("tests/conformance/coredns");
    build_programs(&name_server, &[".".to_owned()], &bin).await?;
    Ok(bin)
}

async fn build_specs(module: &Path, package: &str, program: &Path) -> Result<()> {
    let program = program.to_str().context("the path is text")?;
    let mut arguments = vec!["test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w"];
    arguments.extend(["-o", program, package]);
    go(module, &arguments).await.map(drop)
}

async fn build_programs(module: &Path, packages: &[String], bin: &Path) -> Result<()> {
    let output = format!("{}/", bin.display());
    let mut arguments = vec!["build", "-trimpath", "-ldflags=-s -w", "-o", &output];
    arguments.extend(packages.iter().map(String::as_str));
    go(module, &arguments).await.map(drop)
}

/// Copies the specs into a folder of their own, where `go.mod` has versions that the proxy serves:
/// upstream's names its own parent folder and release candidates. Returns the folder in the checkout.
fn copy_specs(checkout: &Path, module: &Path) -> Result<PathBuf> {
    let candidates = ["vertical-pod-autoscaler/test", "test"].map(|path| checkout.join(path));
    let specs = candidates.iter().find(|path| path.join("e2e/v1").is_dir());
    let specs = specs.with_context(|| {
        format!(
            "AUTOSCALER={}: it has no folder vertical-pod-autoscaler/test/e2e/v1",
            checkout.display()
        )
    })?;
    if module.exists() {
        fs::remove_dir_all(module).with_context(|| format!("remove {}", module.display()))?;
    }
    copy_folder(&specs.join("e2e"), &module.join("e2e"))?;
    for file in ["go.mod", "go.sum"] {
        fs::copy(
            repository().join("tests/conformance").join(file),
            module.join(file),
        )
        .with_context(|| format!("copy {file}"))?;
    }
    Ok(specs.clone())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)
                .with_context(|| format!("copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// Runs Go in the folder of a module; returns what it printed.
async fn go(module: &Path, arguments: &[&str]) -> Result<String> {
    let mut go = Command::new("go");
    go.args(arguments)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off");
    let printed = prints(&mut go).await;
    printed.context("Go is needed, of the version in crates/sandbox/README.md or newer")
}
