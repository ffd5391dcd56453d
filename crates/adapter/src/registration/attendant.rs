//! Looks after the certificates, and tells the API server whom to trust: the two belong together, since no certificate may
//! change before those who check it know its authority.

use std::time::Instant;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use runtime::Activity;
use runtime::certificates::Certificates;

use super::OwnService;
use super::told::Told;
use crate::metrics::Metrics;

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
}

impl Attendant {
    /// Looks after certificates and objects for ever.
    pub async fn run(mut self) {
        let (mut said, mut told) = (None, Told::default());
        loop {
            self.activity.record(Instant::now());
            let looked = self.certificates.look(told.trusted.as_deref()).await;
            if let Some(ends) = self.certificates.ends() {
                self.metrics.certificates_end(ends);
            }
            let told = match self.certificates.bundle() {
                // Somebody else tells it.
                None => Ok(()),
                Some(bundle) => told.tell(&self.services, &self.own, &bundle).await,
            };
            let trouble = looked.and(told).err().map(|error| format!("{error:#}"));
            if let Some(error) = trouble.as_ref().filter(|_| trouble != said) {
                tracing::warn!(error, "certificates and APIServices stay as they are; trying on");
            }
            said = trouble;
            tokio::time::sleep(self.certificates.period()).await;
        }
    }
}
