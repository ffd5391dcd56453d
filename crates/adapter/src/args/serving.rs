//! Flags of the HTTPS endpoint and of its certificates.

use std::path::PathBuf;

use serving::certificates::{CertificateArgs, ManagedConfig, Source, TlsArgs};
use serving::own_service::OwnService;
use serving::tls::ServingProfile;

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Port of the two APIs.
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// Service of the adapter, in the adapter's own namespace.
    #[arg(long, default_value = "plimsoll-adapter", value_name = "NAME")]
    pub service_name: String,
    /// Flags of the certificate.
    #[command(flatten)]
    pub certificate: CertificateArgs,
    /// Secret of --manage-certificates, in the adapter's own namespace. Its CA bundle is written to
    /// the `APIService` objects.
    #[arg(
        long,
        default_value = "plimsoll-adapter-certificates",
        value_name = "NAME"
    )]
    pub certificate_secret_name: String,
    /// CA bundle (PEM) to write to the `APIService` objects. Default: none; another tool, such as
    /// cert-manager, writes it.
    #[arg(long, value_name = "FILE")]
    pub serving_ca_file: Option<PathBuf>,
    /// Offer HTTP/2. The API server opens one HTTP/2 connection at a time, so a single replica then
    /// serves all requests.
    #[arg(long)]
    pub http2: bool,
    /// Flags of the TLS protocol.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ServingArgs {
    /// Returns the adapter's Service.
    pub fn own_service(&self, own_namespace: &str) -> OwnService {
        OwnService::new(own_namespace, &*self.service_name)
    }

    /// Returns the source of certificates.
    pub fn source(self, client: kube::Client, own: &OwnService) -> Source {
        let serving = ServingProfile {
            request_client_certificates: true,
            http1_only: !self.http2,
            ..self.tls.profile()
        };
        let managed = ManagedConfig::new(
            client,
            &own.namespace,
            self.certificate_secret_name,
            "adapter",
            own.names(),
            serving,
        );
        self.certificate.source(managed, self.serving_ca_file)
    }
}
