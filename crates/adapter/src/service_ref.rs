//! References to Services.

/// A Service in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnService {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl OwnService {
    /// The DNS name that the API server uses.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// All DNS names of the Service.
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
