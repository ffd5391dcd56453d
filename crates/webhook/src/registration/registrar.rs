//! The webhook's `MutatingWebhookConfiguration` and its CA bundle.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use serving::ca_bundles::CaBundleObjects;
use serving::certificates::ObservedCaBundle;

use super::deployment_rollout::NewerRevision;
use super::write::{Writer, register};
use super::{Address, CONFIGURATION, OtherWebhooks, Registration};

/// Registers the webhook with the API server.
pub struct Registrar {
    /// The configuration; `None` where another program registers the webhook.
    registration: Option<(Api<MutatingWebhookConfiguration>, Registration)>,
    /// Owner of the configuration and this replica.
    writer: Writer,
    /// Search for webhooks that must end before this one registers; `None` to ignore them.
    others: Option<OtherWebhooks>,
    /// Time without a ready replica of the newer revision of the Deployment, after which this
    /// replica takes the registration over.
    takeover_delay: Duration,
    /// The bundle in the configuration, by the last read or write.
    trusted: Option<String>,
    /// The bundle of the last registration.
    registered: Option<String>,
    /// Whether the configuration was last seen to be that of a newer revision.
    is_newer: bool,
    newer: NewerRevision,
}

impl Registrar {
    /// A registrar that has not registered yet.
    pub fn new(
        registration: Option<(Api<MutatingWebhookConfiguration>, Registration)>,
        writer: Writer,
        others: Option<OtherWebhooks>,
        takeover_delay: Duration,
    ) -> Self {
        Self {
            registration,
            writer,
            others,
            takeover_delay,
            trusted: None,
            registered: None,
            is_newer: false,
            newer: NewerRevision::default(),
        }
    }
}

impl CaBundleObjects for Registrar {
    async fn reconcile(&mut self, bundle: Option<&str>) -> anyhow::Result<()> {
        let Some((configurations, registration)) = &self.registration else {
            return Ok(());
        };
        if let Some(others) = &self.others {
            let other = others.find(&registration.address).await;
            let other = other.context("cannot look for other webhooks")?;
            ensure!(
                other.is_none(),
                "not registering the webhook while another one sizes pods: {}",
                other.unwrap_or_default()
            );
        }
        let is_change = self.registered.is_some() && self.registered.as_deref() != bundle;
        if is_change {
            tracing::info!("New client CA found, reloading and patching webhook");
        }
        let takes_over = self
            .newer
            .is_unready_for(self.takeover_delay, Instant::now());
        let writer = &self.writer;
        let registered = register(configurations, registration, bundle, writer, takes_over).await;
        let registered = registered.context("cannot register the webhook")?;
        self.newer
            .observe(registered.is_newer_ready, Instant::now());
        if registered.is_newer {
            if !self.is_newer {
                tracing::info!("keeping the registration of a newer revision of the Deployment");
            }
        } else if is_change {
            tracing::info!("Successfully patched webhook with new client CA");
        } else if registered.changed {
            tracing::info!("registered the webhook");
        }
        self.is_newer = registered.is_newer;
        self.trusted = Some(registered.bundle);
        self.registered = bundle.map(str::to_owned);
        Ok(())
    }

    fn trusted(&self) -> Option<&str> {
        self.trusted.as_deref()
    }

    /// Empty while the bundle is unknown. Without a bundle the API server uses its system CAs, none
    /// of which signs for a Service; for a URL nothing is known then.
    fn observed(&self) -> Vec<ObservedCaBundle> {
        let (Some((_, registration)), Some(bundle)) = (&self.registration, &self.trusted) else {
            return Vec::new();
        };
        if bundle.is_empty() && matches!(registration.address, Address::Url(_)) {
            return Vec::new();
        }
        vec![ObservedCaBundle {
            object: CONFIGURATION.to_owned(),
            name: registration.address.names().swap_remove(0),
            bundle: bundle.clone(),
        }]
    }
}
