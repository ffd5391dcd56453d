//! Flags of the feed to the other services.

use std::path::PathBuf;

use feed::AllowedClients;
use runtime::ListenAddress;

/// Flags of the feed to the other services. It is disabled unless the three files are given.
#[derive(Debug, Clone, clap::Args)]
pub struct FeedArgs {
    /// Address of the gRPC feed, as host:port; without a host, all interfaces. Needs
    /// --feed-tls-cert-file.
    #[arg(long, default_value = ":8950", value_name = "ADDRESS")]
    pub feed_address: ListenAddress,
    /// Host at which the other services reach this replica, such as the pod's IP address. It is
    /// announced in the Lease. Needed if --feed-address has no host.
    #[arg(long, default_value = "", value_name = "HOST")]
    pub feed_advertised_host: String,
    /// Certificate chain (PEM) of the feed. Reloaded when it changes; while it is missing, the feed
    /// does not start.
    #[arg(long, value_name = "FILE", requires_all = ["feed_tls_private_key_file", "feed_client_ca_file"])]
    pub feed_tls_cert_file: Option<PathBuf>,
    /// Private key (PEM) of --feed-tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "feed_tls_cert_file")]
    pub feed_tls_private_key_file: Option<PathBuf>,
    /// CA certificates (PEM) for the client certificates of the feed.
    #[arg(long, value_name = "FILE", requires = "feed_tls_cert_file")]
    pub feed_client_ca_file: Option<PathBuf>,
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
    /// Those of them that may report what the updater did, separated by commas.
    #[arg(long, default_value = "plimsoll-updater", value_name = "NAMES")]
    pub feed_reporting_clients: AllowedClients,
}

#[cfg(test)]
mod tests {
    use crate::args::tests::parse;

    #[test]
    fn the_feed_needs_all_of_its_files_and_a_client() {
        let certificate = "--feed-tls-cert-file=a";
        let key = "--feed-tls-private-key-file=b";
        let authority = "--feed-client-ca-file=c";
        assert!(parse(&[certificate, key, authority].join(" ")).is_ok());
        for some in [
            &[certificate][..],
            &[key],
            &[authority],
            &[certificate, key],
            &[key, authority],
        ] {
            assert!(parse(&some.join(" ")).is_err(), "{some:?}");
        }
        assert!(parse("--feed-allowed-clients=,").is_err());
        let feed = parse("").expect("no flag is required").feed;
        assert_eq!(
            (
                feed.feed_address.to_string().as_str(),
                feed.feed_tls_cert_file
            ),
            (":8950", None)
        );
    }
}
