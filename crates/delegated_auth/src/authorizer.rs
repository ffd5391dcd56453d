//! Authorization by `SubjectAccessReview`s, whose results are cached.
//!
//! Source of the cache and of the users that need no review:
//! `k8s.io/apiserver/plugin/pkg/authorizer/webhook`. A result is cached for longer than there: the
//! autoscaler returns after 15 s, when upstream's 10 s are over.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Client;

use super::attributes::{Attributes, AuthMethod, User};
use crate::coalescing_cache::{CoalescingCache, key};
use crate::metrics::Metrics;
use crate::review;

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

#[derive(Clone)]
pub(crate) struct Authorizer {
    pub(crate) client: Client,
    pub(crate) allowed_ttl: Duration,
    pub(crate) denied_ttl: Duration,
    /// Reviews of users that the API server names. Other callers cannot evict these.
    pub(crate) proxied: CoalescingCache<Decision>,
    /// Reviews of all other users.
    pub(crate) direct: CoalescingCache<Decision>,
    pub(crate) metrics: Metrics,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("Unauthorized")]
    Unauthorized,
    /// The caller is not authorized. The text is the API server's.
    #[error("{0}")]
    Forbidden(String),
    #[error("too many requests at once")]
    TooManyRequests,
}

/// The scope of the access review that authorized a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorizedScope {
    /// All resources of the API group in the whole cluster.
    Cluster,
    Request,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    /// Denied, with the API server's reason.
    Denied(String),
    /// The review failed with this error. The request is denied, and the result is not cached.
    Unknown(String),
}

impl Authorizer {
    /// Authorizes a request and returns the scope of the review that allowed it: of access to all
    /// metrics, or, if that one denies, of the request.
    pub(crate) async fn authorize(
        &self,
        user: &User,
        attributes: &Attributes,
    ) -> Result<AuthorizedScope, Rejection> {
        if user.is_master() {
            return Ok(AuthorizedScope::Cluster);
        }
        let mut decision = Decision::Denied(String::new());
        if let Some(wildcard) = wildcard_spec(user, attributes) {
            decision = self.decide(user, wildcard, &user.name).await?;
            if decision == Decision::Allowed {
                return Ok(AuthorizedScope::Cluster);
            }
        }
        // After a review that failed, a second one would fail too.
        if let Decision::Denied(_) = decision {
            let flow = attributes.namespace().unwrap_or(&user.name);
            decision = self.decide(user, spec(user, attributes), flow).await?;
        }
        let reason = match decision {
            Decision::Allowed => return Ok(AuthorizedScope::Request),
            Decision::Denied(reason) => reason,
            Decision::Unknown(error) => format!("the access review failed: {error}"),
        };
        Err(Rejection::Forbidden(attributes.denial(&user.name, &reason)))
    }

    /// `flow`: the namespace of the request, or the user at the cluster scope.
    async fn decide(
        &self,
        user: &User,
        spec: SubjectAccessReviewSpec,
        flow: &str,
    ) -> Result<Decision, Rejection> {
        let is_proxied = user.method == AuthMethod::FrontProxy;
        let cache = if is_proxied {
            &self.proxied
        } else {
            &self.direct
        };
        let text = match serde_json::to_vec(&spec) {
            Ok(text) => text,
            Err(error) => return Ok(Decision::Unknown(error.to_string())),
        };
        let review = self.clone().review(spec, is_proxied);
        let reviewed = cache.get(key(&text), flow, review).await;
        self.metrics
            .reviewed("access", reviewed.as_ref().map(|(_, source)| *source));
        reviewed
            .map(|(decision, _)| decision)
            .ok_or(Rejection::TooManyRequests)
    }

    async fn review(self, spec: SubjectAccessReviewSpec, is_urgent: bool) -> (Decision, Duration) {
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let metrics = &self.metrics.access_reviews;
        match review::post(&self.client, PATH, &review, is_urgent, metrics).await {
            Ok(SubjectAccessReview { status, .. }) => match decision(status.unwrap_or_default()) {
                Decision::Allowed => (Decision::Allowed, self.allowed_ttl),
                other => (other, self.denied_ttl),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot review access; denying the request");
                (Decision::Unknown(error), Duration::ZERO)
            }
        }
    }
}

/// Returns the review of access to all metrics with this verb; none of the anonymous user.
fn wildcard_spec(user: &User, attributes: &Attributes) -> Option<SubjectAccessReviewSpec> {
    match attributes {
        Attributes::Resource(attributes) if user.method != AuthMethod::Anonymous => {
            let wildcard = Attributes::Resource(wildcard(attributes).into());
            Some(spec(user, &wildcard))
        }
        _ => None,
    }
}

fn decision(status: SubjectAccessReviewStatus) -> Decision {
    if status.allowed && status.denied != Some(true) {
        Decision::Allowed
    } else {
        Decision::Denied(status.reason.unwrap_or_default())
    }
}

/// Returns attributes that only a rule with the resource `*` allows; such a rule covers
/// subresources. With the subresource `*`, a rule with `*/*` would also match, although it allows no
/// resource without a subresource.
fn wildcard(of: &ResourceAttributes) -> ResourceAttributes {
    ResourceAttributes {
        group: of.group.clone(),
        resource: Some("*".to_owned()),
        verb: of.verb.clone(),
        version: Some("*".to_owned()),
        ..ResourceAttributes::default()
    }
}

fn spec(user: &User, attributes: &Attributes) -> SubjectAccessReviewSpec {
    let (resource_attributes, non_resource_attributes) = match attributes.clone() {
        Attributes::Resource(attributes) => (Some(*attributes), None),
        Attributes::Path(attributes) => (None, Some(attributes)),
    };
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: user.uid.clone(),
        groups: Some(user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
        resource_attributes,
        non_resource_attributes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: bool, denied: Option<bool>, expected: &Decision) {
        let status = SubjectAccessReviewStatus {
            allowed,
            denied,
            reason: Some("why".to_owned()),
            ..SubjectAccessReviewStatus::default()
        };
        assert_eq!(decision(status), *expected);
    }

    #[test]
    fn a_request_is_allowed_unless_it_is_also_denied() {
        let no = Decision::Denied("why".to_owned());
        check(true, None, &Decision::Allowed);
        check(true, Some(false), &Decision::Allowed);
        check(true, Some(true), &no);
        check(false, None, &no);
        check(false, Some(true), &no);
    }

    #[test]
    fn a_review_has_the_attributes_that_the_api_server_would_send() {
        let user = User {
            name: "me".to_owned(),
            groups: vec!["a".to_owned()],
            ..User::default()
        };
        let attributes = serde_json::json!({
            "namespace": "shop", "verb": "get", "group": "custom.metrics.k8s.io",
            "version": "v1beta2", "resource": "pods", "subresource": "rps", "name": "*",
        });
        let resource = serde_json::from_value(attributes.clone()).unwrap();
        let found = serde_json::to_value(spec(&user, &Attributes::Resource(resource))).unwrap();
        let expected = serde_json::json!({
            "user": "me", "groups": ["a"], "resourceAttributes": attributes,
        });
        assert_eq!(found, expected);
    }
}
