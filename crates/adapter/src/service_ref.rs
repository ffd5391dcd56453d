//! The name of a Service.

/// The Service at which the API server reaches the adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnService {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl OwnService {
    /// The name at which the API server asks.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// The names at which the API server may ask.
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
