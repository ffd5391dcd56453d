//! KEDA on a real node: its own programs and manifests, of a pinned version.

use anyhow::{Context as _, Result};
use sandbox::{Image, Sandbox};
use serde_json::json;

use crate::control_plane::built;
use crate::neighbours::KEDA;
use crate::{apply_objects, kubectl_in};

/// Its images and their programs.
const IMAGES: [(&str, &str); 3] = [
    ("keda", "keda"),
    ("keda-metrics-apiserver", "keda-adapter"),
    ("keda-admission-webhooks", "keda-admission-webhooks"),
];
const DEPLOYMENTS: [&str; 3] = ["keda-operator", "keda-metrics-apiserver", "keda-admission"];

/// Installs KEDA by its own manifests, and waits until its programs are available. It is built first, which
/// takes long.
pub async fn install_keda(sandbox: &Sandbox) -> Result<()> {
    let keda = built(&KEDA).await?;
    let image = |(name, program): (&str, &str)| {
        let name = format!("ghcr.io/kedacore/{name}:main");
        Image::of_program(&name, &keda.join("bin").join(program))
    };
    let images: Vec<Image> = IMAGES.into_iter().map(image).collect::<Result<_>>()?;
    sandbox.import(images).await?;
    let manifests = keda.join("files/config/default");
    let manifests = manifests.to_str().context("the path is text")?;
    let objects = kubectl_in(sandbox, &format!("kustomize {manifests}")).await?;
    // There is no registry.
    let objects = objects.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent");
    apply_objects(sandbox, &objects).await?;
    // Nor is there a cluster DNS.
    let address = "get service keda-operator -n keda -o jsonpath={.spec.clusterIP}";
    let address = kubectl_in(sandbox, address).await?;
    let change = [
        format!("--metrics-service-address={address}:9666"),
        "--metrics-service-grpc-authority=keda-operator.keda.svc.cluster.local".to_owned(),
    ]
    .map(|argument| {
        json!({"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": argument})
    });
    let server = "-n keda deployment/keda-metrics-apiserver";
    let patch = format!("patch {server} --type=json -p={}", json!(change));
    kubectl_in(sandbox, &patch).await?;
    for name in DEPLOYMENTS {
        let status = format!("rollout status deployment/{name} -n keda --timeout=10m");
        kubectl_in(sandbox, &status).await?;
    }
    Ok(())
}
