//! Requests of the programs, and the rights that they use.

use e2e::manifests::Right;

use crate::grants::{Role, program};

/// A request of a `ServiceAccount`, as far as rights are concerned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// File name of the audit log.
    pub(crate) log: String,
    /// `NAMESPACE:NAME` of the `ServiceAccount`.
    pub(crate) account: String,
    pub(crate) verb: String,
    pub(crate) group: String,
    /// With its subresource.
    pub(crate) resource: String,
    /// Name of the object, if a rule has it.
    pub(crate) name: Option<String>,
    /// Whether a patch created the object, which needs the right to create it too.
    pub(crate) creates: bool,
    pub(crate) decision: Decision,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decision {
    Allowed(Role),
    Forbidden,
}

impl Request {
    /// Whether the request needs this right.
    pub(crate) fn uses(&self, right: &Right) -> bool {
        let by_verb = self.verb == right.verb || (self.creates && right.verb == "create");
        let by_group = right.group == "*" || self.group == right.group;
        let by_resource = match right.resource.as_str() {
            "*" => true,
            resource => match resource.strip_prefix('*') {
                Some(subresource) => self.resource.ends_with(subresource),
                None => self.resource == resource,
            },
        };
        let by_name = right.name.is_none() || right.name == self.name;
        by_verb && by_group && by_resource && by_name
    }

    pub(crate) fn role(&self) -> Option<&Role> {
        match &self.decision {
            Decision::Allowed(role) => Some(role),
            Decision::Forbidden => None,
        }
    }

    /// Program, verb and resource.
    pub(crate) fn text(&self) -> String {
        let Self {
            verb,
            group,
            resource,
            name,
            ..
        } = self;
        let program = program(&self.account);
        match name {
            Some(name) => format!("{program}: {verb} {group}/{resource} [{name}]"),
            None => format!("{program}: {verb} {group}/{resource}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A right as `VERB GROUP RESOURCE [NAME]`, with `-` for the core group.
    fn check(right: &str, is_used: bool) {
        let mut words = right
            .split(' ')
            .map(|word| word.trim_matches('-').to_owned());
        let right = Right {
            verb: words.next().unwrap(),
            group: words.next().unwrap(),
            resource: words.next().unwrap(),
            name: words.next(),
        };
        let request = Request {
            log: String::new(),
            account: String::new(),
            verb: "patch".to_owned(),
            group: "apps".to_owned(),
            resource: "deployments/scale".to_owned(),
            name: Some("web".to_owned()),
            creates: true,
            decision: Decision::Forbidden,
        };
        assert_eq!(request.uses(&right), is_used, "{right}");
    }

    #[test]
    fn a_request_uses_the_rights_that_rbac_demands_of_it() {
        for right in [
            "patch apps deployments/scale",
            "patch apps deployments/scale web",
            "patch * */scale",
            "patch apps *",
            // It created the object.
            "create apps deployments/scale web",
        ] {
            check(right, true);
        }
        for right in [
            "get apps deployments/scale",
            "patch - deployments/scale",
            "patch apps deployments",
            "patch apps deployments/scale other",
        ] {
            check(right, false);
        }
    }
}
