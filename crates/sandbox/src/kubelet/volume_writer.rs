//! Writes the volumes of a pod, and again when their Secrets, `ConfigMap`s or labels change or a
//! token expires.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::sleep;

use super::pod_context::{PodContext, containers};
use super::process_spec::SERVICE_ACCOUNT;
use super::tokens::Granted;
use super::volumes::{Material, Tokens};
use super::{WaitingReason, atomic_writer, tokens};

/// Pause after a failed attempt.
const RETRY: Duration = Duration::from_secs(5);

pub(super) async fn write_all(context: &PodContext) -> Result<Granted, WaitingReason> {
    let granted = tokens::request(&context.hosting.client, &context.pod()).await;
    let granted = granted.map_err(|error| {
        WaitingReason::volume(format!("request a ServiceAccount token: {error}"))
    })?;
    write(context, &granted.tokens)?;
    Ok(granted)
}

/// Keeps the volumes current. Never returns.
pub(super) async fn keep_current(context: &Arc<PodContext>, mut granted: Granted) {
    let mut objects = context.hosting.objects.changes();
    let mut pods = context.pods.clone();
    loop {
        let written = tokio::select! {
            _ = objects.changed() => write(context, &granted.tokens),
            Ok(()) = pods.changed() => write(context, &granted.tokens),
            () = due(granted.renewal) => write_all(context).await.map(|renewed| granted = renewed),
        };
        if let Err(problem) = written {
            tracing::debug!(%problem, pod = context.pod().name_any(), "cannot update the volumes of a pod");
            sleep(RETRY).await;
        }
    }
}

fn write(context: &PodContext, tokens: &Tokens) -> Result<(), WaitingReason> {
    let pod = context.pod();
    let namespace = pod.namespace().unwrap_or_default();
    let objects = &context.hosting.objects;
    let material = Material {
        pod: &pod,
        address: context.address,
        objects: &objects.objects(&namespace),
        tokens,
    };
    for volume in pod.spec.iter().flat_map(|spec| &spec.volumes).flatten() {
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

pub(super) fn service_account(pod: &Pod) -> Option<String> {
    let mut mounts = containers(pod).flat_map(|container| container.volume_mounts.iter().flatten());
    mounts
        .find(|mount| mount.mount_path == SERVICE_ACCOUNT)
        .map(|mount| mount.name.clone())
}
