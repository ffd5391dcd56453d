//! Writes the `MutatingWebhookConfiguration`. Upstream deletes and recreates it at each start of a
//! replica; here it is patched in place if it differs, with the resource version that the patch is
//! based on.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use runtime::Backoff;
use serde_json::json;

use super::{
    CONFIGURATION, Owner, Registration, SELECTION_ANNOTATION, bundle_of, is_current, selection_of,
};

/// Annotation that Plimsoll writes on a webhook configuration: pod that wrote it last; see
/// docs/admission.md#registration.
pub(super) const REGISTERED_BY: &str = "plimsoll.dev/registered-by";
/// The field manager that creates the configuration.
const MANAGER: &str = "plimsoll-webhook";

pub struct Writer {
    /// The object with which the configuration is deleted.
    pub owner: Option<Owner>,
    pub pod: String,
}

/// The configuration in the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) bundle: String,
    pub(super) changed: bool,
}

impl Registered {
    fn new(configuration: &MutatingWebhookConfiguration, changed: bool) -> Self {
        let bundle = bundle_of(configuration).unwrap_or_default();
        let bundle = String::from_utf8_lossy(&bundle).into_owned();
        Self { bundle, changed }
    }
}

/// Writes the configuration if it differs. Without a writer it is only read; `None` if it does not
/// exist.
pub(super) async fn register(
    configurations: &Api<MutatingWebhookConfiguration>,
    registration: &Registration,
    bundle: Option<&str>,
    writer: Option<&Writer>,
) -> kube::Result<Option<Registered>> {
    let attempt = || async move {
        let current = configurations.get_opt(CONFIGURATION).await?;
        let Some(Writer { owner, pod }) = writer else {
            return Ok(current.map(|current| Registered::new(&current, false)));
        };
        let owner = match owner {
            Some(owner) => owner.reference().await?,
            None => None,
        };
        let mut desired = registration.desired(bundle, owner.as_ref(), current.as_ref());
        let (params, patch) = match current {
            Some(current) if is_current(&current, &desired) => {
                return Ok(Some(Registered::new(&current, false)));
            }
            Some(current) => {
                let change = json!({
                    "metadata": {
                        "resourceVersion": current.metadata.resource_version,
                        "labels": desired.metadata.labels,
                        // Null removes an annotation.
                        "annotations": {
                            REGISTERED_BY: pod,
                            SELECTION_ANNOTATION: selection_of(&desired),
                        },
                        "ownerReferences": desired.metadata.owner_references,
                    },
                    "webhooks": desired.webhooks,
                });
                (PatchParams::default(), Patch::Merge(change))
            }
            None => {
                let annotations = desired.metadata.annotations.get_or_insert_default();
                annotations.insert(REGISTERED_BY.to_owned(), pod.clone());
                // Server-side apply, because RBAC can limit it to one name, unlike create.
                let desired = serde_json::to_value(desired).map_err(kube::Error::SerdeError)?;
                (PatchParams::apply(MANAGER).force(), Patch::Apply(desired))
            }
        };
        let written = configurations.patch(CONFIGURATION, &params, &patch).await?;
        Ok(Some(Registered::new(&written, true)))
    };
    Backoff::default().retry(attempt).await
}
