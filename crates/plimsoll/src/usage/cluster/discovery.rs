//! Services of Prometheus, or of a store with its API, by their usual labels, and the path of the API
//! server that leads to one.
//!
//! Source of the labels: the Helm charts of prometheus, kube-prometheus-stack, Thanos, Mimir and
//! `VictoriaMetrics`, as KRR knows them.

use anyhow::anyhow;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use crate::cluster::{Cluster, request_failure};
use crate::failure::Failure;

/// Services per page of a list.
const PAGE: u32 = 500;
/// Maximum number of Services.
const MAX_SERVICES: usize = 100_000;
/// Maximum number of Services that an error names.
const MAX_NAMED: usize = 10;

/// Labels of a Service of a store.
struct Store {
    /// All of these labels, as `key=value`, separated by commas.
    labels: &'static str,
    /// Numbers of the port, the most likely one first.
    ports: &'static [i32],
    /// Path of the API of Prometheus.
    folder: &'static str,
}

const fn store(labels: &'static str, ports: &'static [i32], folder: &'static str) -> Store {
    Store {
        labels,
        ports,
        folder,
    }
}

/// Ports of Prometheus.
const PROMETHEUS: &[i32] = &[9090, 80, 443];
/// Ports of a Thanos querier.
const THANOS: &[i32] = &[9090, 10902, 80];
/// Ports of a `VictoriaMetrics` server of one process.
const VMSINGLE: &[i32] = &[8429, 8428, 80];

/// The usual labels. The first match of a Service counts.
const STORES: &[Store] = &[
    store("app=kube-prometheus-stack-prometheus", PROMETHEUS, ""),
    store("app=rancher-monitoring-prometheus", PROMETHEUS, ""),
    store("app=prometheus-operator-prometheus", PROMETHEUS, ""),
    store("app=prometheus-prometheus", PROMETHEUS, ""),
    store("app=prometheus-server", PROMETHEUS, ""),
    store("app=prometheus,component=server", PROMETHEUS, ""),
    store(
        "app.kubernetes.io/name=prometheus,app.kubernetes.io/component=server",
        PROMETHEUS,
        "",
    ),
    store(
        "app.kubernetes.io/name=prometheus,app.kubernetes.io/component=prometheus",
        PROMETHEUS,
        "",
    ),
    store(
        "app.kubernetes.io/name=thanos,app.kubernetes.io/component=query",
        THANOS,
        "",
    ),
    store("app.kubernetes.io/name=thanos-query", THANOS, ""),
    store("app=thanos-query", THANOS, ""),
    store("app=thanos-querier", THANOS, ""),
    store(
        "app.kubernetes.io/name=mimir,app.kubernetes.io/component=query-frontend",
        &[8080, 80],
        "/prometheus",
    ),
    store("app.kubernetes.io/name=vmsingle", VMSINGLE, ""),
    store(
        "app.kubernetes.io/name=victoria-metrics-single",
        VMSINGLE,
        "",
    ),
    store(
        "app.kubernetes.io/name=vmselect",
        &[8481, 80],
        "/select/0/prometheus",
    ),
    store("app=vmselect", &[8481, 80], "/select/0/prometheus"),
];
/// Labels of Prometheus that other Services of it have too, such as that of a Thanos sidecar. They
/// count without the label `app.kubernetes.io/component`, and with a port of Prometheus.
const PLAIN: (&str, &str) = ("app.kubernetes.io/name", "prometheus");
const COMPONENT: &str = "app.kubernetes.io/component";

/// A Service of a store.
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
        let Self {
            namespace,
            name,
            scheme,
            port,
            folder,
        } = self;
        format!("/api/v1/namespaces/{namespace}/services/{scheme}:{name}:{port}/proxy{folder}")
    }

    /// Namespace, name and port.
    pub(super) fn text(&self) -> String {
        let Self {
            namespace,
            name,
            port,
            ..
        } = self;
        format!("{namespace}/{name}:{port}")
    }
}

