//! Flags of the feed to the other services.

use std::path::PathBuf;

use feed::AllowedClients;
use runtime::ListenAddress;

/// Flags of the feed to the other services. It is disabled without their folder.
#[derive(Debug, Clone, clap::Args)]
pub struct FeedArgs {
    /// Address of the gRPC feed, as host:port; without a host, all interfaces. Needs --feed-cert-dir.
    #[arg(long, default_value = ":8950", value_name = "ADDRESS")]
    pub feed_address: ListenAddress,
    /// Host at which the other services reach this replica, such as the pod's IP address. It is
    /// announced in the Lease. Needed if --feed-address has no host.
    #[arg(long, default_value = "", value_name = "HOST")]
    pub feed_advertised_host: String,
    /// Folder with tls.crt, tls.key and ca.crt (PEM): the certificate of the feed, and the CAs of its
    /// clients. Reloaded when they change; while they are missing, the feed does not start.
    #[arg(long, value_name = "FOLDER")]
    pub feed_cert_dir: Option<PathBuf>,
    /// Issue the certificates of the feed, for all programs, into the Secrets
    /// plimsoll-PROGRAM-feed-tls of the own namespace, and renew them. Secrets that others made are
    /// left alone.
    #[arg(long)]
    pub manage_feed_certificates: bool,
    /// DNS names, separated by commas, one of which a client certificate must contain.
    #[arg(
        long,
        default_value = "plimsoll-updater,plimsoll-webhook,plimsoll-adapter",
        value_name = "NAMES"
    )]
    pub feed_allowed_clients: AllowedClients,
}

#[cfg(test)]
mod tests {
    use crate::args::tests::parse;

    #[test]
    fn the_feed_needs_a_client_and_is_off_by_default() {
        assert!(parse("--feed-allowed-clients=,").is_err());
        let feed = parse("").expect("no flag is required").feed;
        assert_eq!(feed.feed_address.to_string(), ":8950");
        assert_eq!(feed.feed_cert_dir, None);
    }
}
