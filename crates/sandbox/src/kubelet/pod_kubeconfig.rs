//! The kubeconfig of a hosted process for its pod's `ServiceAccount`. In a cluster the process
//! would read `/var/run/secrets/kubernetes.io/serviceaccount`, which cannot be mounted here. The
//! file names the token and authority files of that volume, so that renewed tokens are used.

use std::path::Path;
use std::{fs, io};

use serde_json::json;

/// Writes the kubeconfig. `account` is the local folder of the `ServiceAccount` volume.
pub(super) fn write(
    path: &Path,
    account: &Path,
    namespace: &str,
    api_server_port: u16,
) -> io::Result<()> {
    fs::write(path, kubeconfig(account, namespace, api_server_port))
}

/// The kubeconfig as JSON, which is YAML.
fn kubeconfig(account: &Path, namespace: &str, api_server_port: u16) -> String {
    let name = "in-cluster";
    let cluster = json!({
        "server": format!("https://127.0.0.1:{api_server_port}"),
        "certificate-authority": account.join("ca.crt"),
    });
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"tokenFile": account.join("token")}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_finds_token_authority_and_namespace() {
        let text = kubeconfig(Path::new("/pod/account"), "demo", 6443);
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
