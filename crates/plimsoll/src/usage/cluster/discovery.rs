//! Services of Prometheus, or of a store with its API, by their usual labels, and the path of the API
//! server that leads to one.
//!
//! Each tenant may set these labels on a Service. So they count in the usual namespaces of
//! monitoring only, and a Service elsewhere must be named.
//!
//! Source of the labels: the Helm charts of prometheus, kube-prometheus-stack, Thanos, Mimir and
//! `VictoriaMetrics`, as KRR knows them.

use std::str::FromStr;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::cluster::{Cluster, each};
use crate::failure::is_unreachable;
use crate::installation::ObjectName;
use crate::output::first_names;

const MAX_NAMED: usize = 10;
/// Namespaces in which the labels of a Service count.
const NAMESPACES: &[&str] = &[
    "cattle-monitoring-system",
    "kube-prometheus-stack",
    "kube-system",
    "metrics",
    "mimir",
    "monitoring",
    "observability",
    "openshift-monitoring",
    "prometheus",
    "thanos",
    "victoria-metrics",
];

const PROMETHEUS: &[i32] = &[9090, 80, 443];

/// Stores by the labels of their Services, the first match of which counts: numbers of the port,
/// the most likely one first; path of the API of Prometheus; the labels, of which a Service has all
/// of one text.
const STORES: &[(&[i32], &str, &[&str])] = &[
    (
        PROMETHEUS,
        "",
        &[
            "app=kube-prometheus-stack-prometheus",
            "app=rancher-monitoring-prometheus",
            "app=prometheus-operator-prometheus",
            "app=prometheus-prometheus",
            "app=prometheus-server",
            "app=prometheus,component=server",
            "app.kubernetes.io/name=prometheus,app.kubernetes.io/component=server",
            "app.kubernetes.io/name=prometheus,app.kubernetes.io/component=prometheus",
        ],
    ),
    (
        &[9090, 10902, 80],
        "",
        &[
            "app.kubernetes.io/name=thanos,app.kubernetes.io/component=query",
            "app.kubernetes.io/name=thanos-query",
            "app=thanos-query",
            "app=thanos-querier",
        ],
    ),
    (
        &[8080, 80],
        "/prometheus",
        &["app.kubernetes.io/name=mimir,app.kubernetes.io/component=query-frontend"],
    ),
    (
        &[8429, 8428, 80],
        "",
        &[
            "app.kubernetes.io/name=vmsingle",
            "app.kubernetes.io/name=victoria-metrics-single",
        ],
    ),
    (
        &[8481, 80],
        "/select/0/prometheus",
        &["app.kubernetes.io/name=vmselect", "app=vmselect"],
    ),
];
/// Labels of Prometheus that other Services of it have too, such as that of a Thanos sidecar. They
/// count without the label `app.kubernetes.io/component`, and with a port of Prometheus.
const PLAIN: (&str, &str) = ("app.kubernetes.io/name", "prometheus");
const COMPONENT: &str = "app.kubernetes.io/component";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedService {
    service: ObjectName,
    port: Option<i32>,
}

impl FromStr for NamedService {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        let is_name = |name: &str| !name.is_empty() && name.chars().all(is_part);
        let parse = || {
            let (namespace, rest) = text.split_once('/')?;
            let (name, port) = match rest.split_once(':') {
                Some((name, port)) => (name, Some(i32::from(port.parse::<u16>().ok()?))),
                None => (rest, None),
            };
            let service = ObjectName::new(namespace, name);
            (is_name(namespace) && is_name(name)).then_some(Self { service, port })
        };
        parse().ok_or_else(|| "expected NAMESPACE/NAME or NAMESPACE/NAME:PORT".to_owned())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FoundStore {
    namespace: String,
    name: String,
    scheme: &'static str,
    port: i32,
    folder: &'static str,
}

impl FoundStore {
    /// The path of the API server that leads to the API of Prometheus.
    pub(super) fn proxy_path(&self) -> String {
        format!(
            "/api/v1/namespaces/{}/services/{}:{}:{}/proxy{}",
            self.namespace, self.scheme, self.name, self.port, self.folder
        )
    }

