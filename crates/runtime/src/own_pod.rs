//! The name and namespace of the pod in which the program runs.

use anyhow::Context as _;

/// The host name, which is the pod's name: `HOSTNAME`, else the kernel's.
pub fn hostname() -> anyhow::Result<String> {
    let kernel = "/proc/sys/kernel/hostname";
    let name = match std::env::var("HOSTNAME") {
        Ok(name) if !name.is_empty() => name,
        _ => std::fs::read_to_string(kernel)
            .with_context(|| format!("no HOSTNAME, and cannot read {kernel}"))?,
    };
    Ok(name.trim().to_owned())
}

/// The program's namespace: the environment variable NAMESPACE, else kube-system.
pub fn own_namespace() -> String {
    std::env::var("NAMESPACE")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "kube-system".to_owned())
}
