//! Address, credentials and trust of a store. Files are read anew for each connection.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Uri};
use kube::client::ClientBuilder;
use kube::config::AuthInfo;
use kube::{Client, Config};
use promql::Matchers;

use super::error::PrometheusError;
use crate::error_chain::with_causes;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Base URL, `http://` or `https://`, optionally with a path.
    pub address: String,
    pub credentials: Credentials,
    /// CA certificates (PEM). Without them the system's are trusted.
    pub ca_file: Option<PathBuf>,
    /// Client certificate (PEM) and its key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    pub insecure: bool,
    pub query_timeout: Duration,
    /// Headers of every request, such as the name of a tenant.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Matchers of every selector, such as that of the cluster.
    pub matchers: Matchers,
    /// Whether to use POST even for queries that fit into a URL.
    pub always_post: bool,
}

#[derive(Debug, Clone, Default)]
pub enum Credentials {
    #[default]
    None,
    Bearer(Secret),
    Basic {
        username: String,
        password: Secret,
    },
}

/// Secret that is never displayed.
#[derive(Clone)]
pub enum Secret {
    Text(String),
    /// A file with the secret. Surrounding white space is ignored.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => write!(f, "(secret)"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Secret {
    async fn read(&self) -> Result<String, PrometheusError> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::File(path) => tokio::fs::read_to_string(path).await.map_err(|error| {
                PrometheusError::SetUp(format!("cannot read {}: {error}", path.display()).into())
            })?,
        };
        Ok(text.trim().to_owned())
    }
}

impl Connection {
    /// Checks the address.
    pub fn check(&self) -> Result<(), PrometheusError> {
        self.uri().map(|_| ())
    }

    /// A client for the store, with requests below its address and with the credentials.
    pub(crate) async fn client(&self) -> Result<Client, PrometheusError> {
        let mut config = Config::new(self.uri()?);
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.default_retry = false;
        config.accept_invalid_certs = self.insecure;
        config.root_cert_file.clone_from(&self.ca_file);
        let needs_no_roots = self.insecure
            || self.ca_file.is_some()
            || config.cluster_url.scheme_str() == Some("http");
        config.root_cert = needs_no_roots.then(Vec::new);
        config.auth_info = self.identity().await?;
        let set_up = |error: kube::Error| PrometheusError::SetUp(with_causes(&error).into());
        Ok(ClientBuilder::try_from(config).map_err(set_up)?.build())
    }

    async fn identity(&self) -> Result<AuthInfo, PrometheusError> {
        let mut identity = AuthInfo::default();
        match &self.credentials {
            Credentials::None => {}
            Credentials::Bearer(token) => identity.token = Some(token.read().await?.into()),
            Credentials::Basic { username, password } => {
                identity.username = Some(username.clone());
                identity.password = Some(password.read().await?.into());
            }
        }
        if let Some((certificate, key)) = &self.client_certificate {
            identity.client_certificate = Some(certificate.display().to_string());
            identity.client_key = Some(key.display().to_string());
        }
        Ok(identity)
    }

    fn uri(&self) -> Result<Uri, PrometheusError> {
        let refuse = |why: &str| PrometheusError::SetUp(format!("{:?} {why}", self.address).into());
        let uri: Uri = self
            .address
            .parse()
            .map_err(|_| refuse("is not an address"))?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.authority().is_some() => Ok(uri),
            _ => Err(refuse(
                "is not an address that starts with http:// or https://",
            )),
        }
    }
}

/// Headers that the client sets itself.
const OWN: [HeaderName; 4] = [CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING];

/// Parses headers of the form `NAME=VALUE`.
pub(super) fn headers_of_texts(
    texts: &[String],
    credentials: &Credentials,
) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
    let pairs = texts
        .iter()
        .map(|text| text.split_once('=').context("expected NAME=VALUE"));
    headers(pairs.collect::<anyhow::Result<Vec<_>>>()?, credentials)
}