    pub(super) fn text(&self) -> String {
        format!("{}/{}:{}", self.namespace, self.name, self.port)
    }
}

pub(super) async fn named(cluster: &Cluster, wanted: &NamedService) -> anyhow::Result<FoundStore> {
    let NamedService { service, port } = wanted;
    let subject = format!("the Service {service}");
    let api = cluster.within::<Service>(&service.namespace);
    let read = api.get(&service.name).await;
    let read = read.map_err(cluster.failed(&subject))?;
    let found = store_at(&read, *port);
    found.with_context(|| format!("{subject} has no such port"))
}

/// The store of a named Service: its labels give the folder, and the port unless it is named too.
fn store_at(service: &Service, number: Option<i32>) -> Option<FoundStore> {
    let ports = service.spec.as_ref()?.ports.as_deref().unwrap_or_default();
    let by_labels = store_of(service);
    let (known, folder) = by_labels.map_or((None, ""), |it| (Some(it.port), it.folder));
    let port = match number.or(known) {
        Some(number) => ports.iter().find(|port| port.port == number)?,
        None => port(ports, PROMETHEUS)?,
    };
    found_store(service, port, folder)
}

pub(super) async fn discover(cluster: &Cluster) -> anyhow::Result<FoundStore> {
    let mut found = Vec::new();
    let visit = |service| found.extend(store_of(&service));
    let read = each(&cluster.all(), &ListParams::default(), visit).await;
    let read = read.map_err(cluster.failed("Services"));
    read.map_err(|error| {
        if is_unreachable(&error) {
            return error;
        }
        anyhow!("{error:#}: set --prometheus-address, for one cluster")
    })?;
    only(found)
}

fn store_of(service: &Service) -> Option<FoundStore> {
    let spec = service.spec.as_ref()?;
    // An ExternalName cannot be reached through the API server.
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let labels = service.labels();
    let has = |label: &str| {
        let pair = label.split_once('=');
        pair.is_some_and(|(key, value)| labels.get(key).is_some_and(|found| found == value))
    };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let is_known = |labels: &&str| labels.split(',').all(has);
    let mut stores = STORES.iter();
    let known = stores.find(|(_, _, labels)| labels.iter().any(&is_known));
    let (port, folder) = if let Some((numbers, folder, _)) = known {
        (port(ports, numbers)?, *folder)
    } else {
        let (key, value) = PLAIN;
        let is_plain = labels.get(key).is_some_and(|found| found == value);
        let is_plain = is_plain && !labels.contains_key(COMPONENT);
        let port = ports.iter().find(|port| PROMETHEUS.contains(&port.port));
        (port.filter(|_| is_plain)?, "")
    };
    found_store(service, port, folder)
}

fn found_store(service: &Service, port: &ServicePort, folder: &'static str) -> Option<FoundStore> {
    let name = port.name.as_deref().unwrap_or_default();
    let is_tls = name.starts_with("https") || port.port == 443;
    Some(FoundStore {
        namespace: service.namespace()?,
        name: service.name_any(),
        scheme: if is_tls { "https" } else { "http" },
        port: port.port,
        folder,
    })
}

/// The port with the first of these numbers, else one with the name of HTTP, else the first one.
fn port<'a>(ports: &'a [ServicePort], numbers: &[i32]) -> Option<&'a ServicePort> {
    let of_number = |number: &i32| ports.iter().find(|port| port.port == *number);
    let has_name = |port: &&ServicePort| {
        let name = port.name.as_deref().unwrap_or_default();
        name.starts_with("http") || name == "web"
    };
    let known = numbers.iter().find_map(of_number);
    known
        .or_else(|| ports.iter().find(has_name))
        .or(ports.first())
}

/// The only one in the usual namespaces. The error names the others.
fn only(found: Vec<FoundStore>) -> anyhow::Result<FoundStore> {
    let is_usual = |store: &FoundStore| NAMESPACES.contains(&store.namespace.as_str());
    let (usual, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_usual);
    Err(match (usual.as_slice(), others.as_slice()) {
        ([found], _) => return Ok(found.clone()),
        ([], []) => anyhow!(
            "no Service of Prometheus, Thanos, Mimir or VictoriaMetrics with the usual labels: set \
             --prometheus-service, or --prometheus-address for one cluster"
        ),
        ([], others) => anyhow!(
            "no Service in the usual namespaces of monitoring is Prometheus; elsewhere may be: {}: \
             set --prometheus-service if you trust one of them",
            names(others)
        ),
        (several, _) => anyhow!(
            "several Services may be Prometheus: {}: set --prometheus-service to one of them",
            names(several)
        ),
    })
}

