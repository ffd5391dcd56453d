//! Flags about certificates that several servers have.

use std::path::PathBuf;

use super::{Files, ManagedConfig, Source};
use crate::own_service::OwnService;
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

/// Flags of the HTTPS endpoint of `--secure-port`.
#[derive(Debug, Clone, clap::Args)]
pub struct SecurePortArgs {
    /// Port of the HTTPS endpoint. The extender has none with 0.
    #[arg(long, value_name = "PORT")]
    pub secure_port: u16,
    /// Service of the program, in its own namespace.
    #[arg(long, value_name = "NAME")]
    pub service_name: String,
    /// Create and rotate certificates in the Secret SERVICE-certificates of the own namespace, which
    /// all replicas share. The flags of certificate files are then ignored.
    #[arg(long)]
    pub manage_certificates: bool,
    /// Certificate chain (PEM) of --secure-port. Reloaded when it changes.
    #[arg(long, default_value = "/etc/tls-certs/tls.crt", value_name = "FILE")]
    pub tls_cert_file: PathBuf,
    /// Private key (PEM) of --tls-cert-file.
    #[arg(long, default_value = "/etc/tls-certs/tls.key", value_name = "FILE")]
    pub tls_private_key_file: PathBuf,
}

impl SecurePortArgs {
    /// The settings of certificates that the program `owner` manages for its Service.
    pub fn managed(
        &self,
        client: kube::Client,
        own: &OwnService,
        owner: &str,
        serving: ServingProfile,
    ) -> ManagedConfig {
        let secret = format!("{}-certificates", self.service_name);
        ManagedConfig::new(client, &own.namespace, secret, owner, own.names(), serving)
    }

    /// The source of certificates: `managed`, or the files. `authorities` is the file of the CA
    /// bundle that goes with the files.
    pub fn source(self, managed: ManagedConfig, authorities: Option<PathBuf>) -> Source {
        if self.manage_certificates {
            return Source::Managed(Box::new(managed));
        }
        let files = TlsFiles {
            certificate: self.tls_cert_file,
            private_key: self.tls_private_key_file,
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
