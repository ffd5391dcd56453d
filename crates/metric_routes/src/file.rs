//! The routes file: upstream providers, and routes to them.
//!
//! A file is used as a whole or not at all. An error names its field, and the previous file stays
//! in use.

mod pem_source;
mod upstream;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use crate::glob::Glob;
use model::{Requirement, Selector};
pub use pem_source::{ObjectEntry, ObjectKind, ObjectRef, PemSource};
use serving::own_service::OwnService;
pub use upstream::{Kind, MAX_STALE, ServiceSpec, UpstreamSpec};

const MAX_UPSTREAMS: usize = 64;
const MAX_ROUTES: usize = 1024;

/// The label key in selectors of HPAs that KEDA creates; its value is the name of the
/// `ScaledObject`.
pub const KEDA_KEY: &str = "scaledobject.keda.sh/name";
/// The upstream that gets these requests without a route.
const KEDA: &str = "keda";
/// The prefix of metrics that Datadog's cluster agent serves for `DatadogMetric` objects; the
/// namespace, a colon and the name follow.
const DATADOG_PREFIX: &str = "datadogmetric@";
/// The upstream that gets these requests without a route.
const DATADOG: &str = "datadog";

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct File {
    pub upstreams: Vec<UpstreamSpec>,
    /// Routes; the first match counts.
    pub routes: Vec<RouteSpec>,
    /// The upstream of all other requests.
    pub default_upstream: Option<String>,
}

/// A route. A request must match all of its criteria.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteSpec {
    /// The name of the route in metrics.
    pub name: String,
    /// Patterns of namespaces; one must match.
    #[serde(default)]
    namespaces: Vec<Glob>,
    /// Patterns of metric names; one must match.
    #[serde(default)]
    metrics: Vec<Glob>,
    /// Label keys; the selector must require all of them.
    #[serde(default)]
    selector_keys: Vec<String>,
    pub upstream: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{field}: {why}")]
pub struct FileError {
    pub field: String,
    pub why: String,
}

fn refuse(field: impl Into<String>, why: impl Into<String>) -> FileError {
    FileError {
        field: field.into(),
        why: why.into(),
    }
}

fn ensure(
    holds: bool,
    field: impl Into<String>,
    why: impl FnOnce() -> String,
) -> Result<(), FileError> {
    if holds {
        Ok(())
    } else {
        Err(refuse(field, why()))
    }
}

/// A number that changes with the text of a routes file: 48 bits, which the number of a metric can
/// have.
pub fn config_hash(text: &str) -> i64 {
    (model::fnv1a(text.as_bytes()) >> 16).cast_signed()
}

impl File {
    /// Parses and validates a file. `own`: this adapter, which is not a valid upstream; `folder`:
    /// the folder of relative paths.
    pub fn read(text: &str, own: &OwnService, folder: &Path) -> Result<Self, FileError> {
        let yaml = serde_yaml_ng::Deserializer::from_str(text);
        let file: Option<Self> = serde_path_to_error::deserialize(yaml).map_err(parse_error)?;
        let mut file = file.unwrap_or_default();
        file.check(own)?;
        for upstream in &mut file.upstreams {
            upstream.resolve_paths(folder);
        }
        Ok(file)
    }

    fn check(&self, own: &OwnService) -> Result<(), FileError> {
        at_most("upstreams", self.upstreams.len(), MAX_UPSTREAMS)?;
        at_most("routes", self.routes.len(), MAX_ROUTES)?;
        let mut names = BTreeSet::new();
        for (index, upstream) in self.upstreams.iter().enumerate() {
            let field = |name: &str| format!("upstreams[{index}].{name}");
            ensure_unique(&mut names, &upstream.name, field("name"))?;
            upstream.check(own, field)?;
        }
        let ensure_defined = |name: &String, field: String| {
            let why = || format!("there is no upstream {name:?}");
            ensure(names.contains(name.as_str()), field, why)
        };
        let mut routes = BTreeSet::new();
        for (index, route) in self.routes.iter().enumerate() {
            let field = |name: &str| format!("routes[{index}].{name}");
            ensure_unique(&mut routes, &route.name, field("name"))?;
            ensure_defined(&route.upstream, field("upstream"))?;
            let has_criteria = !(route.namespaces.is_empty()
                && route.metrics.is_empty()
                && route.selector_keys.is_empty());
            let why = "namespaces, metrics or selectorKeys is required; use defaultUpstream for all other requests";
            ensure(has_criteria, format!("routes[{index}]"), || why.to_owned())?;
        }
        let mut default = self.default_upstream.iter();
        default.try_for_each(|name| ensure_defined(name, "defaultUpstream".to_owned()))
    }

