//! Writes the `MutatingWebhookConfiguration`. Upstream deletes and recreates it at each start of a
//! replica; here it is patched in place if it differs, with the resource version that the patch is
//! based on.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use runtime::Backoff;
use serde_json::json;

use super::deployment_rollout::Replica;
use super::{
    CONFIGURATION, Owner, REPLICA_SET_ANNOTATION, REVISION_ANNOTATION, Registration,
    SELECTION_ANNOTATION, bundle_of, is_current, selection_of,
};

/// The field manager that creates the configuration.
const MANAGER: &str = "plimsoll-webhook";

/// Writer of the configuration.
#[derive(Default)]
pub struct Writer {
    /// The object with which the configuration is deleted.
    pub owner: Option<Owner>,
    /// This replica, if it belongs to a Deployment.
    pub replica: Option<Replica>,
}

/// The result of [`register`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    /// The CA bundle in the configuration.
    pub(super) bundle: String,
    /// Whether the configuration was written.
    pub(super) changed: bool,
    /// Whether it is kept as a newer revision of the Deployment wrote it.
    pub(super) is_newer: bool,
    /// Whether a replica of the newer revision is ready; `None` if there is no newer revision or it
    /// is not known.
    pub(super) is_newer_ready: Option<bool>,
}

/// Writes the configuration if it differs, unless a newer revision than that of the replica wrote it.
/// With `takes_over` it is also written if no replica of the newer revision is ready.
pub(super) async fn register(
    configurations: &Api<MutatingWebhookConfiguration>,
    registration: &Registration,
    bundle: Option<&str>,
    writer: &Writer,
    takes_over: bool,
) -> kube::Result<Registered> {
    let attempt = || try_register(configurations, registration, bundle, writer, takes_over);
    Backoff::default().retry(attempt).await
}

async fn try_register(
    configurations: &Api<MutatingWebhookConfiguration>,
    registration: &Registration,
    bundle: Option<&str>,
    writer: &Writer,
    takes_over: bool,
) -> kube::Result<Registered> {
    let replica = writer.replica.as_ref();
    let owner = match &writer.owner {
        Some(owner) => owner.reference().await?,
        None => None,
    };
    let current = configurations.get_opt(CONFIGURATION).await?;
    let mut desired = registration.desired(bundle, owner.as_ref(), current.as_ref());
    let registered = |configuration: &MutatingWebhookConfiguration, changed| {
        let bundle = bundle_of(configuration).unwrap_or_default();
        let bundle = String::from_utf8_lossy(&bundle).into_owned();
        Registered {
            bundle,
            changed,
            is_newer: false,
            is_newer_ready: None,
        }
    };
    if let Some(current) = &current
        && is_current(current, &desired)
    {
        return Ok(registered(current, false));
    }
    let revision = match replica {
        Some(replica) => replica.revision().await,
        None => None,
    };
    // Null removes an annotation: this replica's revision is unknown.
    let known = revision.as_ref().and(replica);
    let annotations = BTreeMap::from([
        (
            REVISION_ANNOTATION,
            revision.as_ref().map(ToString::to_string),
        ),
        (
            REPLICA_SET_ANNOTATION,
            known.map(|replica| replica.replica_set().to_owned()),
        ),
        (SELECTION_ANNOTATION, selection_of(&desired).cloned()),
    ]);
    let Some(current) = current else {
        let annotations = annotations.into_iter();
        let annotations: BTreeMap<_, _> = annotations
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        if !annotations.is_empty() {
            desired.metadata.annotations = Some(annotations);
        }
        // Server-side apply, because RBAC can limit it to one name, unlike create.
        let (params, patch) = (PatchParams::apply(MANAGER).force(), Patch::Apply(desired));
        let created = configurations.patch(CONFIGURATION, &params, &patch).await?;
        return Ok(registered(&created, true));
    };
    if let Some(replica) = replica.filter(|_| revision.is_some_and(|own| own.is_before(&current))) {
        let is_newer_ready = replica.is_registrant_ready(&current).await;
        if !takes_over || is_newer_ready != Some(false) {
            return Ok(Registered {
                is_newer: true,
                is_newer_ready,
                ..registered(&current, false)
            });
        }
        tracing::warn!(
            "taking over the registration: no replica of the newer revision of the Deployment is ready"
        );
    }
    let change = json!({
        "metadata": {
            "resourceVersion": current.metadata.resource_version,
            "labels": desired.metadata.labels,
            "annotations": annotations,
            "ownerReferences": desired.metadata.owner_references,
        },
        "webhooks": desired.webhooks,
    });
    let (params, patch) = (PatchParams::default(), Patch::Merge(change));
    let changed = configurations.patch(CONFIGURATION, &params, &patch).await?;
    Ok(registered(&changed, true))
}
