//! Writes the volumes of a pod, and again when their Secrets, `ConfigMap`s or labels change or a
//! token expires.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use tokio::time::sleep;

use super::config_objects::References;
use super::pod_context::PodContext;
use super::process_spec::SERVICE_ACCOUNT;
use super::volumes::{Material, Tokens};
use super::{WaitingReason, atomic_writer, tokens};

/// Pause after a failed attempt.
const RETRY: Duration = Duration::from_secs(5);

/// Tokens of a pod, and the time of their renewal.
pub(super) struct WrittenVolumes {
    tokens: Tokens,
    renewal: Option<Timestamp>,
}

/// Requests the pod's tokens and writes all its volumes.
pub(super) async fn write_all(context: &PodContext) -> Result<WrittenVolumes, WaitingReason> {
    let pod = context.pod();
    let (tokens, renewal) = tokens::request(&context.hosting.config.client, &pod)
        .await
        .map_err(|error| {
            WaitingReason::volume(format!("request a ServiceAccount token: {error}"))
        })?;
    write(context, &pod, &tokens)?;
    Ok(WrittenVolumes { tokens, renewal })
}

/// Keeps the volumes current. Never returns.
pub(super) async fn keep_current(context: &Arc<PodContext>, mut written: WrittenVolumes) {
    let mut objects = context.hosting.objects.changes();
    let mut pods = context.pods.clone();
    loop {
        let pause = tokio::select! {
            _ = objects.changed() => rewrite(context, &written.tokens),
            Ok(()) = pods.changed() => rewrite(context, &written.tokens),
            () = due(written.renewal) => match write_all(context).await {
                Ok(renewed) => {
                    written = renewed;
                    Ok(())
                }
                Err(problem) => Err(problem),
            }
        };
        if let Err(problem) = pause {
            tracing::debug!(%problem, pod = context.pod().name_any(), "cannot update the volumes of a pod");
            sleep(RETRY).await;
        }
    }
}

fn rewrite(context: &PodContext, tokens: &Tokens) -> Result<(), WaitingReason> {
    let pod = context.pod();
    if pod.spec.is_none() {
        Ok(())
    } else {
        write(context, &pod, tokens)
    }
}

fn write(context: &PodContext, pod: &Pod, tokens: &Tokens) -> Result<(), WaitingReason> {
    let objects = context
        .hosting
        .objects
        .objects(&pod.namespace().unwrap_or_default(), &References::of(pod));
    let material = Material {
        pod,
        address: context.address,
        objects: &objects,
        tokens,
    };
    for volume in pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
    {
        let folder = context.volumes().join(&volume.name);
        let written = match material.files(volume)? {
            Some(files) => atomic_writer::write(&folder, &files).map(drop),
            None => atomic_writer::make_folder(&folder),
        };
        written
            .map_err(|error| WaitingReason::volume(format!("volume {:?}: {error}", volume.name)))?;
    }
    Ok(())
}

async fn due(renewal: Option<Timestamp>) {
    match renewal {
        Some(renewal) => {
            let left = renewal
                .duration_since(Timestamp::now())
                .max(SignedDuration::ZERO);
            sleep(left.unsigned_abs()).await;
        }
        None => std::future::pending().await,
    }
}

/// The volume with the pod's `ServiceAccount`, if a container mounts one.
pub(super) fn service_account(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let mounts = |container: &Container| {
        let mounts = container.volume_mounts.as_deref().unwrap_or_default();
        mounts
            .iter()
            .find(|mount| mount.mount_path == SERVICE_ACCOUNT)
            .map(|mount| mount.name.clone())
    };
    spec.init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .find_map(mounts)
}
