//! One kubeconfig per identity, with the certificates inside, so that the file can be copied
//! elsewhere.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use kube::config::{
    AuthInfo, Cluster, Context as KubeContext, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use serde_json::json;

use crate::certificates::Identity;

/// Writes the kubeconfig with which `user` reaches the API server at `port`.
pub(crate) fn write(
    path: &Path,
    port: u16,
    authority_pem: &str,
    user: &str,
    identity: &Identity,
) -> Result<()> {
    let read =
        |path: &Path| fs::read_to_string(path).with_context(|| format!("read {}", path.display()));
    let text = render(
        port,
        authority_pem,
        user,
        &read(&identity.certificate)?,
        &read(&identity.key)?,
    )?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn render(
    port: u16,
    authority_pem: &str,
    user: &str,
    certificate_pem: &str,
    key_pem: &str,
) -> Result<String> {
    let name = "plimsoll-sandbox";
    let base64 =
        |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec()));
    let cluster: Cluster = serde_json::from_value(json!({
        "server": format!("https://127.0.0.1:{port}"),
        "certificate-authority-data": base64(authority_pem)?,
    }))?;
    let auth_info: AuthInfo = serde_json::from_value(json!({
        "client-certificate-data": base64(certificate_pem)?,
        "client-key-data": base64(key_pem)?,
    }))?;
    let context = KubeContext {
        cluster: name.to_owned(),
        user: Some(user.to_owned()),
        ..KubeContext::default()
    };
    let kubeconfig = Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        clusters: vec![NamedCluster {
            name: name.to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: user.to_owned(),
            auth_info: Some(auth_info),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(name.to_owned()),
        ..Kubeconfig::default()
    };
    serde_yaml_ng::to_string(&kubeconfig).context("render a kubeconfig")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_reads_back_with_its_key() {
        let text = render(6443, "authority", "alice", "certificate", "key").unwrap();
        let back: Kubeconfig = serde_yaml_ng::from_str(&text).unwrap();
        assert_eq!(
            back.clusters[0].cluster.as_ref().unwrap().server.as_deref(),
            Some("https://127.0.0.1:6443")
        );
        assert_eq!(
            back.contexts[0].context.as_ref().unwrap().user.as_deref(),
            Some("alice")
        );
        assert!(text.contains("client-key-data: a2V5"), "{text}");
    }
}
