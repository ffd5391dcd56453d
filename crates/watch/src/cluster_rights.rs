//! Rights of pods to write in all namespaces, by reviews of their `ServiceAccount`s. A tenant cannot
//! give its own `ServiceAccount`s such a right.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use view::{AutoscalerRole, ObjectKey};

/// Maximum number of pods that are read in one look for other autoscalers, one after the other: a
/// tenant may make them many and large.
const PODS: usize = 20;
/// Namespace of the cluster itself: no tenant writes there.
const TRUSTED: &str = "kube-system";

/// Rights of pods in one look for other autoscalers.
pub(crate) struct ClusterRights {
    client: Client,
    /// Number of pods that were read.
    read: usize,
}

impl ClusterRights {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, read: 0 }
    }

    /// Whether a running pod may write in all namespaces.
    pub(crate) async fn of_pod(
        &mut self,
        role: AutoscalerRole,
        pod: &ObjectKey,
    ) -> kube::Result<bool> {
        let ObjectKey { namespace, name } = pod;
        if namespace == TRUSTED {
            return Ok(true);
        }
        // The name may be any text that a tenant wrote into a Lease. In a selector it would be refused,
        // and with it the whole look.
        if !is_pod_name(name) {
            return Ok(false);
        }
        if self.read >= PODS {
            tracing::warn!(%pod, "too many pods look like other autoscalers: ignoring this one");
            return Ok(false);
        }
        self.read += 1;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // A list: the programs have no right to get pods.
        let fields = format!("status.phase=Running,metadata.name={name}");
        let pods = api.list(&ListParams::default().fields(&fields)).await?;
        let Some(pod) = pods.items.first() else {
            return Ok(false);
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = review(role.write(), namespace, &account(pod));
        match api.create(&PostParams::default(), &review).await {
            Ok(review) => Ok(review.status.is_some_and(|status| status.allowed)),
            // Without the right to review, each sign counts.
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Whether a pod can have this name: only characters that need no escape in a field selector.
fn is_pod_name(name: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn account(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account_name.clone());
    account.unwrap_or_else(|| "default".to_owned())
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
