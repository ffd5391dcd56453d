//! Flags of the HTTPS endpoint and of its certificates.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serving::certificates::{Files, ManagedConfig, RotationPolicy, Source};
use serving::tls::{CipherSuites, MinTlsVersion, ServingProfile, TlsFiles};

use serving::own_service::OwnService;

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Port of the two APIs.
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// Service of the adapter, in the adapter's own namespace.
    #[arg(long, default_value = "plimsoll-adapter", value_name = "NAME")]
    pub service_name: String,
    /// Create and rotate certificates in a Secret that all replicas share, and write the CA bundle
    /// to the `APIService` objects. The flags of certificate files are then ignored.
    #[arg(long)]
    pub manage_certificates: bool,
    /// Secret of --manage-certificates, in the adapter's own namespace.
    #[arg(
        long,
        default_value = "plimsoll-adapter-certificates",
        value_name = "NAME"
    )]
    pub certificate_secret_name: String,
    /// Certificate chain (PEM) of the two APIs. Reloaded when it changes.
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
    /// CA bundle (PEM) to write to the `APIService` objects. Default: none; another tool, such as
    /// cert-manager, writes it.
    #[arg(long, value_name = "FILE")]
    pub serving_ca_file: Option<PathBuf>,
    /// Offer HTTP/2. The API server opens one HTTP/2 connection at a time, so a single replica then
    /// serves all requests.
    #[arg(long)]
    pub http2: bool,
    /// TLS 1.2 cipher suites by their Go names, separated by commas or colons. Empty means all.
    #[arg(long, default_value = "", value_name = "SUITES")]
    pub tls_ciphers: CipherSuites,
    /// Lowest TLS version.
    #[arg(long, value_enum, default_value_t = MinTlsVersion::Tls12)]
    pub min_tls_version: MinTlsVersion,
}

impl ServingArgs {
    /// Returns the adapter's Service.
    pub fn own_service(&self, own_namespace: &str) -> OwnService {
        OwnService::new(own_namespace, &*self.service_name)
    }

    /// Returns the source of certificates.
    pub fn source(self, client: kube::Client, own: &OwnService) -> Source {
        let Self {
            secure_port: _,
            service_name: _,
            manage_certificates,
            certificate_secret_name,
            serving_cert_file,
            serving_private_key_file,
            serving_ca_file,
            http2,
            tls_ciphers,
            min_tls_version,
        } = self;
        if !tls_ciphers.unknown().is_empty() {
            tracing::warn!(
                "--tls-ciphers: unknown cipher suites {}",
                tls_ciphers.unknown().join(", ")
            );
        }
        let serving = ServingProfile {
            min_version: min_tls_version,
            cipher_suites: tls_ciphers,
            request_client_certificates: true,
            http1_only: !http2,
            ..ServingProfile::default()
        };
        if !manage_certificates {
            let files = TlsFiles {
                certificate: serving_cert_file,
                private_key: serving_private_key_file,
                authorities: None,
            };
            return Source::Files(Files {
                files,
                authorities: serving_ca_file,
                follow: true,
                serving,
            });
        }
        Source::Managed(Box::new(ManagedConfig {
            secrets: Api::<Secret>::namespaced(client, &own.namespace),
            secret: certificate_secret_name,
            authority: "plimsoll adapter".to_owned(),
            names: own.names(),
            profile: RotationPolicy::default(),
            serving,
        }))
    }
}
