//! The adapter's flags.

use std::path::PathBuf;

use delegated_auth::AuthArgs;
use runtime::ignored_flags::IgnoredFlags;
use runtime::{CommonArgs, KlogArgs, Program};
use serving::certificates::SecurePortArgs;

use crate::rules::args::RulesArgs;

/// The adapter's command line.
pub const PROGRAM: Program = Program {
    name: "adapter",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[
        ("address", ":8945"),
        ("secure-port", "6443"),
        ("service-name", "plimsoll-adapter"),
    ],
};

/// Serves the custom and external metrics that the horizontal pod autoscaler reads.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub klog: KlogArgs,
    #[command(flatten)]
    pub auth: AuthArgs,
    /// Routes file (YAML): external metrics that are forwarded to other providers. Reloaded when it
    /// changes. Default: none are forwarded.
    #[arg(long, value_name = "FILE")]
    pub routes_file: Option<PathBuf>,
    #[command(flatten)]
    pub secure: SecurePortArgs,
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Flags of prometheus-adapter that have no effect.
    #[command(flatten)]
    pub ignored_flags: IgnoredFlags,
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
    fn the_command_line_of_an_older_prometheus_adapter_is_accepted() {
        let line = "--secure-port=6443 --tls-cert-file=a --tls-private-key-file=b \
            --logtostderr=true --prometheus-url=http://prometheus:9090/ --metrics-relist-interval=1m \
            --v=4 --config=/etc/adapter/config.yaml";
        let args = parse(line).expect("its manifest");
        assert_eq!(args.ignored_flags.iter().count(), 0);
    }

    #[test]
    fn the_certificates_of_the_apis_and_of_metrics_have_separate_flags() {
        let line = "--tls-cert-file=a --tls-private-key-file=b --secure-port=1";
        let args = parse(line).expect("they fit");
        let secure = args.secure;
        assert_eq!(secure.tls_cert_file.to_str(), Some("a"));
        assert_eq!(secure.tls_private_key_file.to_str(), Some("b"));
        assert_eq!(secure.secure_port, 1);
        assert_eq!(args.common.metrics_cert_dir, None);
        let args = parse("--metrics-cert-dir=c").expect("it fits");
        assert_eq!(args.common.metrics_cert_dir, Some("c".into()));
        assert_eq!(args.common.address.to_string(), ":8945");
        assert_eq!(args.secure.secure_port, 6443);
    }
}
