//! The extender's flags.

mod load_watcher;
mod scheduler;
mod serving;

use runtime::{CommonArgs, Program};

pub use self::load_watcher::LoadWatcherArgs;
pub use self::scheduler::SchedulerArgs;
pub use self::serving::ServingArgs;

/// The program.
pub const PROGRAM: Program = Program {
    name: "extender",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[
        ("address", ":8946"),
        ("secure-port", "8443"),
        ("service-name", "plimsoll-extender"),
        ("prometheus-query-timeout", "10s"),
    ],
};

/// Measures the load of nodes, and scores nodes by it for kube-scheduler.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    /// Flags of every program.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of the load of nodes.
    #[command(flatten)]
    pub load_watcher: LoadWatcherArgs,
    /// Flags of filter and prioritize.
    #[command(flatten)]
    pub scheduler: SchedulerArgs,
    /// Flags of the HTTPS endpoint.
    #[command(flatten)]
    pub serving: ServingArgs,
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
        let secure = args.serving.secure;
        assert_eq!(secure.tls_cert_file.to_str(), Some("a"));
        assert_eq!(secure.tls_private_key_file.to_str(), Some("b"));
        assert_eq!(secure.secure_port, 8443);
        assert_eq!(args.common.metrics_cert_dir, None);
        assert_eq!(args.common.address.to_string(), ":8946");
        let args = parse("--metrics-cert-dir=a").expect("valid flags");
        assert_eq!(args.common.metrics_cert_dir, Some("a".into()));
    }

    #[test]
    fn flags_of_the_load_watcher_are_checked() {
        let args = parse("").expect("defaults").load_watcher;
        assert_eq!(args.load_watcher_address.to_string(), "127.0.0.1:2020");
        assert!(args.settings().is_ok());
        for (line, expected) in [
            ("--load-watcher-address=:2021 --load-cache-folder=/c", true),
            ("--load-metrics-provider=Prometheus", true),
            ("--load-metrics-provider=InfluxDB", false),
            ("--load-interval=500ms", false),
            ("--load-interval=3m", false),
            ("--load-watcher-address=2020", false),
            ("--prometheus-address=prometheus:9090", false),
            ("--prometheus-client-cert-file=a", false),
            ("--prometheus-node-labels=in-valid", false),
            ("--prometheus-node-labels=", false),
            ("--prometheus-cpu-query=", false),
            ("--prometheus-disk-query= --prometheus-network-query=", true),
        ] {
            let provider = "--load-metrics-provider=Prometheus";
            let line = if line.contains("provider") {
                line.to_owned()
            } else {
                format!("{provider} {line}")
            };
            let settings = parse(&line)
                .map_err(anyhow::Error::msg)
                .and_then(|args| args.load_watcher.settings());
            assert_eq!(settings.is_ok(), expected, "{line}: {settings:?}");
        }
    }
}
