//! The attributes of a request that authorization depends on, and the message of a denial.

use k8s_openapi::api::authorization::v1::{NonResourceAttributes, ResourceAttributes};

#[derive(Debug, Clone, PartialEq)]
pub enum Attributes {
    /// A request for a resource; without a namespace at the cluster scope.
    Resource(Box<ResourceAttributes>),
    Path(NonResourceAttributes),
}

impl Attributes {
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

    /// The API server's message for a denied request of a user, with its `reason`, if any.
    pub(crate) fn denial(&self, user: &str, reason: &str) -> String {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let message = match self {
            Self::Path(NonResourceAttributes { verb, path }) => {
                let (verb, path) = (text(verb), text(path));
                format!("forbidden: User {user:?} cannot {verb} path {path:?}")
            }
            Self::Resource(attributes) => {
                let after = |sign, text: &str| match text {
                    "" => String::new(),
                    text => format!("{sign}{text}"),
                };
                let (verb, group) = (text(&attributes.verb), text(&attributes.group));
                let (resource, domain) = (text(&attributes.resource), after(".", &group));
                let name = attributes.name.as_ref().map(|name| format!(" {name:?}"));
                let name = name.unwrap_or_default();
                let part = after("/", &text(&attributes.subresource));
                let scope = match &attributes.namespace {
                    Some(namespace) => format!("in the namespace {namespace:?}"),
                    None => "at the cluster scope".to_owned(),
                };
                format!(
                    "{resource}{domain}{name} is forbidden: User {user:?} cannot {verb} resource \"{resource}{part}\" \
                     in API group {group:?} {scope}"
                )
            }
        };
        if reason.is_empty() {
            message
        } else {
            format!("{message}: {reason}")
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
        assert_eq!(attributes.denial("me", reason), expected);
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
