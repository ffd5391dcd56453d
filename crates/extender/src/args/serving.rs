//! Flags of the HTTPS endpoint for kube-scheduler.

use std::path::PathBuf;
use std::time::Duration;

use serving::certificates::{CertificateArgs, ManagedConfig, Source, TlsArgs};
use serving::own_service::OwnService;
use serving::tls::ServingProfile;

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
    /// Flags of the certificate.
    #[command(flatten)]
    pub certificate: CertificateArgs,
    /// Secret of --manage-certificates, in the extender's own namespace. kube-scheduler needs its
    /// caCert.pem.
    #[arg(
        long,
        default_value = "plimsoll-extender-certificates",
        value_name = "NAME"
    )]
    pub certificate_secret_name: String,
    /// CAs (PEM) of kube-scheduler's client certificate. With this flag, connections without a
    /// certificate of one of them are refused.
    #[arg(long, value_name = "FILE")]
    pub scheduler_client_ca_file: Option<PathBuf>,
    /// Flags of the TLS protocol.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ServingArgs {
    /// The source of certificates for `own`, the extender's Service.
    pub fn source(self, client: kube::Client, own: &OwnService) -> Source {
        let serving = ServingProfile {
            client_authorities: self.scheduler_client_ca_file,
            ..self.tls.profile()
        };
        let mut managed = ManagedConfig::new(
            client,
            &own.namespace,
            self.certificate_secret_name,
            "extender",
            own.names(),
            serving,
        );
        managed.profile.authority_validity = AUTHORITY_VALIDITY;
        managed.profile.authority_age = AUTHORITY_VALIDITY / 2;
        self.certificate.source(managed, None)
    }
}
