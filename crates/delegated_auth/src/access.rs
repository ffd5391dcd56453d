//! Whether a user may do something, by asking the API server.
//!
//! Source of the cache and of what needs no question:
//! `k8s.io/apiserver/plugin/pkg/authorizer/webhook`. Kept longer than there, because the autoscaler
//! comes back after 15 s, when upstream's 10 s are always over.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
};
use kube::Client;

use crate::coalescing_cache::{CoalescingCache, key};
use crate::metrics::Metrics;
use crate::rejection::{AuthorizedScope, Rejection};
use crate::review;
use crate::user::{User, Via};
use crate::wants::{Forbidden, Wants};

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// How much is asked about a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Each thing by itself.
    Sar,
    /// First whether the user may read all metrics, and only if not, each thing by itself.
    #[default]
    SarWildcard,
    /// Nothing about users for whom the API server vouches: it has asked itself before it passed
    /// their request on.
    TrustFrontProxy,
}

/// Asks what users may do.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) client: Client,
    pub(crate) mode: Mode,
    /// How long a yes counts.
    pub(crate) keep_allowed: Duration,
    /// How long a no counts.
    pub(crate) keep_denied: Duration,
    /// About users for whom the API server vouches. Nobody else can crowd these out.
    pub(crate) proxied: CoalescingCache<Verdict>,
    /// About everybody else.
    pub(crate) direct: CoalescingCache<Verdict>,
    pub(crate) metrics: Metrics,
}

/// What the API server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Yes.
    Allowed,
    /// No, and why.
    Denied(String),
    /// Nothing, and why. Counts as no, and is not kept.
    Unknown(String),
}

impl Access {
    /// Lets the user do it, at the priority level that the answer gives, or says why not.
    /// `always_asks`: also for those who are trusted without a question.
    pub(crate) async fn check(
        &self,
        user: &User,
        wants: &Wants,
        always_asks: bool,
    ) -> Result<AuthorizedScope, Rejection> {
        if user.may_do_everything() {
            return Ok(AuthorizedScope::Cluster);
        }
        if self.mode == Mode::TrustFrontProxy && user.via == Via::FrontProxy && !always_asks {
            return Ok(AuthorizedScope::Request);
        }
        let mut verdict = match self.everything(user, wants) {
            Some(everything) => self.verdict(user, everything, &user.name).await?,
            None => Verdict::Denied(String::new()),
        };
        if verdict == Verdict::Allowed {
            return Ok(AuthorizedScope::Cluster);
        }
        // Without a word on the first question there is no use in a second one.
        if let Verdict::Denied(_) = verdict {
            verdict = self
                .verdict(
                    user,
                    question(user, wants),
                    wants.namespace().unwrap_or(&user.name),
                )
                .await?;
        }
        let reason = match verdict {
            Verdict::Allowed => return Ok(AuthorizedScope::Request),
            Verdict::Denied(reason) => reason,
            Verdict::Unknown(why) => format!("the API server could not be asked: {why}"),
        };
        Err(Rejection::Forbidden(
            Forbidden {
                user: &user.name,
                wants,
                reason: &reason,
            }
            .to_string(),
        ))
    }

    /// The question whether the user may do this with all metrics everywhere, where it is to be
    /// asked. Nobody in particular may not.
    fn everything(&self, user: &User, wants: &Wants) -> Option<SubjectAccessReviewSpec> {
        match wants {
            Wants::Resource { verb, group, .. }
                if self.mode != Mode::Sar && user.via != Via::Nothing =>
            {
                Some(about(user, Some(all_of(group, verb)), None))
            }
            _ => None,
        }
    }

    /// `flow`: the namespace that the question is about, or the user where it is about none.
    async fn verdict(
        &self,
        user: &User,
        spec: SubjectAccessReviewSpec,
        flow: &str,
    ) -> Result<Verdict, Rejection> {
        let is_proxied = user.via == Via::FrontProxy;
        let answers = if is_proxied {
            &self.proxied
        } else {
            &self.direct
        };
        let Ok(text) = serde_json::to_vec(&spec) else {
            return Ok(Verdict::Unknown("no question".to_owned()));
        };
        let asking = self.clone().ask(spec, is_proxied);
        let answer = answers.get(key(&text), flow, asking).await;
        self.metrics
            .answered("access", answer.as_ref().map(|(_, way)| *way));
        answer
            .map(|(verdict, _)| verdict)
            .ok_or(Rejection::TooManyRequests)
    }

