//! Verifies the served certificate as clients do. Reports problems in the log, the readiness report
//! and a metric. Records an event when a certificate from files is about to expire.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::EventType;
use prometheus::IntGaugeVec;
use runtime::health::Condition;
use runtime::manager::Manager;
use runtime::object_writer::{ObjectWriter, reference};
use runtime::own_pod::{hostname, own_namespace};

use super::issue::Certificate;
use super::rotation::expires_soon;
use super::seconds;
use super::source::Certificates;
use super::verification::{Verification, verification_error};

const DAY: Duration = Duration::from_hours(24);
/// Retry interval after an event could not be written.
const RETRY: Duration = Duration::from_hours(1);

/// Event of the own pod: the serving certificate comes from files and ends soon; see
/// docs/certificates.md#verification.
const CERTIFICATE_EXPIRING: &str = "CertificateExpiring";

/// The CA bundle of an object that tells clients how to reach the server, such as an `APIService`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedCaBundle {
    pub object: String,
    /// The server name that clients verify.
    pub name: String,
    /// The bundle as last read, in PEM.
    pub bundle: String,
}

pub struct CertificateMonitor {
    condition: Condition,
    metrics: CertificateMetrics,
    writer: ObjectWriter,
    regarding: ObjectReference,
    /// The result of the last check and its error.
    last: (Verification, String),
    /// The time of the last expiry event, and the pause after it.
    last_event: Option<(SystemTime, Duration)>,
}

impl CertificateMonitor {
    /// Returns the monitor of a program. Events are about its pod, and names of metrics begin with
    /// `prefix`.
    pub fn of(manager: &Manager, prefix: &str) -> anyhow::Result<Self> {
        let condition = manager.readiness.condition("certificate");
        let metrics = CertificateMetrics::register(&manager.registry, prefix)?;
        let pod = (own_namespace(), hostname()?);
        let writer = manager.object_writer();
        Ok(Self::new(condition, metrics, writer, (&pod.0, &pod.1)))
    }

    /// Reports findings in `condition` but never fails readiness: taking an untrusted server out of
    /// rotation helps no client. Events are about the pod with this namespace and name.
    pub fn new(
        condition: Condition,
        metrics: CertificateMetrics,
        writer: ObjectWriter,
        (namespace, pod): (&str, &str),
    ) -> Self {
        condition.ready();
        let regarding = reference::<Pod>(namespace, pod, "");
        Self {
            condition,
            metrics,
            writer,
            regarding,
            last: (Verification::Unknown, String::new()),
            last_event: None,
        }
    }

    /// Verifies the certificate in use at `now` (the API server's time) against `bundles`, and
    /// reports a changed result.
    pub async fn check(
        &mut self,
        certificates: &Certificates,
        bundles: &[ObservedCaBundle],
        now: SystemTime,
    ) -> Verification {
        let chain = certificates.chain();
        if let Some(leaf) = chain.first().filter(|_| !certificates.are_managed()) {
            self.warn_of_expiry(leaf, now).await;
        }
        let refused = bundles.iter().find_map(|observed| {
            let why = verification_error(&chain, &observed.bundle, &observed.name, now)?;
            Some(format!("CA bundle of {}: {why}", observed.object))
        });
        let verification = match (&refused, self.last.0) {
            (None, _) if bundles.is_empty() => Verification::Unknown,
            (None, _) => Verification::Verified,
            (Some(_), Verification::Suspect | Verification::Failed) => Verification::Failed,
            (Some(_), Verification::Unknown | Verification::Verified) => Verification::Suspect,
        };
        self.report(verification, refused.unwrap_or_default());
        self.metrics.set(certificates.expiry(), verification);
        verification
    }

    fn report(&mut self, verification: Verification, why: String) {
        match (verification, self.last.0) {
            (Verification::Failed, before)
                if before != Verification::Failed || self.last.1 != why =>
            {
                tracing::warn!(why, "clients do not trust the serving certificate");
                self.condition.ready_but(format!("not trusted: {why}"));
            }
            (Verification::Verified | Verification::Unknown, Verification::Failed) => {
                tracing::info!(
                    "the serving certificate is trusted again, or its CA bundle is unknown"
                );
                self.condition.ready();
            }
            _ => {}
        }
        self.last = (verification, why);
    }

