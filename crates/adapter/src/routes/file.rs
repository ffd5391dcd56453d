//! The file that says which other providers there are, and what is left to whom.
//!
//! Read whole or not at all: a mistake is told with the place of it, and leaves the last file in use.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use runtime::GoDuration;
use serde::{Deserialize, Deserializer};

use super::glob::Glob;
use crate::ask::ExternalAsk;
use crate::registration::OwnService;
use model::Requirement;

/// The most of each.
const MOST_UPSTREAMS: usize = 64;
const MOST_ROUTES: usize = 1024;
/// The autoscaler's question is answered within two seconds; what is left is for the answer that was had before.
pub(super) const LONGEST_TIMEOUT: Duration = Duration::from_millis(1800);
/// The oldest answer that may stand in.
const LONGEST_STALE: Duration = Duration::from_mins(10);

/// The selectors of HPAs that KEDA makes have this key.
const KEDA_KEY: &str = "scaledobject.keda.sh/name";
/// The upstream that has them without a route.
const KEDA: &str = "keda";

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct File {
    /// Other providers.
    pub(super) upstreams: Vec<UpstreamSpec>,
    /// What is left to whom; the first that fits counts.
    pub(super) routes: Vec<RouteSpec>,
    /// Who has the rest; nobody without.
    pub(super) default_upstream: Option<String>,
}

/// Another provider of `external.metrics.k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UpstreamSpec {
    /// What routes call it.
    pub(super) name: String,
    /// What it speaks.
    #[serde(default)]
    pub(super) kind: Kind,
    /// Its Service; or else its address.
    pub(super) service: Option<ServiceSpec>,
    /// `https://` and host; instead of a Service.
    pub(super) url: Option<String>,
    /// The name in its certificate, if it is not that of the Service or the address.
    pub(super) server_name: Option<String>,
    /// The authorities (PEM) that its certificate comes from.
    pub(super) ca_file: PathBuf,
    /// How long an answer may take.
    #[serde(default = "timeout", deserialize_with = "duration")]
    pub(super) timeout: Duration,
    /// For how long the last answer stands in when there is none.
    #[serde(default = "max_stale", deserialize_with = "duration")]
    pub(super) max_stale: Duration,
}

/// What a provider speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// The API itself, as behind API aggregation.
    #[default]
    Aggregated,
}

/// A Service of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ServiceSpec {
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(default = "https")]
    pub(super) port: u16,
}

/// What is left to one of them. All that is given must fit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RouteSpec {
    /// What metrics about it call it.
    pub(super) name: String,
    /// Patterns of namespaces, one of which fits.
    #[serde(default)]
    namespaces: Vec<Glob>,
    /// Patterns of names of metrics, one of which fits.
    #[serde(default)]
    metrics: Vec<Glob>,
    /// Keys that the selector asks for, all of them.
    #[serde(default)]
    selector_keys: Vec<String>,
    /// Whom it is left to.
    pub(super) upstream: String,
}

fn https() -> u16 {
    443
}

fn timeout() -> Duration {
    LONGEST_TIMEOUT
}

fn max_stale() -> Duration {
    Duration::from_secs(30)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse::<GoDuration>().map(Duration::from).map_err(serde::de::Error::custom)
}

/// A field says something that cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {why}")]
pub(super) struct FileError {
    /// Where in the file.
    field: String,
    /// What is wrong with it.
    why: String,
}

fn refuse(field: impl Into<String>, why: impl Into<String>) -> FileError {
    FileError { field: field.into(), why: why.into() }
}

impl File {
    /// Reads and checks a file. `own`: this adapter, to which nothing may be left.
    pub(super) fn read(text: &str, own: &OwnService) -> Result<Self, FileError> {
        let yaml = serde_yaml_ng::Deserializer::from_str(text);
        let file: Option<Self> = serde_path_to_error::deserialize(yaml).map_err(of_another_form)?;
        let file = file.unwrap_or_default();
        file.check(own)?;
        Ok(file)
    }

