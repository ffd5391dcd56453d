//! Namespaces of tests.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};

use crate::eventually;

/// The controller manager looks after a new namespace well within this, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// Creates a namespace that admits pods, and returns its name: `prefix` and some letters. It is
/// deleted with the sandbox.
pub async fn namespace(client: &Client, prefix: &str) -> Result<String> {
    let wanted = Namespace {
        metadata: ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let made = Api::all(client.clone())
        .create(&PostParams::default(), &wanted)
        .await;
    let name = made
        .with_context(|| format!("create a namespace {prefix}-*"))?
        .name_any();
    admits_pods(client, &name).await?;
    Ok(name)
}

/// Waits until a namespace has a default service account: pods are refused until then.
pub async fn admits_pods(client: &Client, namespace: &str) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    eventually("there is a default service account", PATIENCE, async || {
        Ok(accounts.get("default").await?)
    })
    .await?;
    Ok(())
}