    /// Warns of the expiry of a certificate from files, at most once a day.
    async fn warn_of_expiry(&mut self, leaf: &Certificate, now: SystemTime) {
        // A clock that was set back ends the pause.
        let is_pause = |(at, pause)| now.duration_since(at).is_ok_and(|since| since < pause);
        if !expires_soon(leaf, seconds(now)) || self.last_event.is_some_and(is_pause) {
            return;
        }
        let end = Timestamp::from_second(leaf.not_after).unwrap_or(Timestamp::MAX);
        let note = format!(
            "The serving certificate expires at {end}. It comes from files and is not rotated by this program; replace it."
        );
        tracing::warn!(%end, "the serving certificate expires soon and is not rotated by this program");
        let (about, kind) = (&self.regarding, EventType::Warning);
        let told = self
            .writer
            .record_event(about, kind, CERTIFICATE_EXPIRING, "Serve", &note);
        self.last_event = Some((now, if told.await { DAY } else { RETRY }));
    }
}

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
    fn set(&self, expiry: [Option<i64>; 2], verification: Verification) {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use prometheus::Registry;
    use runtime::api_server_clock::ApiServerClock;
    use runtime::health::Readiness;

    use super::super::tests::{NAME, authority, leaf_of};
    use super::super::{Files, Source, issue};
    use super::*;
    use crate::tls::{ServingProfile, TlsFiles};

    struct Fixture {
        readiness: Readiness,
        registry: Registry,
        monitor: CertificateMonitor,
        /// The number of events written.
        events: Arc<AtomicUsize>,
    }

    impl Fixture {
        fn new() -> Self {
            let (readiness, registry) = (Readiness::default(), Registry::new());
            let events = Arc::new(AtomicUsize::new(0));
            let written = Arc::clone(&events);
            let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
                written.fetch_add(1, Ordering::Relaxed);
                let event = axum::body::Body::from(r#"{"metadata":{},"eventTime":null}"#);
                async { Ok::<_, Infallible>(http::Response::new(event)) }
            });
            let writer = ObjectWriter::new(kube::Client::new(service, "shop"), "webhook");
            let metrics = CertificateMetrics::register(&registry, "test").unwrap();
            let (condition, pod) = (readiness.condition("certificate"), ("shop", "webhook-0"));
            let monitor = CertificateMonitor::new(condition, metrics, writer, pod);
            Self {
                readiness,
                registry,
                monitor,
                events,
            }
        }

        /// Values by the ends of their names.
        fn gauge(&self, name: &str) -> Option<f64> {
            let families = self.registry.gather();
            let mut families = families.iter();
            let family = families.find(|family| family.name().ends_with(name))?;
            Some(family.get_metric().first()?.get_gauge().get_value())
        }
    }

    async fn files(folder: &Path, authority: &issue::Pair, now: SystemTime) -> Certificates {
        let leaf = leaf_of(authority, now, 20);
        let path = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        };
        let files = TlsFiles {
            certificate: path("cert", &leaf.certificate.pem),
            private_key: path("key", &leaf.key),
            authorities: None,
        };
        let files = Files {
            files,
            authorities: None,
            follow: true,
            serving: ServingProfile::default(),
        };
        let certificates = Source::Files(files).get(&ApiServerClock::default()).await;
        certificates.unwrap()
    }

    #[tokio::test]
    async fn an_untrusted_certificate_is_reported_at_the_second_check() {
        let (folder, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let (own, other) = (authority(now, 100), authority(now, 100));
        let certificates = files(folder.path(), &own, now).await;
        let (own, other) = (own.certificate.pem, other.certificate.pem);
        let mut fixture = Fixture::new();
        let (ok, why) = ("[+]certificate ok", "no trusted CA signed the certificate");
        let untrusted = format!("{ok}: not trusted: CA bundle of it: {why}");
        for (bundle, verification, gauge, report) in [
            (None, Verification::Unknown, None, ok),
            (Some(&own), Verification::Verified, Some(1.0), ok),
            (Some(&other), Verification::Suspect, Some(1.0), ok),
            (Some(&other), Verification::Failed, Some(0.0), &untrusted),
            (Some(&own), Verification::Verified, Some(1.0), ok),
            (None, Verification::Unknown, None, ok),
        ] {
            let bundle = bundle.map(|bundle| ObservedCaBundle {
                object: "it".to_owned(),
                name: NAME.to_owned(),
                bundle: bundle.clone(),
            });
            let bundles = Vec::from_iter(bundle);
            let found = fixture.monitor.check(&certificates, &bundles, now).await;
            assert_eq!((found, fixture.gauge("_trusted")), (verification, gauge));
            assert_eq!(fixture.readiness.report(), format!("{report}\n"));
        }
        assert_eq!(fixture.events.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn an_expiring_certificate_is_reported_once_a_day() {
        let (folder, begin) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let certificates = files(folder.path(), &authority(begin, 100), begin).await;
        let mut fixture = Fixture::new();
        for (hours, expected) in [
            (0, 0),
            (15 * 24, 0),
            (17 * 24, 1),
            (17 * 24 + 1, 1),
            (18 * 24 - 1, 1),
            (18 * 24, 2),
            (30 * 24, 3),
        ] {
            let now = begin + Duration::from_hours(hours);
            fixture.monitor.check(&certificates, &[], now).await;
            let events = fixture.events.load(Ordering::Relaxed);
            assert_eq!(events, expected, "after {hours} hours");
        }
        let end = seconds(begin + DAY * 20) as f64;
        assert_eq!(fixture.gauge("_end_timestamp_seconds"), Some(end));
    }
}