fn names(stores: &[FoundStore]) -> String {
    let mut names: Vec<String> = stores.iter().map(FoundStore::text).collect();
    names.sort();
    first_names(&names, MAX_NAMED)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::tests::parse;

    /// A Service with labels `KEY=VALUE` and ports `NAME:NUMBER`, separated by spaces. The keys `name`
    /// and `component` have the prefix of Kubernetes.
    fn service(labels: &str, ports: &str) -> Service {
        let labels = labels.split_whitespace().map(|label| {
            let (key, value) = label.split_once('=').expect("KEY=VALUE");
            let is_short = key == "name" || key == "component";
            let prefix = if is_short { "app.kubernetes.io/" } else { "" };
            (format!("{prefix}{key}"), value)
        });
        let ports = ports.split_whitespace().map(|port| {
            let (name, number) = port.split_once(':').expect("NAME:NUMBER");
            json!({"name": name, "port": number.parse::<i32>().expect("a number")})
        });
        let labels: serde_json::Value = labels.collect();
        parse(json!({
            "metadata": {"namespace": "monitoring", "name": "store", "labels": labels},
            "spec": {"ports": ports.collect::<Vec<_>>()},
        }))
    }

    #[test]
    fn stores_are_known_by_their_labels() {
        let web = Some("http:store:9090/proxy");
        let vmselect = Some("http:store:8481/proxy/select/0/prometheus");
        let mimir = Some("http:store:8080/proxy/prometheus");
        let stack = "app=kube-prometheus-stack-prometheus";
        let node_exporter = "app=prometheus-node-exporter";
        for (labels, ports, expected) in [
            (stack, "reloader-web:8080 http-web:9090", web),
            ("name=prometheus", "web:9090", web),
            // The Thanos sidecar of the same chart.
            ("name=prometheus", "grpc:10901", None),
            (
                "name=prometheus component=server",
                "http:80",
                Some("http:store:80/proxy"),
            ),
            ("name=prometheus component=alertmanager", "http:9090", None),
            (
                "app=prometheus-server",
                "https:443",
                Some("https:store:443/proxy"),
            ),
            (
                "name=thanos component=query",
                "grpc:10901 http:10902",
                Some("http:store:10902/proxy"),
            ),
            ("name=thanos component=storegateway", "http:10902", None),
            (
                "name=mimir component=query-frontend",
                "http-metrics:8080",
                mimir,
            ),
            ("name=vmselect", "http:8481", vmselect),
            ("name=vmsingle", "http:8429", Some("http:store:8429/proxy")),
            (
                "app=prometheus-server",
                "odd:1234",
                Some("http:store:1234/proxy"),
            ),
            ("app=prometheus-server", "", None),
            (node_exporter, "metrics:9100", None),
            ("", "http:9090", None),
        ] {
            let path = store_of(&service(labels, ports)).map(|store| store.proxy_path());
            let place = "/api/v1/namespaces/monitoring/services/";
            let path = path.as_deref().and_then(|path| path.strip_prefix(place));
            assert_eq!(path, expected, "{labels}");
        }
        let mut external = service("app=prometheus-server", "http:80");
        let spec = external.spec.as_mut().expect("a specification");
        spec.type_ = Some("ExternalName".to_owned());
        assert_eq!(store_of(&external), None);
    }

    fn stores(namespaces: &[&str]) -> Vec<FoundStore> {
        let store = store_of(&service("app=prometheus-server", "http:80"));
        let store = store.expect("a store");
        let namespaces = namespaces.iter().map(|namespace| FoundStore {
            namespace: (*namespace).to_owned(),
            ..store.clone()
        });
        namespaces.collect()
    }

    #[test]
    fn labels_count_in_the_usual_namespaces_of_monitoring_only() {
        let found = only(stores(&["shop", "monitoring", "bank"]));
        assert!(matches!(found, Ok(found) if found.namespace == "monitoring"));
        for (namespaces, expected) in [
            (
                &["shop"][..],
                "no Service in the usual namespaces of monitoring is Prometheus; elsewhere may be: \
                 shop/store:80: set --prometheus-service if you trust one of them",
            ),
            (
                &["prometheus", "monitoring", "shop"],
                "several Services may be Prometheus: monitoring/store:80, prometheus/store:80: set \
                 --prometheus-service to one of them",
            ),
            (
                &[],
                "no Service of Prometheus, Thanos, Mimir or VictoriaMetrics with the usual labels: \
                 set --prometheus-service, or --prometheus-address for one cluster",
            ),
        ] {
            let error = only(stores(namespaces)).expect_err("no single store");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_named_service_needs_no_labels() {
        let path = |labels: &str, name: &str| {
            let named: NamedService = name.parse().expect("a Service");
            let service = service(labels, "odd:1234 web:9090");
            Some(store_at(&service, named.port)?.text())
        };
        let found = |port: i32| Some(format!("monitoring/store:{port}"));
        assert_eq!(path("", "monitoring/store"), found(9090));
        assert_eq!(path("", "monitoring/store:1234"), found(1234));
        assert_eq!(path("", "monitoring/store:80"), None);
        assert_eq!(path("name=vmselect", "monitoring/store:9090"), found(9090));
        for invalid in "store|/store|monitoring/|a/b:c|a/b/c|a/b:80/x".split('|') {
            assert!(invalid.parse::<NamedService>().is_err(), "{invalid}");
        }
    }
}
