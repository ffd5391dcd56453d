//! Rights of pods to write in all namespaces, by reviews of their `ServiceAccount`s. A tenant cannot
//! give its own `ServiceAccount`s such a right.

use std::collections::BTreeMap;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use view::{AutoscalerRole, ObjectKey};

/// Maximum number of reviews in one look for other autoscalers.
const REVIEWS: usize = 20;
/// Namespace of the cluster itself: no tenant writes there.
const TRUSTED: &str = "kube-system";

/// Rights of `ServiceAccount`s, each reviewed once.
pub(crate) struct ClusterRights {
    client: Client,
    /// By role, namespace and name of the `ServiceAccount`.
    reviewed: BTreeMap<(AutoscalerRole, String, String), bool>,
}

impl ClusterRights {
    pub(crate) fn new(client: Client) -> Self {
        let reviewed = BTreeMap::new();
        Self { client, reviewed }
    }

    /// Whether a pod may write in all namespaces.
    pub(crate) async fn of_pod(&mut self, role: AutoscalerRole, pod: &Pod) -> kube::Result<bool> {
        let namespace = pod.namespace().unwrap_or_default();
        self.of_account(role, &namespace, &account(pod)).await
    }

    /// Whether the running pod with this name may.
    pub(crate) async fn of_pod_named(
        &mut self,
        role: AutoscalerRole,
        pod: &ObjectKey,
    ) -> kube::Result<bool> {
        if pod.namespace == TRUSTED {
            return Ok(true);
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        // A list: the programs have no right to get pods.
        let fields = format!("status.phase=Running,metadata.name={}", pod.name);
        let pods = api.list(&ListParams::default().fields(&fields)).await?;
        match pods.items.first() {
            Some(pod) => self.of_pod(role, pod).await,
            None => Ok(false),
        }
    }

    async fn of_account(
        &mut self,
        role: AutoscalerRole,
        namespace: &str,
        account: &str,
    ) -> kube::Result<bool> {
        let key = (role, namespace.to_owned(), account.to_owned());
        if let Some(known) = self.reviewed.get(&key) {
            return Ok(*known);
        }
        if self.reviewed.len() >= REVIEWS {
            tracing::warn!(
                namespace,
                account,
                "too many pods look like other autoscalers: ignoring this one"
            );
            return Ok(false);
        }
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = review(role.write(), namespace, account);
        let is_allowed = match api.create(&PostParams::default(), &review).await {
            Ok(review) => review.status.is_some_and(|status| status.allowed),
            // Without the right to review, each sign counts.
            Err(kube::Error::Api(status)) if status.code == 403 => true,
            Err(error) => return Err(error),
        };
        self.reviewed.insert(key, is_allowed);
        Ok(is_allowed)
    }
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
