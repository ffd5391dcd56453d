//! A program's own Service and its DNS names.

use std::fmt;

/// A Service in the cluster. Its text is `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnService {
    pub namespace: String,
    pub name: String,
}

impl OwnService {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The DNS name that the API server and kube-scheduler verify.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    pub fn names(&self) -> Vec<String> {
        let Self { namespace, name } = self;
        let long = self.server_name();
        vec![
            name.clone(),
            format!("{name}.{namespace}"),
            long.clone(),
            format!("{long}.cluster.local"),
        ]
    }
}

impl fmt::Display for OwnService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_has_every_name_of_the_service() {
        let names = "adapter adapter.suite adapter.suite.svc adapter.suite.svc.cluster.local";
        assert_eq!(OwnService::new("suite", "adapter").names().join(" "), names);
    }
}
