//! Namespaces of tests.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};

/// Makes a new namespace, and hands back its name: `prefix` and some letters. It goes with the sandbox.
pub async fn namespace(client: &Client, prefix: &str) -> Result<String> {
    let wanted = Namespace {
        metadata: ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let made = Api::all(client.clone()).create(&PostParams::default(), &wanted).await;
    Ok(made.with_context(|| format!("create a namespace {prefix}-*"))?.name_any())
}
