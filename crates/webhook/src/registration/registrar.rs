//! The webhook's `MutatingWebhookConfiguration` and its CA bundle.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use runtime::Leading;
use serving::ca_bundles::CaBundleObjects;
use serving::certificates::ObservedCaBundle;
use tokio::sync::watch;

use super::write::{Writer, register};
use super::{Address, CONFIGURATION, OtherWebhooks, Registration};

pub struct Registrar {
    /// The configuration; `None` where another program registers the webhook.
    registration: Option<(Api<MutatingWebhookConfiguration>, Registration)>,
    writer: Writer,
    /// Search for webhooks that must end before this one registers; `None` to ignore them.
    others: Option<OtherWebhooks>,
    /// The last term of this replica. Others only read the configuration.
    term: watch::Receiver<Option<Leading>>,
    /// The bundle in the configuration, by the last read or write.
    trusted: Option<String>,
    /// The bundle of the last registration.
    registered: Option<String>,
}

impl Registrar {
    pub fn new(
        registration: Option<(Api<MutatingWebhookConfiguration>, Registration)>,
        writer: Writer,
        others: Option<OtherWebhooks>,
        term: watch::Receiver<Option<Leading>>,
    ) -> Self {
        Self {
            registration,
            writer,
            others,
            term,
            trusted: None,
            registered: None,
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
        let term = self.term.borrow().clone();
        let leads = term.is_some_and(|term| term.holds(Instant::now()));
        let is_change = self.registered.is_some() && self.registered.as_deref() != bundle;
        if is_change {
            tracing::info!("New client CA found, reloading and patching webhook");
        }
        let writer = leads.then_some(&self.writer);
        let registered = register(configurations, registration, bundle, writer).await;
        let registered = registered
            .context("cannot register the webhook")?
            .context("the replica that holds the Lease has not registered the webhook")?;
        if is_change && leads {
            tracing::info!("Successfully patched webhook with new client CA");
        } else if registered.changed {
            tracing::info!("registered the webhook");
        }
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
