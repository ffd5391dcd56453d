//! The webhook's flags, with upstream's names and defaults.

mod registration;

use std::path::PathBuf;
use std::time::Duration;

use admission::{AdmissionConfig, Gates};
use anyhow::Context as _;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use kube::Api;
use model::Quantity;
use runtime::config_file::ConfigArgs;
use runtime::duration::at_least;
use runtime::feature_gates::{CPU_STARTUP_BOOST, IN_PLACE, NATIVE_SIDECAR, PER_VPA_CONFIG};
use runtime::ignored_flags::IgnoredFlags;
use runtime::{
    ApiServerClock, CommonArgs, FeatureGates, GoDuration, KlogArgs, LeaderElectionArgs,
    NamespaceArgs, Program, ResourceLock,
};
use serving::certificates::{Files, ManagedConfig, Source, TlsArgs};
use serving::tls::{ServingProfile, TlsFiles};

use super::heartbeat::Heartbeat;
use super::registration::Registration;
pub use registration::RegistrationArgs;

pub const PROGRAM: Program = Program {
    name: "webhook",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[("address", ":8944")],
};

/// Sizes pods when they are created, and validates VPA objects.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub klog: KlogArgs,
    #[command(flatten)]
    pub ignored_flags: IgnoredFlags,
    #[command(flatten)]
    pub serving: ServingArgs,
    #[command(flatten)]
    pub registration: RegistrationArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
    #[command(flatten)]
    pub heartbeat: HeartbeatArgs,
    #[command(flatten)]
    pub review: ReviewArgs,
    #[command(flatten)]
    pub namespaces: NamespaceArgs,
}

/// Flags about patches and validation.
#[derive(Debug, Clone, clap::Args)]
pub struct ReviewArgs {
    /// Maximum CPU request of a startup boost. 0 means no maximum.
    #[arg(long, default_value = "0", value_name = "QUANTITY")]
    pub max_allowed_cpu_boost: Quantity,
    /// Feature gates as Name=true, separated by commas: `CPUStartupBoost`, `InPlace`,
    /// `PerVPAConfig` and `NativeSidecar`.
    #[arg(long, default_value = "", value_name = "GATES")]
    pub feature_gates: String,
}

impl ReviewArgs {
    /// The configuration of decisions, with node groups by `--config`.
    pub fn config(self, node_groups: bool) -> anyhow::Result<AdmissionConfig> {
        let gates = FeatureGates::parse(&self.feature_gates).context("--feature-gates")?;
        Ok(AdmissionConfig {
            gates: Gates {
                cpu_startup_boost: gates.enabled(CPU_STARTUP_BOOST),
                in_place: gates.enabled(IN_PLACE),
                per_vpa_config: gates.enabled(PER_VPA_CONFIG),
            },
            max_cpu_boost: Some(self.max_allowed_cpu_boost).filter(|max| !max.is_zero()),
            native_sidecars: gates.enabled(NATIVE_SIDECAR),
            node_groups,
        })
    }
}

/// Flags of the heartbeat.
#[derive(Debug, Clone, clap::Args)]
pub struct HeartbeatArgs {
    /// Name of the heartbeat Lease. The updater evicts pods only while it is renewed.
    #[arg(long, default_value = "vpa-admission-controller", value_name = "NAME")]
    pub status_lease_name: String,
    /// Namespace of the heartbeat Lease. Empty means that of the environment variable NAMESPACE, or
    /// else kube-system.
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    pub status_lease_namespace: String,
    /// Interval between renewals of the Lease.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = at_least_a_second)]
    pub status_lease_update_interval: GoDuration,
}

impl HeartbeatArgs {
    fn namespace<'a>(&'a self, own_namespace: &'a str) -> &'a str {
        if self.status_lease_namespace.is_empty() {
            own_namespace
        } else {
            &self.status_lease_namespace
        }
    }

    /// The heartbeat of the replica `holder`.
    pub fn heartbeat(
        &self,
        client: kube::Client,
        clock: ApiServerClock,
        own_namespace: &str,
        holder: String,
    ) -> Heartbeat {
        Heartbeat {
            leases: Api::namespaced(client, self.namespace(own_namespace)),
            clock,
            name: self.status_lease_name.clone(),
            holder,
            interval: self.status_lease_update_interval.0,
        }
    }

    /// The election of the replica that writes the registration, by a Lease next to the heartbeat:
    /// that one is renewed by all replicas.
    pub fn election(&self, own_namespace: &str) -> LeaderElectionArgs {
        let seconds = |seconds| GoDuration(Duration::from_secs(seconds));
        LeaderElectionArgs {
            leader_elect: true,
            leader_elect_lease_duration: seconds(15),
            leader_elect_renew_deadline: seconds(10),
            leader_elect_retry_period: seconds(2),
            leader_elect_resource_lock: ResourceLock::Leases,
            leader_elect_resource_name: format!("{}-registration", self.status_lease_name),
            leader_elect_resource_namespace: self.namespace(own_namespace).to_owned(),
        }
    }
}

/// Parses a duration. The Lease has whole seconds.
fn at_least_a_second(text: &str) -> Result<GoDuration, String> {
    at_least(Duration::from_secs(1), text)
}

/// Secret of managed certificates, upstream's.
const SECRET: &str = "vpa-tls-certs";

