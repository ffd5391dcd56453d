//! Keeps the `MutatingWebhookConfiguration` as it should be. Upstream deletes it and makes it anew
//! at each start of each replica; here it is changed in place, only where it differs, and never
//! without the version that the change is based on.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use runtime::Backoff;
use serde_json::json;

use super::rollout::Replica;
use crate::registration::{
    CONFIGURATION, REPLICA_SET_ANNOTATION, REVISION_ANNOTATION, Registration, bundle_of, is_current,
};

/// The name under which the configuration is applied first.
const MANAGER: &str = "plimsoll-webhook";

/// What was found or put in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The authorities that the API server has.
    pub bundle: String,
    /// Whether it was changed to that.
    pub changed: bool,
    /// Whether it is left as a newer revision of the Deployment has made it.
    pub is_newer: bool,
    /// Whether a replica of that revision is ready. None without a newer revision, and where it is
    /// not known.
    pub is_newer_ready: Option<bool>,
}

/// Puts the registration in place if it is not, unless replicas of a newer revision than that of
/// `replica` made the present one. With `takes_back` it is also put in place where no replica of
/// the newer revision is ready.
pub async fn register(
    configurations: &Api<MutatingWebhookConfiguration>,
    registration: &Registration,
    bundle: Option<&str>,
    replica: Option<&Replica>,
    takes_back: bool,
) -> kube::Result<Registered> {
    Backoff::default()
        .retry(|| try_register(configurations, registration, bundle, replica, takes_back))
        .await
}

async fn try_register(
    configurations: &Api<MutatingWebhookConfiguration>,
    registration: &Registration,
    bundle: Option<&str>,
    replica: Option<&Replica>,
    takes_back: bool,
) -> kube::Result<Registered> {
    let present = configurations.get_opt(CONFIGURATION).await?;
    let mut wanted = registration.wanted(bundle, present.as_ref());
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
    if let Some(present) = present
        .as_ref()
        .filter(|present| is_current(present, &wanted))
    {
        return Ok(registered(present, false));
    }
    let revision = match replica {
        Some(replica) => replica.revision().await,
        None => None,
    };
    // Null takes an annotation away: this replica's revision is not known.
    let annotations = BTreeMap::from([
        (
            REVISION_ANNOTATION,
            revision.as_ref().map(ToString::to_string),
        ),
        (
            REPLICA_SET_ANNOTATION,
            revision
                .as_ref()
                .and(replica)
                .map(|replica| replica.replica_set().to_owned()),
        ),
    ]);
    let Some(present) = present else {
        let annotations: BTreeMap<_, _> = annotations
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect();
        if !annotations.is_empty() {
            wanted
                .metadata
                .annotations
                .get_or_insert_default()
                .extend(annotations);
        }
        // Applied, not posted: the right to apply can be limited to one name.
        let params = PatchParams::apply(MANAGER).force();
        let made = configurations
            .patch(CONFIGURATION, &params, &Patch::Apply(wanted))
            .await?;
        return Ok(registered(&made, true));
    };
    if let Some(replica) = replica.filter(|_| revision.is_some_and(|own| own.is_before(&present))) {
        let is_newer_ready = replica.is_registrant_ready(&present).await;
        if !takes_back || is_newer_ready != Some(false) {
            return Ok(Registered {
                is_newer: true,
                is_newer_ready,
                ..registered(&present, false)
            });
        }
        tracing::warn!(
            "taking the registration back: no replica of the newer revision of the Deployment is ready"
        );
    }
    let change = json!({
        "metadata": {
            "resourceVersion": present.metadata.resource_version,
            "labels": wanted.metadata.labels,
            "annotations": annotations,
        },
        "webhooks": wanted.webhooks,
    });
    let changed = configurations
        .patch(
            CONFIGURATION,
            &PatchParams::default(),
            &Patch::Merge(change),
        )
        .await?;
    Ok(registered(&changed, true))
}
