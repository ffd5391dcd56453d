//! How many replicas workloads are configured to have, asked of the API server at the moment. The
//! autoscaler has just read that too, so an older answer, such as one from a watch that lags, would
//! undo what somebody did in between.
//!
//! It holds the answer against the pods that are there, and sets the workload to their number where
//! the two are within its tolerance: ten of eleven in the middle of a rollout become eleven. No
//! answer says ten to it then, so there is none until both are the same.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use kube::{Client, Error};
use model::WorkloadRef;
use tokio::time::timeout;
use view::WellKnown;

use crate::flow::{Flow, FlowLimiter};

/// Reads of scale subresources at the same time.
const CONCURRENCY: usize = 64;
/// Less than whoever asks waits.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// The size of a workload, or why it is not known.
pub(super) type ScaleResult = (WorkloadRef, Result<i32, String>);

/// Asks for sizes.
#[derive(Clone)]
pub(super) struct ScaleClient {
    client: Client,
    limiter: Arc<FlowLimiter>,
}

impl ScaleClient {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            limiter: Arc::new(FlowLimiter::new(CONCURRENCY)),
        }
    }

    /// The sizes of these workloads now.
    pub(super) async fn read_all(
        &self,
        targets: Vec<WorkloadRef>,
        flow: &Flow,
    ) -> Vec<ScaleResult> {
        join_all(targets.into_iter().map(async |target| {
            let size = self.replicas(&target, flow).await;
            (target, size)
        }))
        .await
    }

    async fn replicas(&self, target: &WorkloadRef, flow: &Flow) -> Result<i32, String> {
        match timeout(TIMEOUT, self.read(target, flow)).await {
            Ok(Ok(scale)) => settled_replicas(&scale),
            Ok(Err(Error::Api(status))) => Err(status.message.clone()),
            Ok(Err(error)) => {
                tracing::debug!(%target, %error, "cannot read the size of a workload");
                Err("the API server cannot be asked how many there are".to_owned())
            }
            Err(_) => Err("the API server does not say in time how many there are".to_owned()),
        }
    }

    async fn read(&self, target: &WorkloadRef, flow: &Flow) -> Result<Scale, Error> {
        let _permit = self.limiter.acquire(flow).await;
        let resource = match well_known(target) {
            Some(resource) => resource,
            None => pinned_kind(&self.client, &of_kind(target)).await?.0,
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &target.namespace, &resource);
        api.get_scale(&target.name).await
    }
}

impl std::fmt::Debug for ScaleClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScaleClient").finish_non_exhaustive()
    }
}

/// The size, once so many pods are there.
fn settled_replicas(scale: &Scale) -> Result<i32, String> {
    // The API server leaves zero out.
    let wanted = scale
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or_default();
    let there = scale
        .status
        .as_ref()
        .map(|status| status.replicas)
        .unwrap_or_default();
    if there == wanted {
        Ok(wanted)
    } else {
        Err(format!("{there} of {wanted} replicas are there"))
    }
}

/// The resource of a kind that everybody knows, in the version that there is.
fn well_known(target: &WorkloadRef) -> Option<ApiResource> {
    let snapshot = WellKnown::of_kind(&target.kind)?;
    let there = GroupVersionKind::try_from(kube::core::TypeMeta {
        api_version: snapshot.api_version().to_owned(),
        kind: target.kind.clone(),
    });
    let there = there
        .ok()
        .filter(|there| there.group == of_kind(target).group)?;
    Some(ApiResource::from_gvk_with_plural(&there, snapshot.plural()))
}

fn of_kind(target: &WorkloadRef) -> GroupVersionKind {
    let (group, version) = target
        .api_version
        .rsplit_once('/')
        .unwrap_or(("", &target.api_version));
    GroupVersionKind::gvk(group, version, &target.kind)
}
