//! Command lines of the components of the control plane.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::certificates::{Identity, identity};
use crate::component::Component;
use crate::configuration_files::AUDIT_POLICY;
use crate::layout::Layout;
use crate::node;
use crate::ports::Ports;

/// Size in MB at which the audit log is rotated.
const AUDIT_LOG_MB: &str = "64";
/// Rotated audit logs that are kept.
const AUDIT_LOG_BACKUPS: &str = "3";

/// A program with its arguments, the folder that it runs in, and its log.
#[derive(Clone, Debug)]
pub(crate) struct CommandLine {
    pub(crate) sandbox: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) folder: PathBuf,
    pub(crate) log: PathBuf,
    /// Process whose mount namespace the program gets, if it is not the machine's.
    pub(crate) mounts_of: Option<u32>,
}

/// Input of all command lines.
#[derive(Clone, Copy)]
pub(crate) struct CommandContext<'a> {
    pub(crate) sandbox: &'a Path,
    pub(crate) programs: &'a Path,
    pub(crate) layout: &'a Layout,
    pub(crate) ports: &'a Ports,
    pub(crate) audit_log: &'a Path,
    /// Process with the mount namespace of the real node, if there is one.
    pub(crate) real_node: Option<u32>,
}

impl CommandContext<'_> {
    pub(crate) fn command_line(self, component: Component) -> CommandLine {
        let flags = match component {
            Component::Etcd => self.etcd(),
            Component::KubeApiserver => self.api_server(),
            Component::KubeControllerManager => self.controller_manager(),
            Component::KubeScheduler => self.scheduler(),
            Component::Kwok => self.kwok(),
            Component::Containerd => self.containerd(),
            Component::Kubelet => self.kubelet(),
            Component::KubeProxy => self.kube_proxy(),
            Component::MetricsServer => self.metrics_server(),
            Component::Prometheus => self.prometheus(),
        };
        CommandLine {
            sandbox: self.sandbox.to_owned(),
            program: self.programs.join(component.name()),
            arguments: flags.0,
            folder: self.layout.state(),
            log: self.layout.log(component),
            mounts_of: self.real_node.filter(|_| component.is_on_real_node()),
        }
    }

    fn etcd(self) -> Flags {
        let [client, peer] = [self.ports.etcd, self.ports.etcd_peer].map(url);
        let own = self.identity("etcd");
        let authority = self.identity("ca").certificate;
        Flags::default()
            .with("name", "sandbox")
            .with("data-dir", self.layout.data(Component::Etcd))
            .with("listen-client-urls", &client)
            .with("advertise-client-urls", &client)
            .with("listen-peer-urls", &peer)
            .with("initial-advertise-peer-urls", &peer)
            .with("initial-cluster", format!("sandbox={peer}"))
            .with("cert-file", &own.certificate)
            .with("key-file", &own.key)
            .with("trusted-ca-file", &authority)
            .with("client-cert-auth", "true")
            .with("peer-cert-file", &own.certificate)
            .with("peer-key-file", &own.key)
            .with("peer-trusted-ca-file", &authority)
            .with("peer-client-cert-auth", "true")
            .with("log-level", "warn")
            // The store is thrown away with the sandbox: nothing has to survive a power cut.
            .with("unsafe-no-fsync", "true")
    }

    fn api_server(self) -> Flags {
        let etcd = self.identity("apiserver-etcd-client");
        let serving = self.identity("apiserver");
        let kubelet = self.identity("apiserver-kubelet-client");
        let aggregator = self.identity("aggregator");
        let authority = self.identity("ca").certificate;
        let tokens = self.layout.certificates().join("service-accounts.pub");
        // Pods of a real node reach the API server at the node's address. Its network namespace keeps
        // others out. A loopback address cannot be an endpoint of the Service `kubernetes`.
        let (bind_address, advertised, endpoints) = if self.real_node.is_some() {
            ("0.0.0.0", node::ADDRESS, "lease")
        } else {
            ("127.0.0.1", "127.0.0.1", "none")
        };
        Flags::default()
            .with("bind-address", bind_address)
            .with("advertise-address", advertised)
            .with("endpoint-reconciler-type", endpoints)
            .with("secure-port", self.ports.api_server.to_string())
            .with("etcd-servers", url(self.ports.etcd))
            .with("etcd-cafile", &authority)
            .with("etcd-certfile", &etcd.certificate)
            .with("etcd-keyfile", &etcd.key)
            .with("client-ca-file", &authority)
            .with("tls-cert-file", &serving.certificate)
            .with("tls-private-key-file", &serving.key)
            .with("authorization-mode", "Node,RBAC")
            .with("enable-admission-plugins", "NodeRestriction")
            .with("allow-privileged", "true")
            .with("service-cluster-ip-range", node::SERVICE_RANGE)
            .with(
                "service-account-issuer",
                "https://kubernetes.default.svc.cluster.local",
            )
            .with("service-account-key-file", &tokens)
            .with(
                "service-account-signing-key-file",
                tokens.with_extension("key"),
            )
            .with("kubelet-certificate-authority", &authority)
            .with("kubelet-client-certificate", &kubelet.certificate)
            .with("kubelet-client-key", &kubelet.key)
            .with("kubelet-preferred-address-types", "InternalIP")
            .with(
                "egress-selector-config-file",
                self.layout.config("egress.yaml"),
            )
            .with("requestheader-client-ca-file", &authority)
            .with("requestheader-allowed-names", "aggregator")
            .with("requestheader-username-headers", "X-Remote-User")
            .with("requestheader-group-headers", "X-Remote-Group")
            .with("requestheader-extra-headers-prefix", "X-Remote-Extra-")
            .with("proxy-client-cert-file", &aggregator.certificate)
            .with("proxy-client-key-file", &aggregator.key)
            .with("audit-policy-file", self.layout.config(AUDIT_POLICY))
            .with("audit-log-path", self.audit_log)
            .with("audit-log-maxsize", AUDIT_LOG_MB)
            .with("audit-log-maxbackup", AUDIT_LOG_BACKUPS)
    }

    fn controller_manager(self) -> Flags {
        let authority = self.identity("ca");
        self.server(
            Component::KubeControllerManager,
            self.ports.controller_manager,
            "loopback",
        )
        .with("leader-elect", "false")
        // After an outage a busy machine may take longer than usual until a node's status is
        // renewed; its pods ran all the time.
        .with("node-monitor-grace-period", "10m")
        .with("use-service-account-credentials", "true")
        .with(
            "service-account-private-key-file",
            self.layout.certificates().join("service-accounts.key"),
        )
        .with("root-ca-file", &authority.certificate)
        // Certificates of other signers are not needed. For each signer kube-controller-manager has an
        // inotify instance, of which a user has 128.
        .with(
            "cluster-signing-kube-apiserver-client-cert-file",
            &authority.certificate,
        )
        .with(
            "cluster-signing-kube-apiserver-client-key-file",
            &authority.key,
        )
        // The default of 20 makes it spend 4 s on the service accounts of its controllers before it
        // starts them.
        .with("kube-api-qps", "500")
        .with("kube-api-burst", "1000")
        // The default of 5 lets thousands of pods that are replaced at a time wait for it.
        .with("concurrent-replicaset-syncs", "50")
        // The default of 15 s would make every test of the HPA wait.
        .with("horizontal-pod-autoscaler-sync-period", "2s")
    }

    fn scheduler(self) -> Flags {
        self.server(Component::KubeScheduler, self.ports.scheduler, "loopback")
            .with("leader-elect", "false")
            // Thousands of pods are bound in seconds.
            .with("kube-api-qps", "500")
            .with("kube-api-burst", "1000")
    }

    /// Flags of a component that serves on the loopback address and asks the API server about callers.
    fn server(self, component: Component, port: u16, serving: &str) -> Flags {
        let kubeconfig = self.layout.kubeconfig_of(component);
        let serving = self.identity(serving);
        Flags::default()
            .with("kubeconfig", &kubeconfig)
            .with("authentication-kubeconfig", &kubeconfig)
            .with("authorization-kubeconfig", &kubeconfig)
            .with("bind-address", "127.0.0.1")
            .with("secure-port", port.to_string())
            .with("tls-cert-file", &serving.certificate)
            .with("tls-private-key-file", &serving.key)
    }

    fn kwok(self) -> Flags {
        Flags::default()
            .with("kubeconfig", self.layout.kubeconfig_of(Component::Kwok))
            .with("config", self.layout.config("kwok.yaml"))
            .with("server-address", format!("127.0.0.1:{}", self.ports.kwok))
    }

    fn containerd(self) -> Flags {
        Flags::default().with("config", self.layout.node().join("containerd.toml"))
    }

    fn kubelet(self) -> Flags {
        Flags::default()
            .with("kubeconfig", self.layout.kubeconfig_of(Component::Kubelet))
            .with("config", self.layout.node().join("kubelet.yaml"))
            .with("root-dir", self.layout.node().join("kubelet"))
            .with("hostname-override", node::NAME)
            .with("node-ip", node::ADDRESS)
            .with("v", "2")
    }

    fn kube_proxy(self) -> Flags {
        Flags::default()
            .with(
                "kubeconfig",
                self.layout.kubeconfig_of(Component::KubeProxy),
            )
            .with("proxy-mode", "iptables")
            .with("hostname-override", node::NAME)
            .with("cluster-cidr", node::POD_RANGE)
            .with("healthz-bind-address", "127.0.0.1")
            .with("metrics-bind-address", "127.0.0.1")
            // The limits of connection tracking are the machine's.
            .with("conntrack-max-per-core", "0")
            .with("conntrack-tcp-timeout-established", "0")
            .with("conntrack-tcp-timeout-close-wait", "0")
    }

    fn metrics_server(self) -> Flags {
        let (component, port) = (Component::MetricsServer, self.ports.metrics_server);
        self.server(component, port, "metrics-server-serving")
            .with(
                "kubelet-certificate-authority",
                self.identity("ca").certificate,
            )
            .with("kubelet-preferred-address-types", "InternalIP")
            .with("kubelet-use-node-status-port", "true")
            // The resolution must be above the timeout; 10 s is the shortest that it takes.
            .with("kubelet-request-timeout", "8s")
            .with("metric-resolution", "10s")
    }

    fn prometheus(self) -> Flags {
        Flags::default()
            .with("config.file", self.layout.config("prometheus.yaml"))
            .with("web.config.file", self.layout.config("prometheus-web.yaml"))
            .with(
                "web.listen-address",
                format!("127.0.0.1:{}", self.ports.prometheus),
            )
            .with("web.external-url", url(self.ports.prometheus))
            .with("storage.tsdb.path", self.layout.data(Component::Prometheus))
            // Recorded history may be older than the default of 15 days.
            .with("storage.tsdb.retention.time", "400d")
            .switch("web.enable-remote-write-receiver")
            .switch("web.enable-lifecycle")
    }

    fn identity(self, file: &str) -> Identity {
        identity(&self.layout.certificates(), file)
    }
}

fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

/// Flags in the form `--name=value`.
#[derive(Default)]
struct Flags(Vec<OsString>);

impl Flags {
    fn with(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        self.0.push(flag);
        self
    }

    fn switch(mut self, name: &str) -> Self {
        self.0.push(format!("--{name}").into());
        self
    }
}
