//! The extender's flags.

use runtime::config_file::ConfigArgs;
use runtime::{CommonArgs, Program};
use serving::certificates::SecurePortArgs;

pub const PROGRAM: Program = Program {
    name: "extender",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[
        ("address", ":8946"),
        ("secure-port", "8443"),
        ("service-name", "plimsoll-extender"),
    ],
};

/// Measures the load of nodes, and scores nodes by it for kube-scheduler.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The HTTPS endpoint. kube-scheduler needs caCert.pem of its Secret.
    #[command(flatten)]
    pub secure: SecurePortArgs,
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
    fn the_certificates_of_kube_scheduler_and_of_metrics_have_separate_flags() {
        let args = parse("--tls-cert-file=a --tls-private-key-file=b").expect("valid flags");
        let secure = args.secure;
        assert_eq!(secure.tls_cert_file.to_str(), Some("a"));
        assert_eq!(secure.tls_private_key_file.to_str(), Some("b"));
        assert_eq!(secure.secure_port, 8443);
        assert_eq!(args.common.metrics_cert_dir, None);
        assert_eq!(args.common.address.to_string(), ":8946");
        let args = parse("--metrics-cert-dir=a").expect("valid flags");
        assert_eq!(args.common.metrics_cert_dir, Some("a".into()));
    }
}
