//! The kubeconfig of a hosted process for its pod's `ServiceAccount`. In a cluster the process
//! would read `/var/run/secrets/kubernetes.io/serviceaccount`, which cannot be mounted here. The
//! file names the token and authority files of that volume, so that renewed tokens are used.

use std::fs;
use std::path::Path;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::kubeconfig;

/// Writes the kubeconfig. `account` is the local folder of the `ServiceAccount` volume.
pub(super) fn write(
    path: &Path,
    account: &Path,
    namespace: &str,
    api_server_port: u16,
) -> Result<()> {
    fs::write(path, render(account, namespace, api_server_port)?)?;
    Ok(())
}

/// The port that a container sets as `KUBERNETES_SERVICE_PORT`, as a client in a cluster reads it.
pub(super) fn api_server_port(pod: &Pod) -> Option<u16> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    let port = variables.find(|variable| variable.name == "KUBERNETES_SERVICE_PORT")?;
    port.value.as_deref()?.parse().ok()
}

fn render(account: &Path, namespace: &str, api_server_port: u16) -> Result<String> {
    let authority = json!({"certificate-authority": account.join("ca.crt")});
    let credentials = json!({"tokenFile": account.join("token")});
    let user = "in-cluster";
    kubeconfig::render(api_server_port, authority, user, &credentials, namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = render(Path::new("/pod/account"), "demo", 6443).unwrap();
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
