//! A user with rights in one namespace.

use anyhow::Result;
use e2e::create;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use sandbox::Sandbox;
use serde_json::json;

/// A client of a new user with the role `edit` in a namespace, and the right to make objects of the
/// suite there.
pub(crate) async fn in_namespace(sandbox: &Sandbox, namespace: &str) -> Result<Client> {
    let bindings: Api<RoleBinding> = Api::namespaced(sandbox.client().await?, namespace);
    for role in ["edit", "plimsoll-tenant"] {
        let binding = json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": namespace}],
        });
        create(&bindings, binding).await?;
    }
    let kubeconfig = Kubeconfig::read_from(sandbox.kubeconfig())?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = Some(namespace.to_owned());
    Ok(Client::try_from(config)?)
}
