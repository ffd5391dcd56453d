//! What is measured about certificates.

use prometheus::{IntGaugeVec, Opts, Registry};

use super::source::Expiry;
use super::verification::Verification;

/// The certificate of the server itself, as a label has it.
const SERVER: &str = "server";
const AUTHORITY: &str = "authority";

/// When certificates end, and whether they are trusted. Clones share it.
#[derive(Debug, Clone)]
pub struct CertificateMetrics {
    ends: IntGaugeVec,
    trusted: IntGaugeVec,
}

impl CertificateMetrics {
    /// Adds them to a registry, under names that begin with `prefix`.
    pub fn register(registry: &Registry, prefix: &str) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| {
            let gauge = IntGaugeVec::new(
                Opts::new(format!("{prefix}_{name}"), help),
                &["certificate"],
            )?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        Ok(Self {
            ends: gauge(
                "certificate_end_timestamp_seconds",
                "When the certificates in use end, in seconds since 1970.",
            )?,
            trusted: gauge(
                "certificate_trusted",
                "Whether the authorities that the API server is told verify the certificate in use: 1 or 0, nothing where they are not known.",
            )?,
        })
    }

    pub(super) fn set(&self, Expiry { server, authority }: Expiry, verification: Verification) {
        for (certificate, end) in [(SERVER, server), (AUTHORITY, authority)] {
            if let Some(end) = end {
                self.ends.with_label_values(&[certificate]).set(end);
            }
        }
        match verification {
            Verification::Verified => self.trusted.with_label_values(&[SERVER]).set(1),
            Verification::Failed => self.trusted.with_label_values(&[SERVER]).set(0),
            // An error says that it was not shown before either.
            Verification::Unknown => drop(self.trusted.remove_label_values(&[SERVER])),
            Verification::Suspect => {}
        }
    }
}
