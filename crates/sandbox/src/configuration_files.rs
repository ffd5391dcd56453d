//! The files that exist before the first component starts: certificates, kubeconfigs and
//! configuration files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::certificates::{Authority, Identity, identity};
use crate::component::Component;
use crate::layout::Layout;
use crate::ports::Ports;
use crate::startup_protocol::SandboxConfig;
use crate::{kubeconfig, kwok, node};

/// Every certificate's file, user name, group and further host names.
const SUBJECTS: [(&str, &str, Option<&str>, &[&str]); 11] = [
    ("etcd", "etcd", None, &[]),
    ("apiserver-etcd-client", "kube-apiserver", None, &[]),
    (
        "apiserver",
        "kube-apiserver",
        None,
        // The last are the address of the Service `kubernetes`, the first of its range, and that of
        // a real node.
        &[
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "10.96.0.1",
            node::ADDRESS,
        ],
    ),
    (
        "apiserver-kubelet-client",
        "kube-apiserver-kubelet-client",
        Some("system:masters"),
        &[],
    ),
    ("aggregator", "aggregator", None, &[]),
    ("loopback", "loopback", None, &[]),
    (
        "metrics-server-serving",
        "metrics-server",
        None,
        &["metrics-server.kube-system.svc"],
    ),
    ("admin", "admin", Some("system:masters"), &[]),
    (
        "kube-controller-manager",
        "system:kube-controller-manager",
        None,
        &[],
    ),
    ("kube-scheduler", "system:kube-scheduler", None, &[]),
    ("metrics-server", "metrics-server", None, &[]),
];

pub(crate) const AUDIT_POLICY: &str = "audit-policy.yaml";

/// Writes all files; returns the authority's certificate in PEM.
pub(crate) fn prepare(config: &SandboxConfig, layout: &Layout, ports: &Ports) -> Result<String> {
    layout.create()?;
    let authority = Authority::create(&layout.certificates())?;
    let issue = |file: &str, name, group, hosts: &[&str]| {
        let hosts = [&["localhost", "127.0.0.1"], hosts].concat();
        authority
            .issue(file, name, group, &hosts)
            .with_context(|| format!("issue the certificate {file}"))
    };
    for (file, name, group, hosts) in SUBJECTS {
        issue(file, name, group, hosts)?;
    }
    // KWOK is the kubelet of all nodes, and the Node authorizer lets a kubelet see one node only.
    issue("kwok", "kwok", Some("system:masters"), &[])?;
    authority.signing_key("service-accounts")?;
    let mut clients = vec![
        Component::Kwok,
        Component::KubeControllerManager,
        Component::KubeScheduler,
        Component::MetricsServer,
    ];
    if let Some(folders) = &config.real_node {
        let user = format!("system:node:{}", node::NAME);
        let hosts = [node::NAME, node::ADDRESS];
        issue("kubelet", &user, Some("system:nodes"), &hosts)?;
        issue("kube-proxy", "system:kube-proxy", None, &[])?;
        clients.extend([Component::Kubelet, Component::KubeProxy]);
        node::configuration::write(layout, &folders.container_runtime.join("bin"))?;
    }
    let clients = clients.iter();
    let clients = clients.map(|client| (layout.kubeconfig_of(*client), client.name()));
    for (file, user) in clients.chain([(layout.kubeconfig(), "admin")]) {
        let own = identity(&layout.certificates(), user);
        kubeconfig::write(&file, ports.api_server, &authority.pem(), user, &own)?;
    }

    let serving = identity(&layout.certificates(), "loopback");
    let kwok = kwok::configuration(&config.control_plane.files(), ports, &serving)?;
    write(layout, "kwok.yaml", &kwok)?;
    write_yaml(layout, "egress.yaml", &egress(layout))?;
    write_yaml(layout, AUDIT_POLICY, &audit_policy())?;
    if config.prometheus.is_some() {
        let files = layout.prometheus_files();
        fs::create_dir_all(&files).context("create a folder for Prometheus")?;
        let own = prometheus(ports, config.options.nodes, &authority.own(), &files);
        write_yaml(layout, "prometheus.yaml", &own)?;
        let web = prometheus_web(&serving);
        write_yaml(layout, "prometheus-web.yaml", &web)?;
    }
    Ok(authority.pem())
}

/// Egress configuration: connections of the API server to pods, Services and nodes go through the
/// host's proxy.
fn egress(layout: &Layout) -> Value {
    let transport = json!({"uds": {"udsName": layout.proxy_socket()}});
    json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{
            "name": "cluster",
            "connection": {"proxyProtocol": "HTTPConnect", "transport": transport},
        }],
    })
}

/// Audit policy: the metadata of requests of service accounts, except those of the control plane in
/// `kube-system`, and whole access reviews. Nothing else costs time or space.
fn audit_policy() -> Value {
    let accounts = ["system:serviceaccounts"];
    let reviews = json!([{
        "group": "authorization.k8s.io",
        "resources": ["subjectaccessreviews"],
    }]);
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "RequestResponse", "userGroups": accounts, "resources": reviews},
            {"level": "Metadata", "userGroups": accounts},
            {"level": "None"},
        ],
    })
}

fn write_yaml(layout: &Layout, file: &str, value: &Value) -> Result<()> {
    let text = serde_yaml_ng::to_string(value).context("render a configuration file")?;
    write(layout, file, &text)
}

fn write(layout: &Layout, file: &str, text: &str) -> Result<()> {
    let path = layout.config(file);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

/// Samples may arrive this much later than newer ones, so that history can be written into it.
const OUT_OF_ORDER_WINDOW: &str = "400d";

/// Prometheus' configuration: it accepts samples of any age by remote write, serves over TLS, and
/// scrapes KWOK's usage per node. It loads further rules and scrapes from a folder, at the start and by
/// `POST /-/reload`.
fn prometheus(ports: &Ports, nodes: u16, authority: &Identity, further_files: &Path) -> Value {
    let scrapes: Vec<Value> = (0..nodes)
        .map(|number| {
            json!({
                "job_name": format!("node-{number}"),
                "scheme": "https",
                "metrics_path": format!("/metrics/nodes/node-{number}/metrics/resource"),
                "tls_config": {"ca_file": authority.certificate},
                "static_configs": [{"targets": [format!("127.0.0.1:{}", ports.kwok)], "labels": {"node": format!("node-{number}")}}],
            })
        })
        .collect();
    json!({
        "global": {"scrape_interval": "10s", "scrape_timeout": "8s"},
        "storage": {"tsdb": {"out_of_order_time_window": OUT_OF_ORDER_WINDOW}},
        "scrape_configs": scrapes,
        "rule_files": [further_files.join("rules-*.yaml")],
        "scrape_config_files": [further_files.join("scrape-*.yaml")],
    })
}

fn prometheus_web(serving: &Identity) -> Value {
    json!({"tls_server_config": {"cert_file": serving.certificate, "key_file": serving.key}})
}
