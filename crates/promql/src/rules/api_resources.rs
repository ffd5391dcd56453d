//! Resources of the cluster: singular and plural names, kinds, and whether they are namespaced.

use std::sync::Arc;

/// Plural name of a resource with its API group, which is empty for the core group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// Group, such as `apps`; empty for the core group.
    pub group: String,
    /// Plural name, such as `pods`.
    pub resource: String,
}

impl std::fmt::Display for GroupResource {
    /// Formats as in URLs and RBAC rules: `pods`, `deployments.apps`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, resource } = self;
        if group.is_empty() {
            f.write_str(resource)
        } else {
            write!(f, "{resource}.{group}")
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    pub resource: GroupResource,
    pub singular: String,
    /// Group and preferred version.
    pub api_version: String,
    pub kind: String,
    pub is_namespaced: bool,
}

impl ApiResource {
    /// Whether its objects are the namespaces themselves.
    pub fn is_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }
}

/// The resources of the cluster, in lookup order for names without a group: the core group first.
#[derive(Debug, Clone, Default)]
pub struct ApiResources(Vec<Arc<ApiResource>>);

impl ApiResources {
    pub fn new(resources: Vec<Arc<ApiResource>>) -> Self {
        Self(resources)
    }

    /// Resources that every cluster has, without a request.
    pub fn built_in() -> Self {
        let resource = |group: &str, plural: &str, kind: &str, is_namespaced| {
            Arc::new(ApiResource {
                resource: GroupResource {
                    group: group.to_owned(),
                    resource: plural.to_owned(),
                },
                singular: kind.to_lowercase(),
                api_version: if group.is_empty() {
                    "v1".to_owned()
                } else {
                    format!("{group}/v1")
                },
                kind: kind.to_owned(),
                is_namespaced,
            })
        };
        Self(vec![
            resource("", "namespaces", "Namespace", false),
            resource("", "nodes", "Node", false),
            resource("", "pods", "Pod", true),
            resource("", "services", "Service", true),
            resource("", "events", "Event", true),
            resource("events.k8s.io", "events", "Event", true),
            resource("apps", "deployments", "Deployment", true),
            resource("batch", "jobs", "Job", true),
            resource("networking.k8s.io", "ingresses", "Ingress", true),
        ])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.0.iter()
    }

    /// The resource of this name, in singular or plural. The group may be omitted or abbreviated to
    /// a prefix, as in kubectl.
    pub fn find(&self, group: &str, resource: &str) -> Option<&Arc<ApiResource>> {
        let resource = resource.to_lowercase();
        let named = || {
            self.iter()
                .filter(|known| known.resource.resource == resource || known.singular == resource)
        };
        let exact = named().find(|known| known.resource.group == group);
        exact.or_else(|| named().find(|known| known.resource.group.starts_with(group)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_kubectl_finds_them() {
        let resources = ApiResources::built_in();
        for (group, resource, expected) in [
            ("", "pod", Some("v1 Pod")),
            ("", "pods", Some("v1 Pod")),
            ("", "Node", Some("v1 Node, cluster-wide")),
            ("", "deployment", Some("apps/v1 Deployment")),
            ("apps", "deployments", Some("apps/v1 Deployment")),
            (
                "networking",
                "ingress",
                Some("networking.k8s.io/v1 Ingress"),
            ),
            ("events.k8s.io", "event", Some("events.k8s.io/v1 Event")),
            ("", "event", Some("v1 Event")),
            ("cheese.io", "brand", None),
        ] {
            let found = resources.find(group, resource).map(|found| {
                let scope = if found.is_namespaced {
                    ""
                } else {
                    ", cluster-wide"
                };
                format!("{} {}{scope}", found.api_version, found.kind)
            });
            assert_eq!(found.as_deref(), expected, "{group} {resource}");
        }
    }
}