    async fn ask(self, spec: SubjectAccessReviewSpec, is_urgent: bool) -> (Verdict, Duration) {
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        match review::ask(&self.client, PATH, &review, is_urgent, &self.metrics.authz).await {
            Ok(SubjectAccessReview { status, .. }) => match verdict(status.unwrap_or_default()) {
                Verdict::Allowed => (Verdict::Allowed, self.keep_allowed),
                other => (other, self.keep_denied),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot ask what a user may do");
                (Verdict::Unknown(error.to_string()), Duration::ZERO)
            }
        }
    }
}

fn verdict(status: SubjectAccessReviewStatus) -> Verdict {
    let SubjectAccessReviewStatus {
        allowed,
        denied,
        reason,
        evaluation_error: _,
    } = status;
    if allowed && denied != Some(true) {
        Verdict::Allowed
    } else {
        Verdict::Denied(reason.unwrap_or_default())
    }
}

/// Without a subresource: only a rule about the resource `*` itself, which covers subresources too,
/// says yes. One about `*/*` would say yes to the subresource `*`, although it allows nothing that
/// anybody asks for.
fn all_of(group: &str, verb: &str) -> ResourceAttributes {
    ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some("*".to_owned()),
        verb: Some(verb.to_owned()),
        version: Some("*".to_owned()),
        ..ResourceAttributes::default()
    }
}

fn question(user: &User, wants: &Wants) -> SubjectAccessReviewSpec {
    match wants {
        Wants::Path { verb, path } => {
            let attributes = NonResourceAttributes {
                path: Some(path.clone()),
                verb: Some((*verb).to_owned()),
            };
            about(user, None, Some(attributes))
        }
        Wants::Resource {
            namespace,
            verb,
            group,
            version,
            resource,
            subresource,
            name,
        } => {
            let attributes = ResourceAttributes {
                namespace: namespace.clone(),
                verb: Some((*verb).to_owned()),
                group: Some(group.clone()),
                version: Some(version.clone()),
                resource: Some(resource.clone()),
                subresource: subresource.clone(),
                name: name.clone(),
                ..ResourceAttributes::default()
            };
            about(user, Some(attributes), None)
        }
    }
}

fn about(
    user: &User,
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<NonResourceAttributes>,
) -> SubjectAccessReviewSpec {
    let User {
        name,
        uid,
        groups,
        extra,
        via: _,
    } = user;
    SubjectAccessReviewSpec {
        user: Some(name.clone()),
        uid: uid.clone(),
        groups: Some(groups.clone()),
        extra: (!extra.is_empty()).then(|| extra.clone()),
        resource_attributes,
        non_resource_attributes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: bool, denied: Option<bool>, expected: &Verdict) {
        let reason = Some("why".to_owned());
        let status = SubjectAccessReviewStatus {
            allowed,
            denied,
            reason,
            evaluation_error: None,
        };
        assert_eq!(verdict(status), *expected);
    }

    #[test]
    fn only_a_plain_yes_is_one() {
        let no = Verdict::Denied("why".to_owned());
        check(true, None, &Verdict::Allowed);
        check(true, Some(false), &Verdict::Allowed);
        check(true, Some(true), &no);
        check(false, None, &no);
        check(false, Some(true), &no);
    }

    #[test]
    fn a_question_says_what_the_api_server_would_ask() {
        let user = User {
            name: "me".to_owned(),
            groups: vec!["a".to_owned()],
            ..User::default()
        };
        let wants = Wants::Resource {
            namespace: Some("shop".to_owned()),
            verb: "get",
            group: "custom.metrics.k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            resource: "pods".to_owned(),
            subresource: Some("rps".to_owned()),
            name: Some("*".to_owned()),
        };
        let expected = serde_json::json!({
            "user": "me", "groups": ["a"],
            "resourceAttributes": {
                "namespace": "shop", "verb": "get", "group": "custom.metrics.k8s.io", "version": "v1beta2",
                "resource": "pods", "subresource": "rps", "name": "*",
            },
        });
        assert_eq!(
            serde_json::to_value(question(&user, &wants)).unwrap(),
            expected
        );
    }
}
