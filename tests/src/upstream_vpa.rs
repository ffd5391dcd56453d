//! Upstream's VPA beside the suite: its own programs and manifests, of a pinned version.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sandbox::{Image, Options, Sandbox};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::control_plane::{another_hosting, built};
use crate::neighbours::UPSTREAM_VPA;
use crate::{Authority, apply_objects, apply_with, kubectl_in};

/// The name in the certificate of the admission controller.
const WEBHOOK: &str = "vpa-webhook.kube-system.svc";
/// Its programs, in the order in which they start: pods are sized before they are evicted.
const UPSTREAM_PROGRAMS: [&str; 3] = ["admission-controller", "recommender", "updater"];

/// A sandbox that can run upstream's programs.
pub struct WithUpstreamVpa {
    pub sandbox: Sandbox,
    manifests: PathBuf,
    _programs: TempDir,
}

impl WithUpstreamVpa {
    /// A sandbox of its own with Prometheus, in which nothing of upstream runs yet.
    pub async fn start(purpose: &str) -> Result<Self> {
        let found = built(&UPSTREAM_VPA).await?;
        let own = ["vpa-recommender", "vpa-updater"].map(|name| found.join("bin").join(name));
        let with_prometheus = |options: &mut Options| options.prometheus = true;
        let (sandbox, programs) = another_hosting(purpose, &own, with_prometheus).await?;
        Ok(Self {
            sandbox,
            manifests: found.join("files"),
            _programs: programs,
        })
    }

    /// Applies upstream's manifests with this `kustomization.yaml`.
    pub async fn apply(&self, kustomization: &Path) -> Result<()> {
        let manifests = tempfile::tempdir()?;
        let folder = manifests.path();
        for entry in fs::read_dir(&self.manifests)? {
            let entry = entry?;
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        fs::copy(kustomization, folder.join("kustomization.yaml")).context("the kustomization")?;
        let apply = format!("apply -k {}", folder.display());
        kubectl_in(&self.sandbox, &apply).await.map(drop)
    }
}

/// Installs all three programs on a real node as upstream does, but that the recommender and the updater look
/// every ten seconds, not every minute.
pub async fn install_upstream_vpa(sandbox: &Sandbox) -> Result<()> {
    let found = built(&UPSTREAM_VPA).await?;
    let manifest = |name: &str| {
        let path = found.join("files").join(name);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let definitions = found.join("files/vpa-v1-crd-gen.yaml");
    let definitions = definitions.to_str().context("the path is text")?;
    apply_with(sandbox, definitions, &["--force-conflicts"]).await?;
    apply_objects(sandbox, &manifest("vpa-rbac.yaml")?).await?;
    let names = ["caCert", "serverCert", "serverKey"];
    let mut secret = upstream_certificates("vpa-tls-certs", names)?;
    secret["metadata"]["namespace"] = "kube-system".into();
    apply_objects(sandbox, &secret.to_string()).await?;
    apply_objects(sandbox, &manifest("admission-controller-service.yaml")?).await?;
    for name in UPSTREAM_PROGRAMS {
        let deployment = manifest(&format!("{name}-deployment.yaml"))?;
        let image = deployment
            .lines()
            .find_map(|line| line.trim().strip_prefix("image: "));
        let image = image.with_context(|| format!("{name} has no image"))?;
        let program = found.join(format!("bin/vpa-{name}"));
        sandbox
            .import(vec![Image::of_program(image, &program)?])
            .await?;
        apply_objects(sandbox, &deployment).await?;
        let deployment = format!("-n kube-system deployment/vpa-{name}");
        if name != "admission-controller" {
            let arguments = json!([format!("--{name}-interval=10s")]);
            let change = json!([{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": arguments}]);
            kubectl_in(
                sandbox,
                &format!("patch {deployment} --type=json -p={change}"),
            )
            .await?;
        }
        kubectl_in(
            sandbox,
            &format!("rollout status {deployment} --timeout=10m"),
        )
        .await?;
    }
    Ok(())
}

/// A Secret with a CA and a certificate of the admission controller. `files` are the names of CA,
/// certificate and key.
pub fn upstream_certificates(name: &str, [ca, certificate, key]: [&str; 3]) -> Result<Value> {
    let authority = Authority::new(name)?;
    let issued = authority.issue(WEBHOOK)?;
    let file = |name: &str| format!("{name}.pem");
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": {
            file(ca): authority.pem(),
            file(certificate): issued.certificate.pem(),
            file(key): issued.key.serialize_pem(),
        },
    }))
}
