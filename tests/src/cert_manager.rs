//! Cert-manager's controllers and CA injector beside the suite, of a pinned version.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use sandbox::Sandbox;

use crate::neighbours::CERT_MANAGER;
use tempfile::TempDir;

use crate::control_plane::{another_hosting, built, is_established};
use crate::{apply, kubectl_in};

const DEFINITIONS: [&str; 4] = [
    "certificaterequests.cert-manager.io",
    "certificates.cert-manager.io",
    "clusterissuers.cert-manager.io",
    "issuers.cert-manager.io",
];

pub struct WithCertManager {
    pub sandbox: Sandbox,
    _programs: TempDir,
}

impl WithCertManager {
    /// A sandbox of its own, in which cert-manager runs.
    pub async fn start(purpose: &str) -> Result<Self> {
        let found = built(&CERT_MANAGER).await?;
        let program = found.join("bin/cert-manager");
        let (sandbox, programs) = another_hosting(purpose, &[program], |_| {}).await?;
        cert_manager_definitions(&sandbox).await?;
        apply(&sandbox, "tests/e2e/cert_manager/deployment.yaml").await?;
        Ok(Self {
            sandbox,
            _programs: programs,
        })
    }
}

/// Creates cert-manager's definitions.
pub async fn cert_manager_definitions(sandbox: &Sandbox) -> Result<()> {
    let files = built(&CERT_MANAGER).await?.join("files");
    let apply = format!("apply --server-side -f {}", files.display());
    kubectl_in(sandbox, &apply).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(sandbox.client().await?);
    for name in DEFINITIONS {
        is_established(&definitions, name).await?;
    }
    Ok(())
}
