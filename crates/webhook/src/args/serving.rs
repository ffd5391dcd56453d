//! Flags of the HTTPS endpoint and of its certificates.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use serving::certificates::{Files, ManagedConfig, Source, TlsArgs};
use serving::tls::{ServingProfile, TlsFiles};

use crate::registration::Registration;

/// Secret of managed certificates, upstream's.
const SECRET: &str = "vpa-tls-certs";

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Port of the webhook.
    #[arg(long, default_value_t = 8000, value_name = "PORT")]
    pub port: u16,
    /// Issue and rotate the certificates, in the Secret vpa-tls-certs that all replicas share, and
    /// write their CA bundle to the registration. The flags of certificate files are ignored then.
    #[arg(long)]
    pub manage_certificates: bool,
    /// Certificate chain (PEM) of the webhook.
    #[arg(
        long,
        default_value = "/etc/tls-certs/serverCert.pem",
        value_name = "FILE"
    )]
    pub tls_cert_file: PathBuf,
    /// Private key (PEM) of --tls-cert-file.
    #[arg(
        long,
        default_value = "/etc/tls-certs/serverKey.pem",
        value_name = "FILE"
    )]
    pub tls_private_key: PathBuf,
    /// CA bundle (PEM) of the registration. Empty if another program writes it, such as
    /// cert-manager.
    // By default clap refuses empty paths.
    #[arg(
        long, default_value = "/etc/tls-certs/caCert.pem", value_name = "FILE",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub client_ca_file: PathBuf,
    /// Reload the certificate files when they change.
    #[arg(long)]
    pub reload_cert: bool,
    /// Flags of the TLS protocol.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ServingArgs {
    /// The source of the certificates, for the names of `registration`. Clients need a certificate of
    /// `client_authorities`.
    pub fn source(
        self,
        client_authorities: Option<PathBuf>,
        client: kube::Client,
        own_namespace: &str,
        registration: Option<&Registration>,
    ) -> anyhow::Result<Source> {
        let serving = ServingProfile {
            client_authorities,
            ..self.tls.profile()
        };
        if !self.manage_certificates {
            let files = TlsFiles {
                certificate: self.tls_cert_file,
                private_key: self.tls_private_key,
                authorities: None,
            };
            // Without a registration no CA bundle is written, and the file may be missing.
            let authorities = Some(self.client_ca_file)
                .filter(|path| registration.is_some() && !path.as_os_str().is_empty());
            return Ok(Source::Files(Files {
                files,
                authorities,
                follow: self.reload_cert,
                serving,
            }));
        }
        let registration = registration.context(
            "--manage-certificates needs --register-webhook, which writes their CA bundle",
        )?;
        let managed = ManagedConfig::new(
            client,
            own_namespace,
            SECRET.to_owned(),
            "webhook",
            registration.address.names(),
            serving,
        );
        Ok(Source::Managed(Box::new(managed)))
    }
}
