//! Who asks.

use std::collections::BTreeMap;

/// The group of whoever was recognised.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody else.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group that may do everything.
const MASTERS: &str = "system:masters";
/// The name of whoever was not recognised.
const ANONYMOUS: &str = "system:anonymous";

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The unique identifier, where there is one.
    pub uid: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
    /// Whatever else was said of the user.
    pub extra: BTreeMap<String, Vec<String>>,
    /// How the user was recognised.
    pub via: Via,
}

/// How a user was recognised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Via {
    /// Not at all.
    #[default]
    Nothing,
    /// The API server vouches for the user, as a front proxy.
    FrontProxy,
    /// By a certificate of the user's own.
    Certificate,
    /// By a token.
    Token,
}

impl User {
    /// Somebody who was not recognised.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Adds the group of those who were recognised. The API server's own requests for discovery
    /// come without any group, and would not be let in.
    pub(crate) fn recognised(mut self) -> Self {
        let has = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(has) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether this is somebody who may do everything.
    pub(crate) fn may_do_everything(&self) -> bool {
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
        assert_eq!(user.recognised().groups, expected, "{name}");
    }

    #[test]
    fn whoever_was_recognised_is_in_the_group_of_those() {
        check("system:kube-aggregator", &[], &["system:authenticated"]);
        check(
            "a",
            &["system:masters"],
            &["system:masters", "system:authenticated"],
        );
        check(
            "a",
            &["system:authenticated", "b"],
            &["system:authenticated", "b"],
        );
        check(
            "system:anonymous",
            &["system:unauthenticated"],
            &["system:unauthenticated"],
        );
        check("system:anonymous", &[], &[]);
    }
}
