//! Kubeconfigs: one per identity, with the certificates inside, so that the file can be copied
//! elsewhere, and those of hosted pods.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
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
fn render(
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

/// The port that a container sets as `KUBERNETES_SERVICE_PORT`, as a client in a cluster reads it.
pub(crate) fn api_server_port(pod: &Pod) -> Option<u16> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    let port = variables.find(|variable| variable.name == "KUBERNETES_SERVICE_PORT")?;
    port.value.as_deref()?.parse().ok()
}

/// The kubeconfig of a hosted process for its pod's `ServiceAccount`. In a cluster the process would
/// read `/var/run/secrets/kubernetes.io/serviceaccount`, which cannot be mounted here. It names the
/// token and authority files of that volume, `account`, so that renewed tokens are used.
pub(crate) fn for_pod(account: &Path, namespace: &str, api_server_port: u16) -> Result<String> {
    let authority = json!({"certificate-authority": account.join("ca.crt")});
    let credentials = json!({"tokenFile": account.join("token")});
    let user = "in-cluster";
    render(api_server_port, authority, user, &credentials, namespace)
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

    #[test]
    fn a_container_may_reach_the_api_server_at_another_port() {
        let pod = |env: serde_json::Value| {
            let containers = json!([{"name": "app", "env": env}]);
            serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap()
        };
        let of = |name: &str, value: &str| pod(json!([{"name": name, "value": value}]));
        for (pod, expected) in [
            (Pod::default(), None),
            (of("KUBERNETES_SERVICE_HOST", "7"), None),
            (of("KUBERNETES_SERVICE_PORT", "x"), None),
            (of("KUBERNETES_SERVICE_PORT", "7000"), Some(7000)),
        ] {
            assert_eq!(api_server_port(&pod), expected, "{pod:?}");
        }
    }

    #[test]
    fn a_client_finds_token_authority_and_namespace() {
        let text = for_pod(Path::new("/pod/account"), "demo", 6443).unwrap();
        let read: kube::config::Kubeconfig = serde_yaml_ng::from_str(&text).unwrap();
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
        assert_eq!(
            cluster.certificate_authority.as_deref(),
            Some("/pod/account/ca.crt")
        );
        assert_eq!(
            read.auth_infos[0]
                .auth_info
                .as_ref()
                .unwrap()
                .token_file
                .as_deref(),
            Some("/pod/account/token")
        );
        assert_eq!(
            read.contexts[0]
                .context
                .as_ref()
                .unwrap()
                .namespace
                .as_deref(),
            Some("demo")
        );
    }
}
