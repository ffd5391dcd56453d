//! What a caller wants to do, in the words of access reviews, and how a refusal is put.

use std::fmt;

/// What a caller wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// Something with a resource.
    Resource {
        /// None for resources of the whole cluster.
        namespace: Option<String>,
        /// Such as `get`.
        verb: &'static str,
        /// The API group.
        group: String,
        /// The version of the group.
        version: String,
        /// The resource.
        resource: String,
        /// The subresource.
        subresource: Option<String>,
        /// The name of the object.
        name: Option<String>,
    },
    /// Something with a path.
    Path {
        /// Such as `get`.
        verb: &'static str,
        /// The path.
        path: String,
    },
}

impl Wants {
    /// The same without a namespace.
    pub(crate) fn at_cluster_scope(&self) -> Self {
        let mut wants = self.clone();
        if let Self::Resource { namespace, .. } = &mut wants {
            *namespace = None;
        }
        wants
    }

    /// The namespace, if there is one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Resource { namespace, .. } => namespace.as_deref(),
            Self::Path { .. } => None,
        }
    }
}

/// The API server's words for what somebody may not do.
pub(crate) struct Forbidden<'a> {
    pub(crate) user: &'a str,
    pub(crate) wants: &'a Wants,
    /// What the API server said about it, if anything.
    pub(crate) reason: &'a str,
}

impl fmt::Display for Forbidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            wants,
            reason,
        } = self;
        match wants {
            Wants::Path { verb, path } => {
                write!(f, "forbidden: User {user:?} cannot {verb} path {path:?}")?;
            }
            Wants::Resource {
                namespace,
                verb,
                group,
                version: _,
                resource,
                subresource,
                name,
            } => {
                let what = if group.is_empty() {
                    resource.clone()
                } else {
                    format!("{resource}.{group}")
                };
                let named = name
                    .as_ref()
                    .map(|name| format!(" {name:?}"))
                    .unwrap_or_default();
                let sub = subresource
                    .as_ref()
                    .map(|name| format!("/{name}"))
                    .unwrap_or_default();
                write!(
                    f,
                    "{what}{named} is forbidden: User {user:?} cannot {verb} resource \"{resource}{sub}\""
                )?;
                write!(f, " in API group {group:?}")?;
                match namespace {
                    Some(namespace) => write!(f, " in the namespace {namespace:?}")?,
                    None => write!(f, " at the cluster scope")?,
                }
            }
        }
        if reason.is_empty() {
            Ok(())
        } else {
            write!(f, ": {reason}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wants: &Wants, reason: &str, expected: &str) {
        assert_eq!(
            Forbidden {
                user: "me",
                wants,
                reason
            }
            .to_string(),
            expected
        );
    }

    #[test]
    fn a_refusal_is_put_in_the_api_servers_words() {
        let list = Wants::Resource {
            namespace: Some("shop".to_owned()),
            verb: "list",
            group: "external.metrics.k8s.io".to_owned(),
            version: "v1beta1".to_owned(),
            resource: "queue".to_owned(),
            subresource: None,
            name: None,
        };
        let in_group = "in API group \"external.metrics.k8s.io\" in the namespace \"shop\"";
        let refusal = format!(
            "queue.external.metrics.k8s.io is forbidden: User \"me\" cannot list resource \"queue\" {in_group}"
        );
        check(&list, "", &refusal);
        check(&list, "no rule", &format!("{refusal}: no rule"));
        let node = Wants::Resource {
            namespace: None,
            verb: "get",
            group: "custom.metrics.k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            resource: "nodes".to_owned(),
            subresource: Some("load".to_owned()),
            name: Some("a".to_owned()),
        };
        let refusal = "nodes.custom.metrics.k8s.io \"a\" is forbidden: User \"me\" cannot get resource \"nodes/load\" \
                       in API group \"custom.metrics.k8s.io\" at the cluster scope";
        check(&node, "", refusal);
        let path = Wants::Path {
            verb: "get",
            path: "/metrics".to_owned(),
        };
        check(
            &path,
            "",
            "forbidden: User \"me\" cannot get path \"/metrics\"",
        );
    }
}
