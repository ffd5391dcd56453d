//! Looks after the certificates, and tells the API server whom to trust: the two belong together,
//! since no certificate may change before those who check it know its authority.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use runtime::{Activity, ApiServerClock};
use serving::certificates::{CertificateMonitor, Certificates, ObservedCaBundle, Verification};
use tokio::sync::watch;

use crate::act::configuration::{Registered, register};
use crate::act::rollout::{NewerRevision, Replica};
use crate::registration::{Address, CONFIGURATION, Registration};

/// How often the registration is compared with what it should be where nothing seems to have
/// changed.
const CHECK: Duration = Duration::from_secs(15);

/// Whom the API server is told to trust, and where.
pub struct Attendant {
    /// What is served.
    pub certificates: Certificates,
    /// What is registered, and where; none where somebody else registers.
    pub registration: Option<(Api<MutatingWebhookConfiguration>, Registration)>,
    /// Shows that this goes on.
    pub activity: Activity,
    /// Sees to it that the two fit together.
    pub monitor: CertificateMonitor,
    /// The API server's time.
    pub clock: ApiServerClock,
    /// This replica, where it is one of a Deployment.
    pub replica: Option<Replica>,
    /// How long no replica of a newer revision of the Deployment may be ready before its
    /// registration is taken back.
    pub patience: Duration,
    /// Whether pods that are created come to this replica: the webhook was registered, and its
    /// certificate is not refused.
    pub in_effect: watch::Sender<bool>,
}

impl Attendant {
    /// Looks after certificates and registration for ever.
    pub async fn run(mut self) {
        let mut is_registered = false;
        let mut said = None;
        let mut state = Told::default();
        loop {
            self.activity.record(Instant::now());
            let looked = self
                .certificates
                .refresh(state.trusted.as_deref(), self.clock.now())
                .await;
            let told = state.tell(&self).await;
            is_registered |= told.is_ok();
            let clients = state.clients(self.registration.as_ref());
            let verification = self
                .monitor
                .check(&self.certificates, &clients, self.clock.now())
                .await;
            let in_effect = is_registered && verification != Verification::Failed;
            self.in_effect
                .send_if_modified(|known| std::mem::replace(known, in_effect) != in_effect);
            if matches!(verification, Verification::Suspect | Verification::Failed) {
                state.checked = None;
            }
            let trouble = looked.and(told).err().map(|error| format!("{error:#}"));
            if let Some(error) = trouble.as_ref().filter(|_| trouble != said) {
                tracing::warn!(
                    error,
                    "certificates and registration stay as they are; trying on"
                );
            }
            said = trouble;
            tokio::time::sleep(self.certificates.period()).await;
        }
    }
}

/// What the API server was told.
#[derive(Default)]
struct Told {
    /// What it was last seen to trust.
    trusted: Option<String>,
    /// What it was last told to trust.
    bundle: Option<String>,
    checked: Option<Instant>,
    /// The registration was last seen to be that of a newer revision.
    is_newer: bool,
    newer: NewerRevision,
}

impl Told {
    /// The API server, as far as it is known whom it trusts. Without authorities of ours it trusts
    /// those of its own machine; of these no one signs for a Service.
    fn clients(
        &self,
        registration: Option<&(Api<MutatingWebhookConfiguration>, Registration)>,
    ) -> Vec<ObservedCaBundle> {
        let Some(((_, registration), bundle)) = registration.zip(self.trusted.as_ref()) else {
            return Vec::new();
        };
        if bundle.is_empty() && matches!(registration.address, Address::Url(_)) {
            return Vec::new();
        }
        let name = registration
            .address
            .names()
            .into_iter()
            .next()
            .unwrap_or_default();
        vec![ObservedCaBundle {
            object: CONFIGURATION.to_owned(),
            name,
            bundle: bundle.clone(),
        }]
    }

    async fn tell(&mut self, attendant: &Attendant) -> anyhow::Result<()> {
        let Attendant {
            certificates,
            registration,
            replica,
            patience,
            ..
        } = attendant;
        let Some((configurations, registration)) = registration else {
            return Ok(());
        };
        let bundle = certificates.bundle();
        let is_new = bundle != self.bundle;
        let is_due = self
            .checked
            .is_none_or(|checked| checked.elapsed() >= CHECK);
        // A replacement under way wants to know what is in place.
        if !is_new && !is_due && !certificates.are_managed() {
            return Ok(());
        }
        let is_change = is_new && self.bundle.is_some();
        if is_change {
            tracing::info!("New client CA found, reloading and patching webhook");
        }
        let takes_back = self.newer.is_unready_for(*patience, Instant::now());
        let registered = register(
            configurations,
            registration,
            bundle.as_deref(),
            replica.as_ref(),
            takes_back,
        )
        .await;
        let Registered {
            bundle: trusted,
            changed,
            is_newer,
            is_newer_ready,
        } = registered.context("cannot register the webhook")?;
        self.newer.observe(is_newer_ready, Instant::now());
        if is_newer {
            if !self.is_newer {
                tracing::info!(
                    "leaving the registration as a newer revision of the Deployment has made it"
                );
            }
        } else if is_change {
            tracing::info!("Successfully patched webhook with new client CA");
        } else if changed {
            tracing::info!("the webhook is registered");
        }
        self.is_newer = is_newer;
        self.trusted = Some(trusted);
        self.bundle = bundle;
        self.checked = Some(Instant::now());
        Ok(())
    }
}