/// Parses names and values of headers. A message never contains a value, which can be a secret.
pub fn headers<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    credentials: &Credentials,
) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
    let headers = pairs.into_iter().map(|(name, value)| header(name, value));
    let headers = headers.collect::<anyhow::Result<Vec<_>>>()?;
    let is_authorized = headers.iter().any(|(name, _)| *name == AUTHORIZATION);
    ensure!(
        !is_authorized || matches!(credentials, Credentials::None),
        "authorization and a token or user name exclude each other"
    );
    Ok(headers)
}

fn header(name: &str, value: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let name = name.trim();
    let parsed = name.parse::<HeaderName>();
    let name = parsed.map_err(|_| anyhow!("{name:?} is not the name of a header"))?;
    ensure!(!OWN.contains(&name), "{name} is set by the client itself");
    let value = value.trim().parse::<HeaderValue>();
    let mut value =
        value.map_err(|_| anyhow!("the value of {name} has a character that no header has"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: bool) {
        let connection = Connection {
            address: address.to_owned(),
            ..Connection::default()
        };
        assert_eq!(connection.check().is_ok(), expected, "{address}");
    }

    #[test]
    fn addresses_name_a_scheme_and_a_host() {
        check("http://prometheus.monitoring.svc", true);
        check("https://thanos.example:9090/tenant/a/", true);
        for wrong in ["", "prometheus:9090", "/api", "ftp://prometheus"] {
            check(wrong, false);
        }
        check("http://", false);
        check("http://a b", false);
    }

    #[test]
    fn secrets_are_not_shown() {
        let credentials = Credentials::Basic {
            username: "me".to_owned(),
            password: Secret::Text("1234".to_owned()),
        };
        assert!(!format!("{credentials:?}").contains("1234"));
    }

    #[tokio::test]
    async fn a_missing_file_is_named() {
        let token = Secret::File("/nonexistent/token".into());
        let connection = Connection {
            address: "http://127.0.0.1:1".to_owned(),
            credentials: Credentials::Bearer(token),
            ..Connection::default()
        };
        let error = with_causes(&connection.client().await.map(|_| ()).expect_err("no token"));
        assert!(error.contains("/nonexistent/token"), "{error}");
    }

    /// `expected`: name and value, or a part of the error.
    fn check_header(text: &str, expected: Result<(&str, &str), &str>) {
        let found = headers_of_texts(&[text.to_owned()], &Credentials::None);
        match (found, expected) {
            (Ok(found), Ok((name, value))) => {
                assert_eq!(found[0].0, name);
                assert_eq!(found[0].1, value);
                assert!(!format!("{found:?}").contains(value), "{found:?}");
            }
            (Err(error), Err(part)) => {
                let shown = error.to_string();
                assert!(shown.contains(part) && !shown.contains("s3cret"), "{shown}");
            }
            (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn names_and_values_are_checked_and_values_never_shown() {
        check_header("X-Scope-OrgID=shop", Ok(("x-scope-orgid", "shop")));
        check_header("X-Scope-OrgID = a=b ", Ok(("x-scope-orgid", "a=b")));
        check_header(
            "Authorization=Basic abc",
            Ok(("authorization", "Basic abc")),
        );
        check_header("s3cret", Err("expected NAME=VALUE"));
        check_header("X Scope=s3cret", Err(r#""X Scope" is not the name"#));
        check_header("=s3cret", Err(r#""" is not the name"#));
        check_header(
            "X-Scope-OrgID=s3cret\u{7f}",
            Err("the value of x-scope-orgid"),
        );
        check_header(
            "X-Scope-OrgID=s3cret\nHost: a",
            Err("the value of x-scope-orgid"),
        );
        check_header("Host=s3cret", Err("host is set by the client"));
        check_header(
            "Content-Length=9",
            Err("content-length is set by the client"),
        );
    }

    #[test]
    fn one_credential_is_enough() {
        let token = Credentials::Bearer(Secret::Text("t".to_owned()));
        assert!(headers([("X-Scope-OrgID", "shop")], &token).is_ok());
        let error = headers([("Authorization", "Basic abc")], &token).expect_err("two credentials");
        assert!(error.to_string().contains("exclude each other"), "{error}");
    }
}