    /// Returns the upstream with a route that serves the metrics of this Service.
    pub fn upstream_for(&self, service: &OwnService) -> Option<&str> {
        let routed = self.routes.iter().map(|route| &route.upstream);
        let used = routed.chain(&self.default_upstream);
        let is_used = |name: &String| {
            [KEDA, DATADOG].contains(&name.as_str()) || used.clone().any(|it| it == name)
        };
        let mut upstreams = self.upstreams.iter();
        let found = upstreams.find(|it| is_used(&it.name) && it.serves_metrics_of(service));
        found.map(|upstream| upstream.name.as_str())
    }

    /// Returns the route and the upstream of a request for a metric in a namespace.
    pub fn route_for(
        &self,
        namespace: &str,
        metric: &str,
        selector: &Selector,
    ) -> Option<(&str, &str)> {
        let matches = |route: &&RouteSpec| route.matches(namespace, metric, selector);
        if let Some(route) = self.routes.iter().find(matches) {
            return Some((&route.name, &route.upstream));
        }
        let is_defined = |name: &str| self.upstreams.iter().any(|upstream| upstream.name == name);
        if has_selector_key(selector, KEDA_KEY) && is_defined(KEDA) {
            return Some((KEDA, KEDA));
        }
        (metric.starts_with(DATADOG_PREFIX) && is_defined(DATADOG)).then_some((DATADOG, DATADOG))
    }
}

impl RouteSpec {
    fn matches(&self, namespace: &str, metric: &str, selector: &Selector) -> bool {
        let any = |globs: &[Glob], name: &str| {
            globs.is_empty() || globs.iter().any(|glob| glob.matches(name))
        };
        let mut keys = self.selector_keys.iter();
        any(&self.namespaces, namespace)
            && any(&self.metrics, metric)
            && keys.all(|key| has_selector_key(selector, key))
    }
}

/// Whether the selector requires a label.
fn has_selector_key(selector: &Selector, key: &str) -> bool {
    let mut requirements = selector.requirements().iter();
    requirements.any(|requirement| match requirement {
        Requirement::In(own, _) | Requirement::Exists(own) => own == key,
        _ => false,
    })
}

/// `serde_yaml_ng` prefixes some errors with their path, but not all.
fn parse_error(error: serde_path_to_error::Error<serde_yaml_ng::Error>) -> FileError {
    let field = error.path().to_string();
    let why = error.into_inner().to_string();
    let without = why.strip_prefix(&*field);
    let without = without.and_then(|why| why.strip_prefix(": "));
    let why = without.unwrap_or(&why).to_owned();
    refuse(field, why)
}

fn at_most(field: &str, count: usize, most: usize) -> Result<(), FileError> {
    let why = || format!("{count} entries, at most {most} are allowed");
    ensure(count <= most, field, why)
}

