//! The entry of one provider (`upstreams`) in the routes file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use runtime::GoDuration;
use serde::{Deserialize, Deserializer};

use super::pem_source::{self, CaFrom, CertFrom, PemSource};
use super::{FileError, refuse};
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
    /// The protocol.
    #[serde(default)]
    pub kind: Kind,
    /// The Service of the provider; an alternative to `url`.
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
    /// The timeout of a request.
    #[serde(default = "timeout", deserialize_with = "duration")]
    pub timeout: Duration,
    /// The time for which the last response replaces a missing one.
    #[serde(default = "max_stale", deserialize_with = "duration")]
    pub max_stale: Duration,
}

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The API `external.metrics.k8s.io`, as behind API aggregation.
    #[default]
    Aggregated,
    /// The gRPC service that KEDA's operator has for KEDA's own provider.
    KedaGrpc,
}

/// A Service of the cluster.
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
        .map(Duration::from)
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
                let uri: Uri = url
                    .parse()
                    .map_err(|_| refuse(field("url"), format!("{url:?} is not a URL")))?;
                let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
                let Some(host) = host else {
                    return Err(refuse(
                        field("url"),
                        "it must begin with https:// and a host",
                    ));
                };
                if uri.path_and_query().is_some_and(|path| path != "/") {
                    return Err(refuse(field("url"), "it must have no path"));
                }
                if own
                    .names()
                    .iter()
                    .any(|name| host.trim_end_matches('.').eq_ignore_ascii_case(name))
                {
                    return Err(refuse(field("url"), "this is the adapter itself"));
                }
            }
            _ => {
                return Err(refuse(
                    field("service"),
                    "either service or url is required, not both",
                ));
            }
        }
        self.check_certificates(&field)?;
        if self.timeout.is_zero() || self.timeout > MAX_TIMEOUT {
            let why = format!(
                "it must be more than 0s and at most {}",
                GoDuration(MAX_TIMEOUT)
            );
            return Err(refuse(field("timeout"), why));
        }
        if self.max_stale > MAX_STALE {
            return Err(refuse(
                field("maxStale"),
                format!("it must be at most {}", GoDuration(MAX_STALE)),
            ));
        }
        self.uri()
            .map(drop)
            .map_err(|why| refuse(field("service"), why))
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

    /// The source of the CA bundle, which a valid file has.
    pub fn authorities(&self) -> Option<PemSource> {
        pem_source::authorities(self.ca_file.as_ref(), self.ca_from.as_ref())
    }

    /// The sources of the client certificate and its key, for KEDA's operator.
    pub fn client_certificate(&self) -> Option<[PemSource; 2]> {
        let files = (self.cert_file.as_ref(), self.key_file.as_ref());
        pem_source::client_certificate(files, self.cert_from.as_ref())
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

    /// Returns the address of the provider.
    pub fn uri(&self) -> Result<Uri, String> {
        let text = match (&self.service, &self.url) {
            (
                Some(ServiceSpec {
                    namespace,
                    name,
                    port,
                }),
                _,
            ) => {
                format!(
                    "https://{name}.{namespace}.svc:{}",
                    port.unwrap_or(self.kind.port())
                )
            }
            (None, url) => url.clone().unwrap_or_default(),
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
