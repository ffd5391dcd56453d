//! Recognises whoever has a token, by asking the API server.

use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use kube::Client;

use crate::coalescing_cache::{CoalescingCache, key};
use crate::metrics::Metrics;
use crate::review;
use crate::user::{User, Via};

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Recognises tokens.
#[derive(Clone)]
pub(crate) struct Tokens {
    pub(crate) client: Client,
    /// How long an answer counts, yes or no.
    pub(crate) keep: Duration,
    pub(crate) answers: CoalescingCache<Owner>,
    pub(crate) metrics: Metrics,
}

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This user's.
    User(User),
    /// Nobody's.
    Nobody,
    /// The API server did not say.
    Unknown,
}

impl Tokens {
    /// Whose token it is.
    pub(crate) async fn owner(&self, token: &str) -> Owner {
        let asking = self.clone().ask(token.to_owned());
        let answer = self.answers.get(key(token.as_bytes()), token, asking).await;
        self.metrics
            .answered("token", answer.as_ref().map(|(_, way)| *way));
        answer.map_or(Owner::Unknown, |(owner, _)| owner)
    }

    async fn ask(self, token: String) -> (Owner, Duration) {
        let spec = TokenReviewSpec {
            token,
            ..TokenReviewSpec::default()
        };
        let review = TokenReview {
            spec,
            ..TokenReview::default()
        };
        match review::ask(&self.client, PATH, &review, false, &self.metrics.authn).await {
            Ok(TokenReview { status, .. }) => (owner(status.unwrap_or_default()), self.keep),
            Err(error) => {
                tracing::warn!(%error, "cannot ask whose token it is");
                (Owner::Unknown, Duration::ZERO)
            }
        }
    }
}

fn owner(status: TokenReviewStatus) -> Owner {
    let TokenReviewStatus {
        authenticated,
        user,
        ..
    } = status;
    match user {
        Some(UserInfo {
            username: Some(name),
            uid,
            groups,
            extra,
        }) if authenticated == Some(true) => Owner::User(User {
            name,
            uid,
            groups: groups.unwrap_or_default(),
            extra: extra.unwrap_or_default(),
            via: Via::Token,
        }),
        _ => Owner::Nobody,
    }
}

/// The token that a request carries.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, rest) = text.split_once(' ')?;
    let token = rest.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: Option<&str>) {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, header.parse().unwrap())]);
        assert_eq!(bearer(&headers).as_deref(), expected, "{header:?}");
    }

    #[test]
    fn a_token_is_found_where_gos_servers_find_it() {
        check("Bearer a.b.c", Some("a.b.c"));
        check("bEARER a", Some("a"));
        check("Bearer a b", Some("a"));
        for none in ["Bearer", "Bearer ", "Bearer  a", "Basic a", "a", ""] {
            check(none, None);
        }
    }

    #[test]
    fn only_a_named_user_who_was_authenticated_is_one() {
        let named = || {
            Some(UserInfo {
                username: Some("a".to_owned()),
                ..UserInfo::default()
            })
        };
        let status = |authenticated, user| TokenReviewStatus {
            authenticated,
            user,
            ..TokenReviewStatus::default()
        };
        assert!(matches!(
            owner(status(Some(true), named())),
            Owner::User(User {
                via: Via::Token,
                ..
            })
        ));
        assert_eq!(owner(status(Some(false), named())), Owner::Nobody);
        assert_eq!(owner(status(None, named())), Owner::Nobody);
        assert_eq!(owner(status(Some(true), None)), Owner::Nobody);
    }
}
