//! Flags of the HTTPS endpoint and of its certificates.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serving::certificates::{Files, ManagedConfig, RotationPolicy, Source};
use serving::tls::{CipherSuites, MinTlsVersion, ServingProfile, TlsFiles};

use crate::service_ref::OwnService;

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Port of the two APIs.
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// The Service at which the API server reaches the adapter, in the adapter's own namespace.
    #[arg(long, default_value = "plimsoll-adapter", value_name = "NAME")]
    pub service_name: String,
    /// Make and replace the certificates without anybody's help, in a Secret that all replicas
    /// share, and put the authorities into the `APIService` objects. The flags about certificate
    /// files have no meaning then.
    #[arg(long)]
    pub manage_certificates: bool,
    /// The Secret of --manage-certificates, in the adapter's own namespace.
    #[arg(
        long,
        default_value = "plimsoll-adapter-certificates",
        value_name = "NAME"
    )]
    pub certificate_secret_name: String,
    /// Certificate chain (PEM) of the two APIs. Reread when it changes.
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
    /// Authorities (PEM) that the API server is told to trust. Without, somebody else tells it,
    /// such as cert-manager.
    #[arg(long, value_name = "FILE")]
    pub serving_ca_file: Option<PathBuf>,
    /// Offer HTTP/2 as well. The API server has one such connection at a time, and so one replica
    /// that answers it.
    #[arg(long)]
    pub http2: bool,
    /// Cipher suites of TLS 1.2, named as Go names them and separated by commas or colons. Empty
    /// means all.
    #[arg(long, default_value = "", value_name = "SUITES")]
    pub tls_ciphers: CipherSuites,
    /// The oldest version of TLS that is spoken.
    #[arg(long, value_enum, default_value_t = MinTlsVersion::Tls12)]
    pub min_tls_version: MinTlsVersion,
}

impl ServingArgs {
    /// The Service at which the API server reaches the adapter.
    pub fn own_service(&self, own_namespace: &str) -> OwnService {
        OwnService {
            namespace: own_namespace.to_owned(),
            name: self.service_name.clone(),
        }
    }

    /// Where certificates come from.
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
                "--tls-ciphers: there are no suites {}",
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
