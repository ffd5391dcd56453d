//! Flags about certificates that several servers have.

use std::path::PathBuf;

use super::{Files, ManagedConfig, Source};
use crate::tls::{CipherSuites, MinTlsVersion, ServingProfile, TlsFiles};

/// Flags of the TLS protocol.
#[derive(Debug, Clone, clap::Args)]
pub struct TlsArgs {
    /// TLS 1.2 cipher suites by their Go names, separated by commas or colons. Empty means all.
    #[arg(long, default_value = "", value_name = "SUITES")]
    pub tls_ciphers: CipherSuites,
    /// Lowest TLS version.
    #[arg(long, value_enum, default_value_t = MinTlsVersion::Tls12)]
    pub min_tls_version: MinTlsVersion,
}

impl TlsArgs {
    /// The TLS options of a server; its other ones have their defaults.
    pub fn profile(self) -> ServingProfile {
        let unknown = self.tls_ciphers.unknown().join(", ");
        if !unknown.is_empty() {
            tracing::warn!("--tls-ciphers: ignoring unknown suites {unknown}");
        }
        ServingProfile {
            min_version: self.min_tls_version,
            cipher_suites: self.tls_ciphers,
            ..ServingProfile::default()
        }
    }
}

/// Flags of the certificate of `--secure-port`.
#[derive(Debug, Clone, clap::Args)]
pub struct CertificateArgs {
    /// Create and rotate certificates in the Secret of --certificate-secret-name, which all replicas
    /// share. The flags of certificate files are then ignored.
    #[arg(long)]
    pub manage_certificates: bool,
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
}

impl CertificateArgs {
    /// The source of certificates: `managed`, or the files. `authorities` is the file of the CA
    /// bundle that goes with the files.
    pub fn source(self, managed: ManagedConfig, authorities: Option<PathBuf>) -> Source {
        if self.manage_certificates {
            return Source::Managed(Box::new(managed));
        }
        let files = TlsFiles {
            certificate: self.serving_cert_file,
            private_key: self.serving_private_key_file,
            authorities: None,
        };
        Source::Files(Files {
            files,
            authorities,
            follow: true,
            serving: managed.serving,
        })
    }
}
