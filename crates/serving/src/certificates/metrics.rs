//! Metrics of the served certificate.

use prometheus::IntGaugeVec;

use super::verification::Verification;

/// The label value of the server certificate.
const SERVER: &str = "server";
const AUTHORITY: &str = "authority";

runtime::metrics! {
    /// Metrics of the expiry and the verification of certificates. Clones share them.
    pub struct CertificateMetrics(prefix: &str) {
        ends: IntGaugeVec { certificate } = format!("{prefix}_certificate_end_timestamp_seconds"),
            "Expiry of the certificates in use, in seconds since 1970.";
        trusted: IntGaugeVec { certificate } = format!("{prefix}_certificate_trusted"),
            "1 if the CA bundle of the clients verifies the serving certificate, 0 if not. Absent while the bundle is not known.";
    }
}

impl CertificateMetrics {
    pub(super) fn set(&self, expiry: [Option<i64>; 2], verification: Verification) {
        for (certificate, end) in [SERVER, AUTHORITY].into_iter().zip(expiry) {
            if let Some(end) = end {
                self.ends.with_label_values(&[certificate]).set(end);
            }
        }
        match verification {
            Verification::Verified => self.trusted.with_label_values(&[SERVER]).set(1),
            Verification::Failed => self.trusted.with_label_values(&[SERVER]).set(0),
            // An error means that the series does not exist.
            Verification::Unknown => drop(self.trusted.remove_label_values(&[SERVER])),
            Verification::Suspect => {}
        }
    }
}
