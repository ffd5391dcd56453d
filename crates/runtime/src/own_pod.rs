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
    namespace_or_default(std::env::var("NAMESPACE").ok())
}

fn namespace_or_default(name: Option<String>) -> String {
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "kube-system".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_namespace_is_in_kube_system() {
        for (name, expected) in [
            (None, "kube-system"),
            (Some(""), "kube-system"),
            (Some("autoscaling"), "autoscaling"),
        ] {
            assert_eq!(namespace_or_default(name.map(str::to_owned)), expected);
        }
    }
}
