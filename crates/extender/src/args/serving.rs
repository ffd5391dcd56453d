//! Flags of the HTTPS endpoint for kube-scheduler.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serving::certificates::{Files, ManagedConfig, RotationPolicy, Source};
use serving::own_service::OwnService;
use serving::tls::{CipherSuites, MinTlsVersion, ServingProfile, TlsFiles};

/// Validity of a CA. Long, since each new one has to be copied to kube-scheduler by hand.
const AUTHORITY_VALIDITY: Duration = Duration::from_hours(10 * 365 * 24);

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Port of the extender protocol of kube-scheduler. 0: no port, for a load watcher only.
    #[arg(long, default_value_t = 8443, value_name = "PORT")]
    pub secure_port: u16,
    /// Service of the extender, in the extender's own namespace.
    #[arg(long, default_value = "plimsoll-extender", value_name = "NAME")]
    pub service_name: String,
    /// Create and rotate certificates in a Secret that all replicas share. The flags of certificate
    /// files are then ignored. kube-scheduler needs the Secret's caCert.pem.
    #[arg(long)]
    pub manage_certificates: bool,
    /// Secret of --manage-certificates, in the extender's own namespace.
    #[arg(
        long,
        default_value = "plimsoll-extender-certificates",
        value_name = "NAME"
    )]
    pub certificate_secret_name: String,
    /// Certificate chain (PEM) of --secure-port. Reloaded when it changes.
    #[arg(
        long = "tls-cert-file",
        default_value = "/etc/tls-certs/tls.crt",
        value_name = "FILE"
    )]
    pub serving_cert_file: PathBuf,
    /// Private key (PEM) of --tls-cert-file.
    #[arg(
        long = "tls-private-key-file",
        default_value = "/etc/tls-certs/tls.key",
        value_name = "FILE"
    )]
    pub serving_private_key_file: PathBuf,
    /// CAs (PEM) of kube-scheduler's client certificate. With this flag, connections without a
    /// certificate of one of them are refused.
    #[arg(long, value_name = "FILE")]
    pub scheduler_client_ca_file: Option<PathBuf>,
    /// TLS 1.2 cipher suites by their Go names, separated by commas or colons. Empty means all.
    #[arg(long, default_value = "", value_name = "SUITES")]
    pub tls_ciphers: CipherSuites,
    /// Lowest TLS version.
    #[arg(long, value_enum, default_value_t = MinTlsVersion::Tls12)]
    pub min_tls_version: MinTlsVersion,
}

impl ServingArgs {
    /// The source of certificates for `own`, the extender's Service.
    pub fn source(self, client: kube::Client, own: &OwnService) -> Source {
        let unknown = self.tls_ciphers.unknown().join(", ");
        if !unknown.is_empty() {
            tracing::warn!("--tls-ciphers: ignoring unknown suites {unknown}");
        }
        let serving = ServingProfile {
            min_version: self.min_tls_version,
            cipher_suites: self.tls_ciphers,
            client_authorities: self.scheduler_client_ca_file,
            ..ServingProfile::default()
        };
        if !self.manage_certificates {
            let files = TlsFiles {
                certificate: self.serving_cert_file,
                private_key: self.serving_private_key_file,
                authorities: None,
            };
            return Source::Files(Files {
                files,
                authorities: None,
                follow: true,
                serving,
            });
        }
        Source::Managed(Box::new(ManagedConfig {
            secrets: Api::<Secret>::namespaced(client, &own.namespace),
            secret: self.certificate_secret_name,
            authority: "plimsoll extender".to_owned(),
            names: own.names(),
            profile: RotationPolicy {
                authority_validity: AUTHORITY_VALIDITY,
                authority_age: AUTHORITY_VALIDITY / 2,
                ..RotationPolicy::default()
            },
            serving,
        }))
    }
}