fn ensure_unique<'a>(
    names: &mut BTreeSet<&'a str>,
    name: &'a str,
    field: String,
) -> Result<(), FileError> {
    if name.is_empty() {
        return Err(refuse(field, "a name is required"));
    }
    ensure(names.insert(name), field, || {
        format!("{name:?} is not unique")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_KEDA: &str = "scaledobject.keda.sh/name=a";
    const FILE: &str = "
upstreams:
- name: keda
  service: {namespace: keda, name: keda-operator-metrics-apiserver}
  caFile: /etc/keda/ca.crt
- name: prometheus
  kind: aggregated
  url: https://prometheus-adapter.monitoring:6443
  serverName: prometheus-adapter.monitoring.svc
  caFile: /etc/prometheus/ca.crt
  timeout: 500ms
  maxStale: 1m
routes:
- {name: shops, namespaces: [shop, 'shop-*'], metrics: ['queue_*'], upstream: prometheus}
- {name: labelled, selectorKeys: [store, tier], upstream: prometheus}
";

    fn read(text: &str) -> Result<File, FileError> {
        let own = OwnService::new("plimsoll", "adapter");
        File::read(text, &own, Path::new("/routes"))
    }

    /// Expects the route and the upstream of a request with this namespace, metric and selector.
    fn check_route(file: &str, request: [&str; 3], expected: Option<(&str, &str)>) {
        let [namespace, metric, selector] = request;
        let file = read(file).unwrap();
        let selector = selector.parse().expect("a selector");
        let route = file.route_for(namespace, metric, &selector);
        assert_eq!(route, expected, "{request:?}");
    }

    #[test]
    fn the_first_matching_route_counts() {
        let shops = Some(("shops", "prometheus"));
        let labelled = Some(("labelled", "prometheus"));
        for (request, expected) in [
            (["shop", "queue_depth", ""], shops),
            (["shop-two", "queue_depth", OF_KEDA], shops),
            (["other", "queue_depth", ""], None),
            (["shop", "depth", ""], None),
            (["other", "depth", "store=a,tier"], labelled),
            (["other", "depth", "store=a,!tier"], None),
        ] {
            check_route(FILE, request, expected);
        }
    }

    #[test]
    fn hpas_of_keda_are_routed_to_keda() {
        let request = ["other", "s0-cron", OF_KEDA];
        check_route(FILE, request, Some(("keda", "keda")));
        let not = ["other", "s0-cron", "scaledobject.keda.sh/name!=a"];
        check_route(FILE, not, None);
        check_route("upstreams: []", request, None);
    }

    #[test]
    fn metrics_of_datadog_are_routed_to_datadog() {
        let file = "upstreams: [{name: datadog, url: 'https://a', caFile: ca}]";
        let request = ["other", "datadogmetric@shop:queue", ""];
        check_route(file, request, Some(("datadog", "datadog")));
        check_route(file, ["other", "datadogmetric", ""], None);
        check_route("upstreams: []", request, None);
    }

    #[test]
    fn relative_paths_are_resolved_in_the_folder_of_the_file() {
        let text = "upstreams: [{name: keda, kind: keda-grpc, url: 'https://a:9666', caFile: ca.crt, certFile: /b/tls.crt, keyFile: tls.key}]";
        let upstream = read(text).unwrap().upstreams.remove(0);
        let [certificate, key] = upstream.client_certificate().unwrap();
        let files = [upstream.authorities().unwrap(), certificate, key];
        let files = files.map(|file| file.to_string());
        assert_eq!(files, ["/routes/ca.crt", "/b/tls.crt", "/routes/tls.key"]);
    }

    #[test]
    fn certificates_may_be_entries_of_objects() {
        let secret = "secret: {namespace: keda, name: kedaorg-certs";
        let text = format!(
            "upstreams: [{{name: keda, kind: keda-grpc, url: 'https://a', caFrom: {{{secret}}}}}, certFrom: {{{secret}}}}}}}]"
        );
        let upstream = read(&text).unwrap().upstreams.remove(0);
        let [certificate, key] = upstream.client_certificate().unwrap();
        let entries = [upstream.authorities().unwrap(), certificate, key];
        assert_eq!(
            entries.map(|entry| entry.to_string()),
            ["ca.crt", "tls.crt", "tls.key"]
                .map(|key| format!("{key} of Secret keda/kedaorg-certs"))
        );
        let map = "configMap: {namespace: monitoring, name: ca, key: bundle.pem}";
        let text = format!("upstreams: [{{name: a, url: 'https://a', caFrom: {{{map}}}}}]");
        let upstream = read(&text).unwrap().upstreams.remove(0);
        let authorities = upstream.authorities().unwrap().to_string();
        assert_eq!(authorities, "bundle.pem of ConfigMap monitoring/ca");
    }

    #[test]
    fn each_kind_has_its_own_port() {
        for (kind, port) in [
            ("aggregated", 443),
            ("keda-grpc, certFile: a, keyFile: b", 9666),
        ] {
            let service = "{namespace: keda, name: keda-operator}";
            let text = format!(
                "upstreams: [{{name: keda, service: {service}, caFile: ca.crt, kind: {kind}}}]"
            );
            let uri = read(&text).unwrap().upstreams[0].uri().unwrap();
            assert_eq!(
                uri.to_string(),
                format!("https://keda-operator.keda.svc:{port}/")
            );
        }
    }

    #[test]
    fn a_service_is_served_by_an_upstream_with_a_route() {
        let check = |text: &str, service: &str, expected: Option<&str>| {
            let (namespace, name) = service.split_once('/').unwrap();
            let (file, service) = (read(text).unwrap(), OwnService::new(namespace, name));
            assert_eq!(file.upstream_for(&service), expected, "{text} {service}");
        };
        let keda = "keda/keda-operator-metrics-apiserver";
        check(FILE, keda, Some("keda"));
        check(FILE, "monitoring/prometheus-adapter", Some("prometheus"));
        check(FILE, "monitoring/another", None);
        let file = "upstreams: [{name: a, service: {namespace: b, name: c}, caFile: ca}]";
        check(file, "b/c", None);
        check(&format!("{file}\ndefaultUpstream: a"), "b/c", Some("a"));
        let operator = "upstreams: [{name: keda, kind: keda-grpc, service: {namespace: keda, name: keda-operator}, caFile: a, certFile: b, keyFile: c}]";
        check(operator, keda, Some("keda"));
        let elsewhere = "monitoring/keda-operator-metrics-apiserver";
        check(operator, elsewhere, None);
    }

    #[test]
    fn an_error_names_its_field() {
        let upstream = "name: a, caFile: /ca.crt, url: 'https://a:1'";
        let own = "service: {namespace: plimsoll, name: adapter}";
        let own_url = "url: 'https://Adapter.plimsoll.svc:443'";
        // The fields of the only upstream, and the error after `upstreams[0]`.
        for (fields, expected) in [
            (
                "name: a, url: 'https://a'",
                ".caFile: either caFile or caFrom is required, not both",
            ),
            (
                &format!("{upstream}, caFrom: {{secret: {{namespace: a, name: b}}}}"),
                ".caFile: either caFile or caFrom is required, not both",
            ),
            (
                "name: a, url: 'https://a', caFrom: {}",
                ".caFrom: either secret or configMap is required, not both",
            ),
            (
                "name: a, url: 'https://a', caFrom: {secret: {namespace: a, name: ''}}",
                ".caFrom: namespace, name and key must not be empty",
            ),
            (
                &format!(
                    "{upstream}, kind: keda-grpc, keyFile: /a, certFrom: {{secret: {{namespace: a, name: b}}}}"
                ),
                ".certFile: kind keda-grpc requires either",
            ),
            (
                &format!("{upstream}, kind: externalscaler"),
                ".kind: unknown variant `externalscaler`",
            ),
            (
                &format!("{upstream}, kind: keda-grpc, certFile: /tls.crt"),
                ".certFile: kind keda-grpc requires either certFile and keyFile",
            ),
            (
                &format!("{upstream}, keyFile: /tls.key"),
                ".certFile: only kind keda-grpc has a client certificate",
            ),
            (&format!("{upstream}, timeout: 5"), ".timeout: "),
            (
                &format!("{upstream}, timeout: 11s"),
                ".timeout: it must be more than 0s",
            ),
            (
                &format!("{upstream}, maxStale: 1h"),
                ".maxStale: it must be at most 10m0s",
            ),
            (
                "name: '', caFile: /ca, url: 'https://a:1'",
                ".name: a name is required",
            ),
            (
                "name: a, caFile: /ca, url: 'http://a'",
                ".url: it must begin",
            ),
            (
                "name: a, caFile: /ca, url: 'https://a/b'",
                ".url: it must have no path",
            ),
            ("name: a, caFile: /ca", ".service: either service or url"),
            (
                &format!("name: a, caFile: /ca, {own}"),
                ".service: this is the adapter itself",
            ),
            (
                &format!("name: a, caFile: /ca, {own_url}"),
                ".url: this is the adapter itself",
            ),
        ] {
            check_error(
                &format!("upstreams: [{{{fields}}}]"),
                &format!("upstreams[0]{expected}"),
            );
        }
        for (file, expected) in [
            ("routes: {}", "routes: invalid type: map"),
            ("root: []", "root: unknown field"),
            (
                &format!("upstreams: [{{{upstream}}}, {{{upstream}}}]"),
                "upstreams[1].name: \"a\" is not unique",
            ),
            (
                "routes: [{name: a, metrics: ['*'], upstream: b}]",
                "routes[0].upstream: there is no upstream \"b\"",
            ),
            (
                &format!("upstreams: [{{{upstream}}}]\nroutes: [{{name: b, upstream: a}}]"),
                "routes[0]: namespaces, metrics or selectorKeys is required",
            ),
            (
                "defaultUpstream: b",
                "defaultUpstream: there is no upstream \"b\"",
            ),
        ] {
            check_error(file, expected);
        }
    }

    fn check_error(file: &str, expected: &str) {
        let error = read(file).unwrap_err().to_string();
        assert!(
            error.starts_with(expected),
            "{error}\nfor {file}\ninstead of {expected}"
        );
    }
}
