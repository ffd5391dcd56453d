//! Flags of the HTTPS endpoint for kube-scheduler.

use std::path::PathBuf;

use serving::tls::{CipherSuites, MinTlsVersion, ServingProfile, ServingTls, TlsError, TlsFiles};

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Port of the extender protocol of kube-scheduler. 0: no port, for a load watcher only.
    #[arg(long, default_value_t = 8443, value_name = "PORT")]
    pub secure_port: u16,
    /// Certificate chain (PEM) of --secure-port. Reloaded when it changes.
    #[arg(
        long = "tls-cert-file",
        default_value = "/etc/plimsoll/tls/tls.crt",
        value_name = "FILE"
    )]
    pub serving_cert_file: PathBuf,
    /// Private key (PEM) of --tls-cert-file.
    #[arg(
        long = "tls-private-key-file",
        default_value = "/etc/plimsoll/tls/tls.key",
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
    /// Loads the certificate files.
    pub async fn tls(self) -> Result<ServingTls, TlsError> {
        let unknown = self.tls_ciphers.unknown().join(", ");
        if !unknown.is_empty() {
            tracing::warn!("--tls-ciphers: ignoring unknown suites {unknown}");
        }
        let files = TlsFiles {
            certificate: self.serving_cert_file,
            private_key: self.serving_private_key_file,
            authorities: None,
        };
        let profile = ServingProfile {
            min_version: self.min_tls_version,
            cipher_suites: self.tls_ciphers,
            client_authorities: self.scheduler_client_ca_file,
            ..ServingProfile::default()
        };
        ServingTls::load_with(files, profile).await
    }
}
