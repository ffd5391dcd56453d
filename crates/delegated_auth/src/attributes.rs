//! The attributes of a request that authorization depends on, and the message of a denial.

use std::fmt;

/// The attributes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attributes {
    /// A request for a resource.
    Resource {
        /// `None` at the cluster scope.
        namespace: Option<String>,
        /// A verb such as `get`.
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
    /// A request for a path that is not a resource.
    Path {
        /// A verb such as `get`.
        verb: &'static str,
        /// The path.
        path: String,
    },
}

impl Attributes {
    /// Returns the attributes without a namespace.
    pub(crate) fn at_cluster_scope(&self) -> Self {
        let mut attributes = self.clone();
        if let Self::Resource { namespace, .. } = &mut attributes {
            *namespace = None;
        }
        attributes
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Resource { namespace, .. } => namespace.as_deref(),
            Self::Path { .. } => None,
        }
    }
}

/// The API server's message for a denied request.
pub(crate) struct ForbiddenMessage<'a> {
    pub(crate) user: &'a str,
    pub(crate) attributes: &'a Attributes,
    /// The reason that the API server gave; may be empty.
    pub(crate) reason: &'a str,
}

impl fmt::Display for ForbiddenMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            attributes,
            reason,
        } = self;
        match attributes {
            Attributes::Path { verb, path } => {
                write!(f, "forbidden: User {user:?} cannot {verb} path {path:?}")?;
            }
            Attributes::Resource {
                namespace,
                verb,
                group,
                version: _,
                resource,
                subresource,
                name,
            } => {
                write!(f, "{resource}")?;
                if !group.is_empty() {
                    write!(f, ".{group}")?;
                }
                if let Some(name) = name {
                    write!(f, " {name:?}")?;
                }
                write!(
                    f,
                    " is forbidden: User {user:?} cannot {verb} resource \"{resource}"
                )?;
                if let Some(subresource) = subresource {
                    write!(f, "/{subresource}")?;
                }
                write!(f, "\" in API group {group:?}")?;
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

    fn check(attributes: &Attributes, reason: &str, expected: &str) {
        assert_eq!(
            ForbiddenMessage {
                user: "me",
                attributes,
                reason
            }
            .to_string(),
            expected
        );
    }

    #[test]
    fn a_denial_has_the_api_servers_message() {
        let list = Attributes::Resource {
            namespace: Some("shop".to_owned()),
            verb: "list",
            group: "external.metrics.k8s.io".to_owned(),
            version: "v1beta1".to_owned(),
            resource: "queue".to_owned(),
            subresource: None,
            name: None,
        };
        let in_group = "in API group \"external.metrics.k8s.io\" in the namespace \"shop\"";
        let message = format!(
            "queue.external.metrics.k8s.io is forbidden: User \"me\" cannot list resource \"queue\" {in_group}"
        );
        check(&list, "", &message);
        check(&list, "no rule", &format!("{message}: no rule"));
        let node = Attributes::Resource {
            namespace: None,
            verb: "get",
            group: "custom.metrics.k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            resource: "nodes".to_owned(),
            subresource: Some("load".to_owned()),
            name: Some("a".to_owned()),
        };
        let message = "nodes.custom.metrics.k8s.io \"a\" is forbidden: User \"me\" cannot get resource \"nodes/load\" \
                       in API group \"custom.metrics.k8s.io\" at the cluster scope";
        check(&node, "", message);
        let path = Attributes::Path {
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
