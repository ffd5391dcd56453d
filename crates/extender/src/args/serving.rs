//! Flags of the HTTPS endpoint for kube-scheduler.

use std::path::PathBuf;
use std::time::Duration;

use serving::certificates::{SecurePortArgs, Source};
use serving::own_service::OwnService;
use serving::tls::ServingProfile;

/// Validity of a CA. Long, since each new one has to be copied to kube-scheduler by hand.
const AUTHORITY_VALIDITY: Duration = Duration::from_hours(10 * 365 * 24);

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Flags of the port and its certificate. kube-scheduler needs caCert.pem of its Secret.
    #[command(flatten)]
    pub secure: SecurePortArgs,
    /// CAs (PEM) of kube-scheduler's client certificate. With this flag, connections without a
    /// certificate of one of them are refused.
    #[arg(long, value_name = "FILE")]
    pub scheduler_client_ca_file: Option<PathBuf>,
}

impl ServingArgs {
    /// The source of certificates for `own`, the extender's Service.
    pub fn source(self, client: kube::Client, own: &OwnService) -> Source {
        let serving = ServingProfile {
            client_authorities: self.scheduler_client_ca_file,
            ..ServingProfile::default()
        };
        let mut managed = self.secure.managed(client, own, "extender", serving);
        managed.profile.authority_validity = AUTHORITY_VALIDITY;
        managed.profile.authority_age = AUTHORITY_VALIDITY / 2;
        self.secure.source(managed, None)
    }
}
