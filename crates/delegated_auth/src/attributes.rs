//! The attributes of a request that authorization depends on, and the message of a denial.

use std::fmt;

use k8s_openapi::api::authorization::v1::{NonResourceAttributes, ResourceAttributes};

/// The attributes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Attributes {
    /// A request for a resource; without a namespace at the cluster scope.
    Resource(Box<ResourceAttributes>),
    /// A request for a path that is not a resource.
    Path(NonResourceAttributes),
}

impl Attributes {
    /// Returns the attributes without a namespace.
    pub(crate) fn at_cluster_scope(&self) -> Self {
        let mut attributes = self.clone();
        if let Self::Resource(resource) = &mut attributes {
            resource.namespace = None;
        }
        attributes
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Resource(resource) => resource.namespace.as_deref(),
            Self::Path(_) => None,
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
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        match attributes {
            Attributes::Path(NonResourceAttributes { verb, path }) => {
                let (verb, path) = (text(verb), text(path));
                write!(f, "forbidden: User {user:?} cannot {verb} path {path:?}")?;
            }
            Attributes::Resource(attributes) => {
                let (verb, group) = (text(&attributes.verb), text(&attributes.group));
                let resource = text(&attributes.resource);
                write!(f, "{resource}")?;
                if !group.is_empty() {
                    write!(f, ".{group}")?;
                }
                if let Some(name) = &attributes.name {
                    write!(f, " {name:?}")?;
                }
                write!(
                    f,
                    " is forbidden: User {user:?} cannot {verb} resource \"{resource}"
                )?;
                if let Some(subresource) = &attributes.subresource {
                    write!(f, "/{subresource}")?;
                }
                write!(f, "\" in API group {group:?}")?;
                match &attributes.namespace {
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

    fn resource(verb: &str, group: &str, resource: &str) -> ResourceAttributes {
        ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            ..ResourceAttributes::default()
        }
    }

    fn check(attributes: &Attributes, reason: &str, expected: &str) {
        let user = "me";
        let message = ForbiddenMessage {
            user,
            attributes,
            reason,
        };
        assert_eq!(message.to_string(), expected);
    }

    #[test]
    fn a_denial_has_the_api_servers_message() {
        let list = ResourceAttributes {
            namespace: Some("shop".to_owned()),
            ..resource("list", "external.metrics.k8s.io", "queue")
        };
        let list = Attributes::Resource(list.into());
        let in_group = "in API group \"external.metrics.k8s.io\" in the namespace \"shop\"";
        let message = format!(
            "queue.external.metrics.k8s.io is forbidden: User \"me\" cannot list resource \"queue\" {in_group}"
        );
        check(&list, "", &message);
        check(&list, "no rule", &format!("{message}: no rule"));
        let node = ResourceAttributes {
            subresource: Some("load".to_owned()),
            name: Some("a".to_owned()),
            ..resource("get", "custom.metrics.k8s.io", "nodes")
        };
        let node = Attributes::Resource(node.into());
        let message = "nodes.custom.metrics.k8s.io \"a\" is forbidden: User \"me\" cannot get resource \"nodes/load\" \
                       in API group \"custom.metrics.k8s.io\" at the cluster scope";
        check(&node, "", message);
        let path = Attributes::Path(NonResourceAttributes {
            verb: Some("get".to_owned()),
            path: Some("/metrics".to_owned()),
        });
        let message = "forbidden: User \"me\" cannot get path \"/metrics\"";
        check(&path, "", message);
    }
}
