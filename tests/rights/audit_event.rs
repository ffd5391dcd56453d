//! Events of the API server's audit log.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::grants::Role;
use crate::requests::{Decision, Request};

/// Prefix of the user name of a `ServiceAccount`.
const ACCOUNT: &str = "system:serviceaccount:";
/// Status of a response to a request that created an object.
const CREATED: u16 = 201;

/// A request with its response.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditEvent {
    verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    #[serde(default)]
    annotations: Annotations,
    response_object: Option<Review>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

#[derive(Deserialize, Default)]
struct Annotations {
    #[serde(rename = "authorization.k8s.io/decision", default)]
    decision: String,
    #[serde(rename = "authorization.k8s.io/reason", default)]
    reason: String,
}

/// A `SubjectAccessReview`, with which another server asks for the rights of a program.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Review {
    spec: ReviewSpec,
    status: ReviewStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ReviewSpec {
    user: String,
    resource_attributes: ResourceAttributes,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceAttributes {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ReviewStatus {
    allowed: bool,
    reason: String,
}

impl AuditEvent {
    /// The request, and the one that it asks a review of. Names of objects are kept if they are
    /// among `names`.
    pub(crate) fn requests(self, log: &str, names: &BTreeSet<String>) -> Vec<Request> {
        let object = self.object_ref.unwrap_or_default();
        let code = self.response_status.map_or(0, |status| status.code);
        let creates = self.verb == "patch" && code == CREATED;
        let review = self.response_object.unwrap_or_default();
        let asked = review.spec.resource_attributes;
        let of_review = ObjectRef {
            api_group: asked.group,
            resource: asked.resource,
            subresource: asked.subresource,
            name: asked.name,
        };
        let is_allowed = self.annotations.decision == "allow";
        [
            (
                self.user.username,
                self.verb,
                object,
                decision(is_allowed, &self.annotations.reason),
            ),
            (
                review.spec.user,
                asked.verb,
                of_review,
                decision(review.status.allowed, &review.status.reason),
            ),
        ]
        .into_iter()
        // Requests without a resource are those for versions and the like.
        .filter(|(_, _, object, _)| !object.resource.is_empty())
        .filter_map(|(user, verb, object, decision)| {
            let resource = match object.subresource.as_str() {
                "" => object.resource,
                subresource => format!("{}/{subresource}", object.resource),
            };
            Some(Request {
                log: log.to_owned(),
                account: user.strip_prefix(ACCOUNT)?.to_owned(),
                creates,
                verb,
                group: object.api_group,
                resource,
                name: Some(object.name).filter(|name| names.contains(name)),
                decision,
            })
        })
        .collect()
    }
}

fn decision(is_allowed: bool, reason: &str) -> Decision {
    if is_allowed {
        Decision::Allowed(role(reason).unwrap_or_default())
    } else {
        Decision::Forbidden
    }
}

/// The role in the authorizer's reason: `… of ClusterRole "NAME" to ServiceAccount …`.
fn role(reason: &str) -> Option<Role> {
    let (_, rest) = reason.split_once(" of ")?;
    let (kind, rest) = rest.split_once(" \"")?;
    let (name, _) = rest.split_once('"')?;
    Some(Role {
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(event: serde_json::Value, expected: &[&str]) {
        let event: AuditEvent = serde_json::from_value(event).unwrap();
        let names = BTreeSet::from(["web".to_owned()]);
        let found = event.requests("one.log", &names);
        let text = |it: &Request| {
            let by = it.role().map_or("nothing".to_owned(), ToString::to_string);
            format!("{} by {by}", it.text())
        };
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_event_has_the_role_that_allowed_the_request() {
        let user = json!({"username": "system:serviceaccount:plimsoll-system:plimsoll-updater"});
        let reason =
            "RBAC: allowed by RoleBinding \"one/two\" of Role \"one\" to ServiceAccount \"x/y\"";
        let allowed = json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": reason});
        let pod = json!({"resource": "pods", "subresource": "eviction", "name": "web-1"});
        check(
            json!({"verb": "create", "user": user, "objectRef": pod, "annotations": allowed}),
            &["updater: create /pods/eviction by Role one"],
        );
        let forbidden = json!({"authorization.k8s.io/decision": "forbid"});
        let workload = json!({"apiGroup": "apps", "resource": "deployments", "name": "web"});
        check(
            json!({"verb": "get", "user": user, "objectRef": workload, "annotations": forbidden}),
            &["updater: get apps/deployments [web] by nothing"],
        );
        check(json!({"verb": "get", "user": user}), &[]);
    }

    #[test]
    fn a_review_is_a_request_of_its_user() {
        let attributes = json!({"verb": "list", "group": "apps", "resource": "deployments"});
        let updater = "system:serviceaccount:plimsoll-system:plimsoll-updater";
        let spec = json!({"user": updater, "resourceAttributes": attributes});
        let status = json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"one\" of ClusterRole \"two\" to User"});
        let reviews =
            json!({"apiGroup": "authorization.k8s.io", "resource": "subjectaccessreviews"});
        check(
            json!({
                "verb": "create", "user": {"username": "system:serviceaccount:shop:provider"}, "objectRef": reviews,
                "annotations": {"authorization.k8s.io/decision": "forbid"}, "responseObject": {"spec": spec, "status": status},
            }),
            &[
                "shop:provider: create authorization.k8s.io/subjectaccessreviews by nothing",
                "updater: list apps/deployments by ClusterRole two",
            ],
        );
    }
}
