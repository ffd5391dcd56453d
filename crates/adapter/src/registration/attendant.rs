//! Looks after the certificates, and tells the API server whom to trust: the two belong together,
//! since no certificate may change before those who check it know its authority.

use std::time::{Duration, Instant};

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use runtime::{Activity, ApiServerClock};
use serving::certificates::{CertificateMonitor, Certificates, Verification};

use super::told::{Report, Told};
use crate::act::Events;
use crate::metrics::Metrics;
use crate::service_ref::OwnService;

/// Whom the API server is told to trust, and where.
pub struct Attendant {
    /// What is served.
    pub certificates: Certificates,
    /// Where the API server is told.
    pub services: Api<APIService>,
    /// What it reaches.
    pub own: OwnService,
    /// Shows that this goes on.
    pub activity: Activity,
    /// What is measured.
    pub metrics: Metrics,
    /// Where people are told.
    pub events: Events,
    /// Sees to it that the certificates and what is trusted fit together.
    pub monitor: CertificateMonitor,
    /// The API server's time.
    pub clock: ApiServerClock,
}

/// How often the objects are looked at where somebody else looks after the authorities in them.
const LOOK: Duration = Duration::from_secs(10);

impl Attendant {
    /// Looks after certificates and objects for ever.
    pub async fn run(mut self) {
        let (mut said, mut state, mut looked_at) = (None, Told::default(), None::<Instant>);
        let report = Report {
            metrics: self.metrics.clone(),
            events: self.events.clone(),
        };
        loop {
            self.activity.record(Instant::now());
            let looked = self
                .certificates
                .refresh(state.trusted.as_deref(), self.clock.now())
                .await;
            let bundle = self.certificates.bundle();
            let told = if bundle.is_none() && looked_at.is_some_and(|at| at.elapsed() < LOOK) {
                Ok(())
            } else {
                looked_at = Some(Instant::now());
                state
                    .tell(&self.services, &self.own, bundle.as_deref(), &report)
                    .await
            };
            let clients = state.clients(&self.own);
            let verification = self
                .monitor
                .check(&self.certificates, &clients, self.clock.now())
                .await;
            if matches!(verification, Verification::Suspect | Verification::Failed) {
                looked_at = None;
            }
            let trouble = looked.and(told).err().map(|error| format!("{error:#}"));
            if let Some(error) = trouble.as_ref().filter(|_| trouble != said) {
                tracing::warn!(
                    error,
                    "certificates and APIServices stay as they are; trying on"
                );
            }
            said = trouble;
            tokio::time::sleep(self.certificates.period()).await;
        }
    }
}