/// Flags of the HTTPS endpoint.
#[derive(Debug, Clone, clap::Args)]
pub struct ServingArgs {
    /// Port of the webhook.
    #[arg(long, default_value_t = 8000, value_name = "PORT")]
    pub port: u16,
    /// Issue and rotate the certificates, in the Secret vpa-tls-certs that all replicas share, and
    /// write their CA bundle to the registration. The flags of certificate files are ignored then.
    #[arg(long)]
    pub manage_certificates: bool,
    /// Certificate chain (PEM) of the webhook.
    #[arg(
        long,
        default_value = "/etc/tls-certs/serverCert.pem",
        value_name = "FILE"
    )]
    pub tls_cert_file: PathBuf,
    /// Private key (PEM) of --tls-cert-file.
    #[arg(
        long,
        default_value = "/etc/tls-certs/serverKey.pem",
        value_name = "FILE"
    )]
    pub tls_private_key: PathBuf,
    /// CA bundle (PEM) of the registration. Empty if another program writes it, such as
    /// cert-manager.
    // By default clap refuses empty paths.
    #[arg(
        long, default_value = "/etc/tls-certs/caCert.pem", value_name = "FILE",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub client_ca_file: PathBuf,
    /// Reload the certificate files when they change.
    #[arg(long)]
    pub reload_cert: bool,
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ServingArgs {
    /// The source of the certificates, for the names of `registration`. Clients need a certificate of
    /// `client_authorities`.
    pub fn source(
        self,
        client_authorities: Option<PathBuf>,
        client: kube::Client,
        own_namespace: &str,
        registration: Option<&Registration>,
    ) -> anyhow::Result<Source> {
        let serving = ServingProfile {
            client_authorities,
            ..self.tls.profile()
        };
        if !self.manage_certificates {
            let files = TlsFiles {
                certificate: self.tls_cert_file,
                private_key: self.tls_private_key,
                authorities: None,
            };
            // Without a registration no CA bundle is written, and the file may be missing.
            let authorities = Some(self.client_ca_file)
                .filter(|path| registration.is_some() && !path.as_os_str().is_empty());
            return Ok(Source::Files(Files {
                files,
                authorities,
                follow: self.reload_cert,
                serving,
            }));
        }
        let registration = registration.context(
            "--manage-certificates needs --register-webhook, which writes their CA bundle",
        )?;
        let managed = ManagedConfig::new(
            client,
            own_namespace,
            SECRET.to_owned(),
            "webhook",
            registration.address.names(),
            serving,
        );
        Ok(Source::Managed(Box::new(managed)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        PROGRAM.parse_line(line)
    }

    #[test]
    fn the_command_line_is_valid() {
        PROGRAM.command::<Args>().debug_assert();
    }

    #[test]
    fn the_certificates_of_webhook_and_metrics_have_separate_flags() {
        let args = parse("--tls-cert-file=a --tls-private-key=b").expect("valid flags");
        assert_eq!(args.serving.tls_cert_file, PathBuf::from("a"));
        assert_eq!(args.serving.tls_private_key, PathBuf::from("b"));
        assert_eq!(args.common.metrics_cert_dir, None);
        let args = parse("--metrics-cert-dir=a").expect("valid flags");
        assert_eq!(args.common.metrics_cert_dir, Some("a".into()));
        let own = PathBuf::from("/etc/tls-certs/serverCert.pem");
        assert_eq!(args.serving.tls_cert_file, own);
        let args = parse("--client-ca-file= --reload-cert").expect("as with cert-manager");
        assert_eq!(args.serving.client_ca_file, PathBuf::new());
    }

    /// The flags of upstream's admission controller with their defaults; the timeout is that of its
    /// chart.
    const UPSTREAM: &str = "--client-ca-file=/etc/tls-certs/caCert.pem --tls-cert-file=/etc/tls-certs/serverCert.pem \
        --tls-private-key=/etc/tls-certs/serverKey.pem --tls-ciphers= --min-tls-version=tls1_2 --port=8000 --address=:8944 \
        --webhook-service=vpa-webhook --webhook-address= --webhook-port= --webhook-timeout-seconds=5 \
        --webhook-failure-policy-fail=false --register-webhook=true --webhook-labels= --register-by-url=false \
        --status-lease-name=vpa-admission-controller --status-lease-namespace= --status-lease-update-interval=10s \
        --max-allowed-cpu-boost=0 --reload-cert=false --vpa-object-namespace= --ignored-vpa-object-namespaces= \
        --feature-gates= --profiling=false --kube-api-qps=50 --kube-api-burst=100 --v=4 --stderrthreshold=info";

    #[test]
    fn upstreams_flags_are_accepted_and_have_its_defaults() {
        let shown = |line: &str| parse(line).map(|args| format!("{args:?}"));
        assert_eq!(shown(UPSTREAM), shown(""));
        let manifest = parse("--v=4 --stderrthreshold=info --reload-cert");
        let serving = manifest.expect("upstream's manifest").serving;
        assert!(serving.reload_cert && !serving.manage_certificates);
        for line in ["--webhook-timeout-seconds=31", "--min-tls-version=tls1_1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn gates_and_maximum_boost_are_parsed() {
        let config = |line: &str| parse(line).expect(line).review.config(true);
        let defaults = AdmissionConfig {
            node_groups: true,
            ..AdmissionConfig::default()
        };
        assert_eq!(config("").expect("defaults"), defaults);
        let line = "--feature-gates=InPlace=true,NativeSidecar=true --max-allowed-cpu-boost=2";
        let found = config(line).expect("valid flags");
        assert!(found.gates.in_place && found.native_sidecars);
        assert!(!found.gates.cpu_startup_boost && !found.gates.per_vpa_config);
        assert_eq!(found.max_cpu_boost, Some(Quantity::from_milli(2000)));
        assert!(config("--feature-gates=Nothing=true").is_err());
    }
}
