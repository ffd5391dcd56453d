//! Authentication by a bearer token, through a `TokenReview`.

use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Client;

use super::attributes::{AuthMethod, User};
use crate::coalescing_cache::{CoalescingCache, key};
use crate::metrics::Metrics;
use crate::review;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

#[derive(Clone)]
pub(crate) struct TokenAuthenticator {
    pub(crate) client: Client,
    pub(crate) ttl: Duration,
    pub(crate) cache: CoalescingCache<Option<User>>,
    pub(crate) metrics: Metrics,
}

impl TokenAuthenticator {
    /// Returns the user of a token; `None` if the token is not valid or the review failed.
    pub(crate) async fn authenticate(&self, token: &str) -> Option<User> {
        let review = self.clone().review(token.to_owned());
        let reviewed = self.cache.get(key(token.as_bytes()), token, review).await;
        self.metrics
            .reviewed("token", reviewed.as_ref().map(|(_, source)| *source));
        reviewed?.0
    }

    async fn review(self, token: String) -> (Option<User>, Duration) {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token,
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let metrics = &self.metrics.token_reviews;
        match review::post(&self.client, PATH, &review, false, metrics).await {
            Ok(TokenReview { status, .. }) => (user(status.unwrap_or_default()), self.ttl),
            Err(error) => {
                tracing::warn!(%error, "cannot review a token; rejecting the request");
                (None, Duration::ZERO)
            }
        }
    }
}

fn user(status: TokenReviewStatus) -> Option<User> {
    let user = status.user.filter(|_| status.authenticated == Some(true))?;
    Some(User {
        name: user.username?,
        uid: user.uid,
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
        method: AuthMethod::Token,
    })
}

pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, rest) = text.split_once(' ')?;
    let token = rest.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(header: &str, expected: Option<&str>) {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]);
        assert_eq!(bearer_token(&headers).as_deref(), expected, "{header:?}");
    }

    #[test]
    fn a_token_is_parsed_as_by_go_servers() {
        check("Bearer a.b.c", Some("a.b.c"));
        check("bEARER a", Some("a"));
        check("Bearer a b", Some("a"));
        for none in ["Bearer", "Bearer ", "Bearer  a", "Basic a", "a", ""] {
            check(none, None);
        }
    }

    #[test]
    fn a_review_without_a_named_authenticated_user_is_invalid() {
        for (status, expected) in [
            (
                json!({"authenticated": true, "user": {"username": "a"}}),
                true,
            ),
            (
                json!({"authenticated": false, "user": {"username": "a"}}),
                false,
            ),
            (json!({"user": {"username": "a"}}), false),
            (json!({"authenticated": true}), false),
        ] {
            let found = user(serde_json::from_value(status.clone()).unwrap());
            let is_token_user = found.is_some_and(|user| user.method == AuthMethod::Token);
            assert_eq!(is_token_user, expected, "{status}");
        }
    }
}
