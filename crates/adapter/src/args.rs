//! The adapter's flags.

mod predictions;
mod serving;

use runtime::{CommonArgs, Program};

pub use self::serving::ServingArgs;
use crate::routes::RoutesArgs;
use crate::rules::args::RulesArgs;
use delegated_auth::AuthArgs;
pub use predictions::PredictionArgs;

/// The adapter's command line.
pub const PROGRAM: Program = Program {
    name: "adapter",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[("address", ":8945")],
};

/// Serves the custom and external metrics that the horizontal pod autoscaler reads.
// `--tls-cert-file` is the certificate of the two APIs, as in other adapters.
#[derive(Debug, Clone, clap::Parser)]
#[command(
    mut_arg("tls_cert_file", |arg| arg.long("metrics-tls-cert-file").help(
        "Certificate chain (PEM) with which --address is served over TLS. Needs --metrics-tls-private-key-file"
    )),
    mut_arg("tls_private_key_file", |arg| arg.long("metrics-tls-private-key-file").help(
        "Private key (PEM) of --metrics-tls-cert-file"
    ))
)]
pub struct Args {
    /// Flags of every program.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of authentication and authorization.
    #[command(flatten)]
    pub auth: AuthArgs,
    /// Flags of predictions and cron schedules.
    #[command(flatten)]
    pub predictions: PredictionArgs,
    /// Flags of routes to other providers.
    #[command(flatten)]
    pub routes: RoutesArgs,
    /// Flags of the HTTPS endpoint.
    #[command(flatten)]
    pub serving: ServingArgs,
    /// Flags of rules.
    #[command(flatten)]
    pub rules: RulesArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        PROGRAM.parse_line(line)
    }

    #[test]
    fn the_command_line_is_valid() {
        PROGRAM.command::<Args>().debug_assert();
    }

    #[test]
    fn the_certificates_of_the_apis_and_of_metrics_have_separate_flags() {
        let args =
            parse("--tls-cert-file=a --tls-private-key-file=b --secure-port=1").expect("they fit");
        let serving = args.serving;
        assert_eq!(serving.certificate.serving_cert_file.to_str(), Some("a"));
        assert_eq!(
            serving.certificate.serving_private_key_file.to_str(),
            Some("b")
        );
        assert_eq!(serving.secure_port, 1);
        assert_eq!(args.common.tls_cert_file, None);
        let args =
            parse("--metrics-tls-cert-file=a --metrics-tls-private-key-file=b").expect("they fit");
        assert_eq!(args.common.tls_cert_file, Some("a".into()));
        assert_eq!(args.common.address.to_string(), ":8945");
        assert!(parse("--min-tls-version=tls1_1").is_err());
    }
}
