//! Rights of pods to write in all namespaces, by reviews of their `ServiceAccount`s. A tenant cannot
//! give its own `ServiceAccount`s such a right.

use std::collections::BTreeMap;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use view::{AutoscalerRole, ObjectKey};

use crate::excluded_fields;
use crate::memory_limits::Limits;
use crate::reflector::{Source, list_once};
use crate::watch_error::WatchError;

/// Maximum number of reviews in one look for other autoscalers.
const REVIEWS: usize = 50;
/// Namespace of the cluster itself: no tenant writes there.
const TRUSTED: &str = "kube-system";

/// Rights of pods in one look for other autoscalers.
pub(crate) struct ClusterRights {
    client: Client,
    /// Results by role, namespace and `ServiceAccount`.
    reviewed: BTreeMap<(AutoscalerRole, String, String), bool>,
}

impl ClusterRights {
    pub(crate) fn new(client: Client) -> Self {
        let reviewed = BTreeMap::new();
        Self { client, reviewed }
    }

    /// Whether a running pod may write in all namespaces.
    pub(crate) async fn of_pod(
        &mut self,
        role: AutoscalerRole,
        pod: &Pod,
    ) -> Result<bool, WatchError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        if namespace == TRUSTED {
            return Ok(true);
        }
        let account = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.as_deref());
        let account = account.unwrap_or("default");
        let key = (role, namespace.to_owned(), account.to_owned());
        if let Some(may) = self.reviewed.get(&key) {
            return Ok(*may);
        }
        if self.reviewed.len() >= REVIEWS {
            tracing::warn!(
                namespace,
                account,
                "too many pods look like other autoscalers: ignoring those of this ServiceAccount"
            );
            return Ok(false);
        }
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = review(role.write(), namespace, account);
        let may = match api.create(&PostParams::default(), &review).await {
            Ok(review) => review.status.is_some_and(|status| status.allowed),
            // Without the right to review, each sign counts.
            Err(kube::Error::Api(status)) if status.code == 403 => true,
            Err(error) => return Err(error.into()),
        };
        self.reviewed.insert(key, may);
        Ok(may)
    }

    /// The same of the pod that holds a Lease, if it runs.
    pub(crate) async fn of_holder(
        &mut self,
        role: AutoscalerRole,
        holder: &ObjectKey,
    ) -> Result<bool, WatchError> {
        let ObjectKey { namespace, name } = holder;
        if namespace == TRUSTED {
            return Ok(true);
        }
        // The name may be any text that a tenant wrote into a Lease. In a selector it would be refused.
        if !is_pod_name(name) {
            return Ok(false);
        }
        // A list: the programs have no right to get pods.
        let source = Source::new::<Pod>(
            self.client.clone(),
            Some(namespace),
            excluded_fields::AUTOSCALER_PODS,
        )
        .with_limits(Limits::SIGNS)
        .with_fields(format!("status.phase=Running,metadata.name={name}"));
        match list_once::<Pod>(&source, 1).await?.first() {
            Some(pod) => self.of_pod(role, pod).await,
            None => Ok(false),
        }
    }
}

/// Whether a pod can have this name: only characters that need no escape in a field selector.
fn is_pod_name(name: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// The review whether a `ServiceAccount` may do something, with the groups that the API server gives
/// to it.
fn review(attributes: ResourceAttributes, namespace: &str, account: &str) -> SubjectAccessReview {
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{account}")),
            groups: Some(groups.into()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_would_change_a_selector_is_no_pod_name() {
        for name in ["vpa-updater-6d4f9c5b7-x2x9k", "a.b"] {
            assert!(is_pod_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in ["", "a,b=c", "a=b", "a\\", "A", "a b", &long] {
            assert!(!is_pod_name(name), "{name}");
        }
    }
}
