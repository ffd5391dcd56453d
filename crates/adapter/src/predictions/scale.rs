//! The replicas of workloads, read from the API server for each request. The HPA controller has
//! just read them too, so an older value, such as one from a watch, would undo a change made in
//! between.
//!
//! The HPA controller compares the value with the existing pods, and sets the replicas to their
//! number if both are within its tolerance: in the middle of a rollout, ten of eleven pods would
//! become eleven replicas. So there is no value until both numbers are equal.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::{Client, Error};
use model::WorkloadRef;
use sources::scaled_kinds::ScaledKinds;
use tokio::time::timeout;

use crate::flow_limiter::{Flow, FlowLimiter};

/// The largest number of reads in flight.
const CONCURRENCY: usize = 64;
/// The timeout of a read; shorter than that of a request.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// The replicas of a workload, or the reason that they are unknown.
pub(super) type ScaleResult = (WorkloadRef, Result<i32, String>);

#[derive(Clone)]
pub(super) struct ScaleClient {
    client: Client,
    kinds: ScaledKinds,
    limiter: Arc<FlowLimiter>,
}

impl ScaleClient {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            kinds: ScaledKinds::default(),
            limiter: Arc::new(FlowLimiter::new(CONCURRENCY)),
        }
    }

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
                Err("its replicas cannot be read from the API server".to_owned())
            }
            Err(_) => Err("the API server did not return its replicas in time".to_owned()),
        }
    }

    async fn read(&self, target: &WorkloadRef, flow: &Flow) -> Result<Scale, Error> {
        let _permit = self.limiter.acquire(flow).await;
        let WorkloadRef {
            api_version,
            kind,
            namespace,
            name,
        } = target;
        let kinds = self.kinds.api(&self.client, namespace, api_version, kind);
        kinds.await?.get_scale(name).await
    }
}

/// Returns the replicas once that number of pods exists.
fn settled_replicas(scale: &Scale) -> Result<i32, String> {
    // The API server omits zero.
    let desired = scale.spec.as_ref().and_then(|spec| spec.replicas);
    let desired = desired.unwrap_or_default();
    let current = scale.status.as_ref().map_or(0, |status| status.replicas);
    if current == desired {
        Ok(desired)
    } else {
        Err(format!("{current} of {desired} pods exist"))
    }
}