    fn check(&self, own: &OwnService) -> Result<(), FileError> {
        at_most("upstreams", self.upstreams.len(), MOST_UPSTREAMS)?;
        at_most("routes", self.routes.len(), MOST_ROUTES)?;
        let mut names = BTreeSet::new();
        for (index, upstream) in self.upstreams.iter().enumerate() {
            let field = |name: &str| format!("upstreams[{index}].{name}");
            once(&mut names, &upstream.name, field("name"))?;
            upstream.check(own, field)?;
        }
        let known = |name: &String, field: String| {
            let known = names.contains(name.as_str());
            if known { Ok(()) } else { Err(refuse(field, format!("no upstream is called {name:?}"))) }
        };
        let mut routes = BTreeSet::new();
        for (index, route) in self.routes.iter().enumerate() {
            let field = |name: &str| format!("routes[{index}].{name}");
            once(&mut routes, &route.name, field("name"))?;
            known(&route.upstream, field("upstream"))?;
            if route.namespaces.is_empty() && route.metrics.is_empty() && route.selector_keys.is_empty() {
                let why = "it says neither namespaces nor metrics nor selectorKeys; for all the rest there is defaultUpstream";
                return Err(refuse(format!("routes[{index}]"), why));
            }
        }
        self.default_upstream.as_ref().map_or(Ok(()), |name| known(name, "defaultUpstream".to_owned()))
    }

    /// To whom a question is left, and by which route.
    pub(super) fn owner(&self, ask: &ExternalAsk) -> Option<(&str, &str)> {
        if let Some(route) = self.routes.iter().find(|route| route.fits(ask)) {
            return Some((&route.name, &route.upstream));
        }
        let is_kedas = asks_for(ask, KEDA_KEY) && self.upstreams.iter().any(|upstream| upstream.name == KEDA);
        is_kedas.then_some((KEDA, KEDA))
    }
}

impl UpstreamSpec {
    fn check(&self, own: &OwnService, field: impl Fn(&str) -> String) -> Result<(), FileError> {
        match (&self.service, &self.url) {
            (Some(service), None) => {
                if (&service.namespace, &service.name) == (&own.namespace, &own.name) {
                    return Err(refuse(field("service"), "this is the adapter itself"));
                }
            }
            (None, Some(url)) => {
                let uri: Uri = url.parse().map_err(|_| refuse(field("url"), format!("{url:?} is no address")))?;
                let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
                let Some(host) = host else {
                    return Err(refuse(field("url"), "it does not begin with https:// and a host"));
                };
                if uri.path_and_query().is_some_and(|path| path != "/") {
                    return Err(refuse(field("url"), "there may be no path in it"));
                }
                if own.names().iter().any(|name| host.trim_end_matches('.').eq_ignore_ascii_case(name)) {
                    return Err(refuse(field("url"), "this is the adapter itself"));
                }
            }
            _ => return Err(refuse(field("service"), "either service or url is needed, and not both")),
        }
        if self.timeout.is_zero() || self.timeout > LONGEST_TIMEOUT {
            let why = format!("it must be more than 0s and at most {}", GoDuration(LONGEST_TIMEOUT));
            return Err(refuse(field("timeout"), why));
        }
        if self.max_stale > LONGEST_STALE {
            return Err(refuse(field("maxStale"), format!("it must be at most {}", GoDuration(LONGEST_STALE))));
        }
        self.uri().map(drop).map_err(|why| refuse(field("service"), why))
    }

    /// Where it is.
    pub(super) fn uri(&self) -> Result<Uri, String> {
        let text = match (&self.service, &self.url) {
            (Some(ServiceSpec { namespace, name, port }), _) => format!("https://{name}.{namespace}.svc:{port}"),
            (None, url) => url.clone().unwrap_or_default(),
        };
        text.parse().map_err(|_| format!("{text:?} is no address"))
    }

    /// The name that its certificate must have.
    pub(super) fn server_name(&self) -> Result<String, String> {
        if let Some(name) = &self.server_name {
            return Ok(name.clone());
        }
        let uri = self.uri()?;
        // An address of version 6 has no brackets in a certificate.
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        Ok(host.to_owned())
    }
}

impl RouteSpec {
    fn fits(&self, ask: &ExternalAsk) -> bool {
        let one = |globs: &[Glob], name: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches(name));
        one(&self.namespaces, &ask.namespace)
            && one(&self.metrics, &ask.metric)
            && self.selector_keys.iter().all(|key| asks_for(ask, key))
    }
}

/// Whether the selector wants a label to be there.
fn asks_for(ask: &ExternalAsk, key: &str) -> bool {
    ask.selector.requirements().iter().any(|requirement| match requirement {
        Requirement::In(own, _) | Requirement::Exists(own) => own == key,
        _ => false,
    })
}

/// The reader of YAML names the place of some errors, but not of all.
fn of_another_form(error: serde_path_to_error::Error<serde_yaml_ng::Error>) -> FileError {
    let field = error.path().to_string();
    let why = error.into_inner().to_string();
    let without = why.strip_prefix(&*field).and_then(|why| why.strip_prefix(": ")).map(str::to_owned);
    refuse(field, without.unwrap_or(why))
}

