//! Namespaces of tests.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::{create, eventually};

/// Creates a namespace that admits pods, and returns its name: `prefix` and some letters. It is
/// deleted with the sandbox.
pub async fn namespace(client: &Client, prefix: &str) -> Result<String> {
    let wanted = json!({"metadata": {"generateName": format!("{prefix}-")}});
    let made = create(&Api::<Namespace>::all(client.clone()), wanted).await;
    let name = made
        .with_context(|| format!("create a namespace {prefix}-*"))?
        .name_any();
    admits_pods(client, &name).await?;
    Ok(name)
}

/// Waits until a namespace has a default service account: pods are refused until then.
pub async fn admits_pods(client: &Client, namespace: &str) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    eventually("there is a default service account", async || {
        Ok(accounts.get("default").await?)
    })
    .await?;
    Ok(())
}
