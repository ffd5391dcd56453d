//! Authenticated and anonymous users.

use std::collections::BTreeMap;

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

    fn check(name: &str, groups: &[&str], expected: &[&str]) {
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
        check("system:kube-aggregator", &[], &[authenticated]);
        check("a", &[masters], &[masters, authenticated]);
        check("a", &[authenticated, "b"], &[authenticated, "b"]);
        let unauthenticated = "system:unauthenticated";
        check("system:anonymous", &[unauthenticated], &[unauthenticated]);
        check("system:anonymous", &[], &[]);
    }
}