fn at_most(field: &str, count: usize, most: usize) -> Result<(), FileError> {
    if count > most { Err(refuse(field, format!("there are {count}, at most {most} are possible"))) } else { Ok(()) }
}

fn once<'a>(names: &mut BTreeSet<&'a str>, name: &'a str, field: String) -> Result<(), FileError> {
    if name.is_empty() {
        return Err(refuse(field, "a name is needed"));
    }
    if names.insert(name) { Ok(()) } else { Err(refuse(field, format!("{name:?} is there twice"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn own() -> OwnService {
        OwnService { namespace: "plimsoll".to_owned(), name: "adapter".to_owned() }
    }

    fn check_owner(file: &str, namespace: &str, metric: &str, selector: &str, expected: Option<(&str, &str)>) {
        let file = File::read(file, &own()).unwrap();
        let selector = selector.parse().unwrap();
        let ask = ExternalAsk { namespace: namespace.to_owned(), metric: metric.to_owned(), selector };
        assert_eq!(file.owner(&ask), expected, "{ask:?}");
    }

    #[test]
    fn the_first_route_that_fits_counts() {
        let shops = Some(("shops", "prometheus"));
        check_owner(FILE, "shop", "queue_depth", "", shops);
        check_owner(FILE, "shop-two", "queue_depth", "scaledobject.keda.sh/name=a", shops);
        check_owner(FILE, "other", "queue_depth", "", None);
        check_owner(FILE, "shop", "depth", "", None);
        check_owner(FILE, "other", "depth", "store=a,tier", Some(("labelled", "prometheus")));
        check_owner(FILE, "other", "depth", "store=a,!tier", None);
    }

    #[test]
    fn what_keda_made_is_kedas() {
        check_owner(FILE, "other", "s0-cron", "scaledobject.keda.sh/name=a", Some(("keda", "keda")));
        check_owner(FILE, "other", "s0-cron", "scaledobject.keda.sh/name!=a", None);
        check_owner("upstreams: []", "other", "s0-cron", "scaledobject.keda.sh/name=a", None);
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let upstream = "caFile: /ca.crt, url: 'https://a:1'";
        for (file, expected) in [
            ("routes: {}".to_owned(), "routes: invalid type: map"),
            ("root: []".to_owned(), "root: unknown field"),
            ("upstreams: [{name: a, url: 'https://a'}]".to_owned(), "upstreams[0]: missing field `caFile`"),
            (
                format!("upstreams: [{{name: a, {upstream}, kind: keda-grpc}}]"),
                "upstreams[0].kind: unknown variant `keda-grpc`",
            ),
            (format!("upstreams: [{{name: a, {upstream}, timeout: 5}}]"), "upstreams[0].timeout: "),
            (
                format!("upstreams: [{{name: a, {upstream}, timeout: 5s}}]"),
                "upstreams[0].timeout: it must be more than 0s",
            ),
            (
                format!("upstreams: [{{name: a, {upstream}, maxStale: 1h}}]"),
                "upstreams[0].maxStale: it must be at most 10m0s",
            ),
            (format!("upstreams: [{{name: '', {upstream}}}]"), "upstreams[0].name: a name is needed"),
            (
                format!("upstreams: [{{name: a, {upstream}}}, {{name: a, {upstream}}}]"),
                "upstreams[1].name: \"a\" is there twice",
            ),
            ("upstreams: [{name: a, caFile: /ca, url: 'http://a'}]".to_owned(), "upstreams[0].url: it does not begin"),
            (
                "upstreams: [{name: a, caFile: /ca, url: 'https://a/b'}]".to_owned(),
                "upstreams[0].url: there may be no path",
            ),
            ("upstreams: [{name: a, caFile: /ca}]".to_owned(), "upstreams[0].service: either service or url"),
            (
                "upstreams: [{name: a, caFile: /ca, service: {namespace: plimsoll, name: adapter}}]".to_owned(),
                "upstreams[0].service: this is the adapter itself",
            ),
            (
                "upstreams: [{name: a, caFile: /ca, url: 'https://Adapter.plimsoll.svc:443'}]".to_owned(),
                "upstreams[0].url: this is the adapter itself",
            ),
            (
                "routes: [{name: a, metrics: ['*'], upstream: b}]".to_owned(),
                "routes[0].upstream: no upstream is called \"b\"",
            ),
            (
                format!("upstreams: [{{name: b, {upstream}}}]\nroutes: [{{name: a, upstream: b}}]"),
                "routes[0]: it says neither",
            ),
            ("defaultUpstream: b".to_owned(), "defaultUpstream: no upstream is called \"b\""),
        ] {
            let error = File::read(&file, &own()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\nfor {file}\ninstead of {expected}");
        }
    }
}
