//! The entry of one provider (`upstreams`) in the routes file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use runtime::GoDuration;
use serde::{Deserialize, Deserializer};

use super::pem_source::{CaFrom, CertFrom, PemSource};
use super::{FileError, ensure, refuse};
use serving::own_service::OwnService;

/// The longest timeout, and the default. Requests to the adapter do not wait for it: the next one
/// finds the response.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);
/// The oldest response that may replace a missing one.
pub const MAX_STALE: Duration = Duration::from_mins(10);

/// Another provider of `external.metrics.k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpstreamSpec {
    pub name: String,
    #[serde(default)]
    pub kind: Kind,
    pub service: Option<ServiceSpec>,
    /// The address of the provider, as `https://HOST`; an alternative to `service`.
    pub url: Option<String>,
    /// The name in the provider's certificate. Default: the host.
    pub server_name: Option<String>,
    /// The CA bundle (PEM) of the provider's certificate; an alternative to `ca_from`.
    ca_file: Option<PathBuf>,
    /// The object with the CA bundle, which is followed; an alternative to `ca_file`.
    ca_from: Option<CaFrom>,
    /// The client certificate (PEM), for KEDA's operator only.
    cert_file: Option<PathBuf>,
    /// The private key (PEM) of the client certificate.
    key_file: Option<PathBuf>,
    /// The Secret with the client certificate, which is followed; an alternative to both files.
    cert_from: Option<CertFrom>,
    #[serde(default = "timeout", deserialize_with = "duration")]
    pub timeout: Duration,
    /// The time for which the last response replaces a missing one.
    #[serde(default = "max_stale", deserialize_with = "duration")]
    pub max_stale: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The API `external.metrics.k8s.io`, as behind API aggregation.
    #[default]
    Aggregated,
    /// The gRPC service that KEDA's operator has for KEDA's own provider.
    KedaGrpc,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceSpec {
    pub namespace: String,
    pub name: String,
    /// Its port. Default: the port of the kind.
    pub port: Option<u16>,
}

fn timeout() -> Duration {
    MAX_TIMEOUT
}

fn max_stale() -> Duration {
    Duration::from_secs(30)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse::<GoDuration>()
        .map(|duration| duration.0)
        .map_err(serde::de::Error::custom)
}

impl UpstreamSpec {
    pub(super) fn check(
        &self,
        own: &OwnService,
        field: impl Fn(&str) -> String,
    ) -> Result<(), FileError> {
        match (&self.service, &self.url) {
            (Some(service), None) => {
                if (&service.namespace, &service.name) == (&own.namespace, &own.name) {
                    return Err(refuse(field("service"), "this is the adapter itself"));
                }
            }
            (None, Some(url)) => {
                let wrong = |why: &str| refuse(field("url"), why);
                let uri = url.parse::<Uri>();
                let uri = uri.map_err(|_| wrong(&format!("{url:?} is not a URL")))?;
                let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
                let host = host.ok_or_else(|| wrong("it must begin with https:// and a host"))?;
                if uri.path_and_query().is_some_and(|path| path != "/") {
                    return Err(wrong("it must have no path"));
                }
                let host = host.trim_end_matches('.');
                if own
                    .names()
                    .iter()
                    .any(|name| host.eq_ignore_ascii_case(name))
                {
                    return Err(wrong("this is the adapter itself"));
                }
            }
            _ => {
                let why = "either service or url is required, not both";
                return Err(refuse(field("service"), why));
            }
        }
        self.check_certificates(&field)?;
        let is_valid = !self.timeout.is_zero() && self.timeout <= MAX_TIMEOUT;
        let most = GoDuration(MAX_TIMEOUT);
        let why = || format!("it must be more than 0s and at most {most}");
        ensure(is_valid, field("timeout"), why)?;
        let most = GoDuration(MAX_STALE);
        let why = || format!("it must be at most {most}");
        ensure(self.max_stale <= MAX_STALE, field("maxStale"), why)?;
        let uri = self.uri().map(drop);
        uri.map_err(|why| refuse(field("service"), why))
    }

    fn check_certificates(&self, field: &impl Fn(&str) -> String) -> Result<(), FileError> {
        if let Some(from) = &self.ca_from {
            from.check(&field("caFrom"))?;
        }
        if let Some(from) = &self.cert_from {
            from.check(&field("certFrom"))?;
        }
        if self.authorities().is_none() {
            let why = "either caFile or caFrom is required, not both";
            return Err(refuse(field("caFile"), why));
        }
        let has_none =
            self.cert_file.is_none() && self.key_file.is_none() && self.cert_from.is_none();
        match self.kind {
            Kind::Aggregated if !has_none => {
                let why = "only kind keda-grpc has a client certificate";
                Err(refuse(field("certFile"), why))
            }
            Kind::KedaGrpc if self.client_certificate().is_none() => {
                let why = "kind keda-grpc requires either certFile and keyFile, or certFrom";
                Err(refuse(field("certFile"), why))
            }
            Kind::Aggregated | Kind::KedaGrpc => Ok(()),
        }
    }

    /// The source of the CA bundle, which a valid file has. `None` unless exactly one of the fields
    /// is there.
    pub fn authorities(&self) -> Option<PemSource> {
        match (&self.ca_file, &self.ca_from) {
            (Some(file), None) => Some(PemSource::File(file.clone())),
            (None, Some(from)) => from.entry().map(PemSource::Entry),
            _ => None,
        }
    }

    /// The sources of the client certificate and its key, for KEDA's operator. `None` unless exactly
    /// one of both ways is there.
    pub fn client_certificate(&self) -> Option<[PemSource; 2]> {
        match (&self.cert_file, &self.key_file, &self.cert_from) {
            (Some(certificate), Some(key), None) => {
                Some([certificate, key].map(|path| PemSource::File(path.clone())))
            }
            (None, None, Some(from)) => {
                Some(["tls.crt", "tls.key"].map(|key| PemSource::Entry(from.entry(key))))
            }
            _ => None,
        }
    }

    /// Resolves relative paths in this folder.
    pub(super) fn resolve_paths(&mut self, folder: &Path) {
        let Self {
            ca_file,
            cert_file,
            key_file,
            ..
        } = self;
        for path in [ca_file, cert_file, key_file].into_iter().flatten() {
            // `join` keeps an absolute path.
            *path = folder.join(&path);
        }
    }

    pub fn uri(&self) -> Result<Uri, String> {
        let text = match &self.service {
            Some(service) => {
                let port = service.port.unwrap_or(self.kind.port());
                format!("https://{}.{}.svc:{port}", service.name, service.namespace)
            }
            None => self.url.clone().unwrap_or_default(),
        };
        text.parse().map_err(|_| format!("{text:?} is not a URL"))
    }

    /// Whether the upstream serves the metrics of this Service: it is that Service, or KEDA's
    /// operator in its namespace.
    pub(super) fn serves_metrics_of(&self, service: &OwnService) -> bool {
        let Ok(name) = self.server_name() else {
            return false;
        };
        let is_near = || name.ends_with(&format!(".{}.svc", service.namespace));
        service.names().contains(&name) || self.kind == Kind::KedaGrpc && is_near()
    }

    /// Returns the name that the provider's certificate must have.
    pub fn server_name(&self) -> Result<String, String> {
        if let Some(name) = &self.server_name {
            return Ok(name.clone());
        }
        let uri = self.uri()?;
        // In a certificate, an IPv6 address has no brackets.
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        Ok(host.to_owned())
    }
}

impl Kind {
    fn port(self) -> u16 {
        match self {
            Self::Aggregated => 443,
            Self::KedaGrpc => 9666,
        }
    }
}