/// The only Service of a store in the cluster.
pub(super) async fn discover(cluster: &Cluster) -> Result<FoundStore, Failure> {
    let api: Api<Service> = Api::all(cluster.client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    let mut count = 0;
    loop {
        let page = api.list(&params).await;
        let page = page.map_err(|error| {
            let failure = request_failure("Services", &cluster.server, error);
            match failure {
                Failure::Other(error) => anyhow!("{error:#}: set --prometheus-address").into(),
                failure => failure,
            }
        })?;
        count += page.items.len();
        found.extend(page.items.iter().filter_map(store_of));
        params.continue_token = page.metadata.continue_;
        if params.continue_token.as_deref().unwrap_or("").is_empty() {
            return only(found);
        }
        if count > MAX_SERVICES {
            let error =
                anyhow!("there are more than {MAX_SERVICES} Services: set --prometheus-address");
            return Err(error.into());
        }
    }
}

/// The store of a Service, by its labels and ports.
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
    let known = STORES.iter().find(|it| it.labels.split(',').all(has));
    let (port, folder) = if let Some(store) = known {
        (port(ports, store.ports)?, store.folder)
    } else {
        let (key, value) = PLAIN;
        let is_plain = labels.get(key).is_some_and(|found| found == value);
        let is_plain = is_plain && !labels.contains_key(COMPONENT);
        let port = ports.iter().find(|port| PROMETHEUS.contains(&port.port));
        (port.filter(|_| is_plain)?, "")
    };
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

/// The only one; the error names several.
fn only(mut found: Vec<FoundStore>) -> Result<FoundStore, Failure> {
    found.sort();
    match found.as_slice() {
        [found] => Ok(found.clone()),
        [] => Err(anyhow!(
            "no Service of Prometheus, Thanos, Mimir or VictoriaMetrics with the usual labels: set \
             --prometheus-address"
        )
        .into()),
        several => {
            let mut names: Vec<String> = several
                .iter()
                .take(MAX_NAMED)
                .map(FoundStore::text)
                .collect();
            let more = several.len() - names.len();
            if more > 0 {
                names.push(format!("{more} more"));
            }
            Err(anyhow!(
                "several Services may be Prometheus: {}: set --prometheus-address to one of them",
                names.join(", ")
            )
            .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(labels: &[(&str, &str)], ports: &[(&str, i32)]) -> Service {
        let labels: serde_json::Map<_, _> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let ports: Vec<_> = ports
            .iter()
            .map(|(name, port)| json!({"name": name, "port": port}))
            .collect();
        let object = json!({
            "metadata": {"namespace": "monitoring", "name": "store", "labels": labels},
            "spec": {"ports": ports},
        });
        serde_json::from_value(object).expect("a Service")
    }

    fn path(labels: &[(&str, &str)], ports: &[(&str, i32)]) -> Option<String> {
        let path = store_of(&service(labels, ports))?.proxy_path();
        let place = "/api/v1/namespaces/monitoring/services/";
        Some(path.strip_prefix(place).expect("a proxy").to_owned())
    }

    #[test]
    fn stores_are_known_by_their_labels() {
        let name = "app.kubernetes.io/name";
        for (labels, ports, expected) in [
            (
                &[("app", "kube-prometheus-stack-prometheus")][..],
                &[("reloader-web", 8080), ("http-web", 9090)][..],
                Some("http:store:9090/proxy"),
            ),
            (
                &[(name, "prometheus")],
                &[("web", 9090)],
                Some("http:store:9090/proxy"),
            ),
            // The Thanos sidecar of the same chart.
            (&[(name, "prometheus")], &[("grpc", 10901)], None),
            (
                &[(name, "prometheus"), (COMPONENT, "server")],
                &[("http", 80)],
                Some("http:store:80/proxy"),
            ),
            (
                &[(name, "prometheus"), (COMPONENT, "alertmanager")],
                &[("http", 9090)],
                None,
            ),
            (
                &[("app", "prometheus-server")],
                &[("https", 443)],
                Some("https:store:443/proxy"),
            ),
            (
                &[(name, "thanos"), (COMPONENT, "query")],
                &[("grpc", 10901), ("http", 10902)],
                Some("http:store:10902/proxy"),
            ),
            (
                &[(name, "thanos"), (COMPONENT, "storegateway")],
                &[("http", 10902)],
                None,
            ),
            (
                &[(name, "mimir"), (COMPONENT, "query-frontend")],
                &[("http-metrics", 8080)],
                Some("http:store:8080/proxy/prometheus"),
            ),
            (
                &[(name, "vmselect")],
                &[("http", 8481)],
                Some("http:store:8481/proxy/select/0/prometheus"),
            ),
            (
                &[(name, "vmsingle")],
                &[("http", 8429)],
                Some("http:store:8429/proxy"),
            ),
            (
                &[("app", "prometheus-server")],
                &[("odd", 1234)],
                Some("http:store:1234/proxy"),
            ),
            (&[("app", "prometheus-server")], &[], None),
            (
                &[("app", "prometheus-node-exporter")],
                &[("metrics", 9100)],
                None,
            ),
            (&[], &[("http", 9090)], None),
        ] {
            assert_eq!(path(labels, ports).as_deref(), expected, "{labels:?}");
        }
        let mut external = service(&[("app", "prometheus-server")], &[("http", 80)]);
        let spec = external.spec.as_mut().expect("a specification");
        spec.type_ = Some("ExternalName".to_owned());
        assert_eq!(store_of(&external), None);
    }

    #[test]
    fn several_stores_are_named_with_the_flag() {
        let mut found = store_of(&service(&[("app", "prometheus-server")], &[("http", 80)]));
        let first = found.clone().expect("a store");
        let second = found.take().map(|it| FoundStore {
            name: "other".to_owned(),
            ..it
        });
        assert!(matches!(only(vec![first.clone()]), Ok(found) if found == first));
        let several = only([first].into_iter().chain(second).collect());
        let error = several.expect_err("two").to_string();
        assert_eq!(
            error,
            "several Services may be Prometheus: monitoring/other:80, monitoring/store:80: set \
             --prometheus-address to one of them"
        );
        let error = only(Vec::new()).expect_err("no store").to_string();
        assert!(error.contains("set --prometheus-address"), "{error}");
    }
}
