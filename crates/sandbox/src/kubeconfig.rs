//! Kubeconfigs: one per identity, with the certificates inside, so that the file can be copied
//! elsewhere, and those of hosted pods.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

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
    let (certificate, key) = (read(&identity.certificate)?, read(&identity.key)?);
    let text = administrator(port, authority_pem, user, (&certificate, &key))?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn administrator(
    port: u16,
    authority_pem: &str,
    user: &str,
    (certificate_pem, key_pem): (&str, &str),
) -> Result<String> {
    let base64 = |text: &str| ByteString(text.as_bytes().to_vec());
    let authority = json!({"certificate-authority-data": base64(authority_pem)});
    let credentials = json!({
        "client-certificate-data": base64(certificate_pem),
        "client-key-data": base64(key_pem),
    });
    render(port, authority, user, &credentials, "default")
}

/// The text of a kubeconfig. `cluster` has the authority.
pub(crate) fn render(
    port: u16,
    mut cluster: Value,
    user: &str,
    credentials: &Value,
    namespace: &str,
) -> Result<String> {
    let name = "plimsoll-sandbox";
    cluster["server"] = format!("https://127.0.0.1:{port}").into();
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": namespace}}],
        "current-context": name,
    });
    serde_yaml_ng::to_string(&document).context("render a kubeconfig")
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    #[test]
    fn a_kubeconfig_reads_back_with_its_key() {
        let identity = ("certificate", "key");
        let text = administrator(6443, "authority", "alice", identity).unwrap();
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
