//! `ServiceAccount` tokens of a hosted pod, from a `TokenRequest` that is bound to the pod. They
//! are renewed after four fifths of their lifetime or a day, as in a kubelet.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use super::volumes::{TokenWanted, Tokens, tokens_wanted};

/// The longest time between two renewals.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// Tokens of a pod, and the time of their renewal, if there are any.
#[derive(Default)]
pub(super) struct Granted {
    pub(super) tokens: Tokens,
    pub(super) renewal: Option<Timestamp>,
}

pub(super) async fn request(client: &Client, pod: &Pod) -> Result<Granted, kube::Error> {
    let mut all = Granted::default();
    for wanted in tokens_wanted(pod) {
        let asked_at = Timestamp::now();
        let granted = request_one(client, pod, &wanted).await?;
        let status = granted.status.unwrap_or_default();
        if let Some(ends_at) = status.expiration_timestamp {
            let due = renewal_time(asked_at, ends_at.0);
            all.renewal = Some(all.renewal.map_or(due, |earlier| earlier.min(due)));
        }
        all.tokens.extend(status.token.map(|token| (wanted, token)));
    }
    Ok(all)
}

async fn request_one(
    client: &Client,
    pod: &Pod,
    wanted: &TokenWanted,
) -> Result<TokenRequest, kube::Error> {
    let spec = pod.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account_name.as_deref());
    let namespace = pod.namespace().unwrap_or_default();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &namespace);
    let bound_to = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(pod.name_any()),
        uid: pod.uid(),
    };
    let spec = TokenRequestSpec {
        // No audience means the API server.
        audiences: Some(wanted.audience.iter().cloned().collect()),
        bound_object_ref: Some(bound_to),
        expiration_seconds: Some(wanted.expiration_seconds),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec: Some(spec),
        ..TokenRequest::default()
    };
    accounts
        .create_token_request(
            account.unwrap_or("default"),
            &PostParams::default(),
            &request,
        )
        .await
}

/// Renewal time of a token, from its request and its expiry.
fn renewal_time(asked_at: Timestamp, ends_at: Timestamp) -> Timestamp {
    let life = ends_at.duration_since(asked_at).max(SignedDuration::ZERO);
    asked_at + (life * 4 / 5).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(life: SignedDuration, renewed_after: SignedDuration) {
        let start = Timestamp::UNIX_EPOCH;
        assert_eq!(renewal_time(start, start + life), start + renewed_after);
    }

    #[test]
    fn a_token_is_renewed_well_before_it_ends() {
        check(SignedDuration::from_mins(10), SignedDuration::from_mins(8));
        check(
            SignedDuration::from_hours(10),
            SignedDuration::from_hours(8),
        );
        check(
            SignedDuration::from_hours(8760),
            SignedDuration::from_hours(24),
        );
        check(SignedDuration::from_mins(-1), SignedDuration::ZERO);
    }
}
