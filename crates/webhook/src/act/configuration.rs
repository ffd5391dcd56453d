//! Keeps the `MutatingWebhookConfiguration` as it should be. Upstream deletes it and makes it anew at each start of each replica;
//! here it is changed in place, only where it differs, and never without the version that the change is based on.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use runtime::Backoff;
use serde_json::json;

use super::rollout::Replica;
use crate::registration::{CONFIGURATION, REVISION_ANNOTATION, Registration, bundle_of, is_current};

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
}

/// Puts the registration in place if it is not, unless replicas of a newer revision than that of `replica` made the present one.
pub async fn register(
    configurations: &Api<MutatingWebhookConfiguration>,
    registration: &Registration,
    bundle: Option<&str>,
    replica: Option<&Replica>,
) -> kube::Result<Registered> {
    Backoff::default().retry(|| try_register(configurations, registration, bundle, replica)).await
}

async fn try_register(
    configurations: &Api<MutatingWebhookConfiguration>,
    registration: &Registration,
    bundle: Option<&str>,
    replica: Option<&Replica>,
) -> kube::Result<Registered> {
    let present = configurations.get_opt(CONFIGURATION).await?;
    let mut wanted = registration.wanted(bundle, present.as_ref());
    let registered = |configuration: &MutatingWebhookConfiguration, changed| {
        let bundle = bundle_of(configuration).unwrap_or_default();
        Registered { bundle: String::from_utf8_lossy(&bundle).into_owned(), changed, is_newer: false }
    };
    if let Some(present) = present.as_ref().filter(|present| is_current(present, &wanted)) {
        return Ok(registered(present, false));
    }
    let revision = match replica {
        Some(replica) => replica.revision().await,
        None => None,
    };
    let made_by = revision.as_ref().map(ToString::to_string);
    let Some(present) = present else {
        if let Some(made_by) = made_by {
            wanted.metadata.annotations.get_or_insert_default().insert(REVISION_ANNOTATION.to_owned(), made_by);
        }
        // Applied, not posted: the right to apply can be limited to one name.
        let params = PatchParams::apply(MANAGER).force();
        let made = configurations.patch(CONFIGURATION, &params, &Patch::Apply(wanted)).await?;
        return Ok(registered(&made, true));
    };
    if revision.is_some_and(|own| own.is_before(&present)) {
        return Ok(Registered { is_newer: true, ..registered(&present, false) });
    }
    let change = json!({
        "metadata": {
            "resourceVersion": present.metadata.resource_version,
            "labels": wanted.metadata.labels,
            // Null takes the annotation away: this replica's revision is not known.
            "annotations": {REVISION_ANNOTATION: made_by},
        },
        "webhooks": wanted.webhooks,
    });
    let changed = configurations.patch(CONFIGURATION, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(registered(&changed, true))
}
