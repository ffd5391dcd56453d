//! Flags of the HTTPS endpoint and of its certificates.

use std::path::PathBuf;

use serving::certificates::{SecurePortArgs, Source};
use serving::own_service::OwnService;
use serving::tls::ServingProfile;

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Flags of the port and its certificate.
    #[command(flatten)]
    pub secure: SecurePortArgs,
    /// CA bundle (PEM) to write to the `APIService` objects. Default: that of the managed
    /// certificates; without these another tool, such as cert-manager, writes it.
    #[arg(long, value_name = "FILE")]
    pub serving_ca_file: Option<PathBuf>,
}

impl ServingArgs {
    /// Returns the adapter's Service.
    pub fn own_service(&self, own_namespace: &str) -> OwnService {
        OwnService::new(own_namespace, &*self.secure.service_name)
    }

    /// Returns the source of certificates.
    pub fn source(self, client: kube::Client, own: &OwnService) -> Source {
        let serving = ServingProfile {
            request_client_certificates: true,
            // The API server opens one HTTP/2 connection at a time: a single replica would serve
            // all requests.
            http1_only: true,
            ..ServingProfile::default()
        };
        let managed = self.secure.managed(client, own, "adapter", serving);
        self.secure.source(managed, self.serving_ca_file)
    }
}
