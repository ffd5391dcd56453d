//! The attributes of a request that authorization depends on, and the message of a denial.

use std::collections::BTreeMap;

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

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group with all rights.
const MASTERS: &str = "system:masters";
const ANONYMOUS: &str = "system:anonymous";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: Option<String>,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
    pub method: AuthMethod,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuthMethod {
    /// None: the user is anonymous.
    #[default]
    Anonymous,
    /// Request headers of a front proxy, which is the API server.
    FrontProxy,
    Token,
}

impl User {
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Adds the group of authenticated users. The API server's own discovery requests name no group
    /// and would be denied.
    pub(crate) fn authenticated(mut self) -> Self {
        let has = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(has) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether the user has all rights without a review.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
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

    fn check_user(name: &str, groups: &[&str], expected: &[&str]) {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let user = User {
            name: name.to_owned(),
            groups,
            ..User::default()
        };
        assert_eq!(user.authenticated().groups, expected, "{name}");
    }

    #[test]
    fn authenticated_users_have_the_group_of_authenticated_users() {
        let (authenticated, masters) = ("system:authenticated", "system:masters");
        check_user("system:kube-aggregator", &[], &[authenticated]);
        check_user("a", &[masters], &[masters, authenticated]);
        check_user("a", &[authenticated, "b"], &[authenticated, "b"]);
        let unauthenticated = "system:unauthenticated";
        check_user("system:anonymous", &[unauthenticated], &[unauthenticated]);
        check_user("system:anonymous", &[], &[]);
    }
}
