//! Connection to Prometheus in a file of settings. Its fields are those of `http_config` in Prometheus'
//! own configuration, in camel case.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use runtime::GoDuration;
use runtime::config_file::{from_text, parsed_by};
use runtime::duration::positive_duration;
use serde::{Deserialize, Deserializer};

use super::connection::headers;
use super::{Connection, Credentials, Matchers, Secret};

/// The setting `prometheus`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PrometheusClient {
    /// Address of Prometheus or of another store with its API.
    address: String,
    /// Timeout of one query, at least 100ms.
    #[serde(deserialize_with = "query_timeout")]
    query_timeout: GoDuration,
    basic_auth: Option<BasicAuth>,
    authorization: Option<Authorization>,
    tls_config: TlsConfig,
    /// Values of headers of every request, by name, such as the tenant.
    http_headers: BTreeMap<String, HeaderValues>,
    /// Label matchers, separated by commas, that every selector of every query gets, such as
    /// `cluster="prod-17"`. Needed if the store has several clusters.
    #[serde(deserialize_with = "from_text")]
    matchers: Matchers,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BasicAuth {
    username: String,
    /// File with the password, read for each connection.
    password_file: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Authorization {
    /// File with the bearer token, read for each connection.
    credentials_file: PathBuf,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TlsConfig {
    /// CA certificates (PEM). Without them the system's are trusted.
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    insecure_skip_verify: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderValues {
    values: Vec<String>,
}

fn query_timeout<'de, D: Deserializer<'de>>(text: D) -> Result<GoDuration, D::Error> {
    parsed_by(positive_duration, text)
}

impl Default for PrometheusClient {
    fn default() -> Self {
        Self {
            address: "http://prometheus.monitoring.svc".to_owned(),
            query_timeout: GoDuration(Duration::from_secs(10)),
            basic_auth: None,
            authorization: None,
            tls_config: TlsConfig::default(),
            http_headers: BTreeMap::new(),
            matchers: Matchers::default(),
        }
    }
}

impl PrometheusClient {
    /// The connection. Errors name the field.
    pub fn connection(self) -> anyhow::Result<Connection> {
        let credentials = match (self.basic_auth, self.authorization) {
            (None, None) => Credentials::None,
            (Some(basic), None) => Credentials::Basic {
                username: basic.username,
                password: Secret::File(basic.password_file),
            },
            (None, Some(bearer)) => Credentials::Bearer(Secret::File(bearer.credentials_file)),
            _ => bail!("prometheus: basicAuth and authorization exclude each other"),
        };
        let tls = self.tls_config;
        let client_certificate = match (tls.cert_file, tls.key_file) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => bail!("prometheus.tlsConfig: certFile and keyFile need each other"),
        };
        let lines = self.http_headers.iter().flat_map(|(name, header)| {
            let values = header.values.iter();
            values.map(move |value| (name.as_str(), value.as_str()))
        });
        let connection = Connection {
            address: self.address,
            headers: headers(lines, &credentials).context("prometheus.httpHeaders")?,
            credentials,
            ca_file: tls.ca_file,
            client_certificate,
            insecure: tls.insecure_skip_verify,
            query_timeout: self.query_timeout.0,
            matchers: self.matchers,
            always_post: false,
        };
        connection.check().context("prometheus.address")?;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use runtime::config_file;

    use super::*;

    fn connection(fields: &str) -> Result<Connection, String> {
        let client = config_file::parse::<PrometheusClient>(&[fields]);
        let connection = client.and_then(PrometheusClient::connection);
        connection.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn each_field_reaches_the_connection() {
        for (fields, expected) in [
            ("{}", r#"address: "http://prometheus.monitoring.svc""#),
            ("{}", "query_timeout: 10s"),
            ("address: https://p:1/x", r#"address: "https://p:1/x""#),
            ("queryTimeout: 5s", "query_timeout: 5s"),
            (
                "authorization: {credentialsFile: /t}",
                "credentials: Bearer(/t)",
            ),
            (
                "basicAuth: {username: u, passwordFile: /p}",
                r#"credentials: Basic { username: "u", password: /p }"#,
            ),
            ("tlsConfig: {caFile: /ca}", r#"ca_file: Some("/ca")"#),
            (
                "tlsConfig: {certFile: /c, keyFile: /k}",
                r#"client_certificate: Some(("/c", "/k"))"#,
            ),
            ("tlsConfig: {insecureSkipVerify: true}", "insecure: true"),
            ("matchers: 'cluster=\"a\"'", r#"texts: ["cluster=\"a\""]"#),
            (
                "httpHeaders: {X-Scope-OrgID: {values: [shop, a=b]}}",
                r#"headers: [("x-scope-orgid", Sensitive), ("x-scope-orgid", Sensitive)]"#,
            ),
        ] {
            let shown = format!("{:?}", connection(fields).expect(fields));
            assert!(shown.contains(expected), "{fields}: {shown}");
        }
    }

    #[test]
    fn invalid_fields_are_named() {
        let both =
            "{basicAuth: {username: u, passwordFile: /p}, authorization: {credentialsFile: /t}}";
        let two =
            "{authorization: {credentialsFile: /t}, httpHeaders: {Authorization: {values: [x]}}}";
        for (fields, expected) in [
            ("address: prometheus:9090", "prometheus.address: "),
            ("queryTimeout: 0s", "queryTimeout: must be at least 100ms"),
            (both, "basicAuth and authorization exclude each other"),
            (two, "prometheus.httpHeaders: authorization and"),
            (
                "httpHeaders: {a=b: {values: [x]}}",
                r#"httpHeaders: "a=b" is not"#,
            ),
            (
                "httpHeaders: {A: {files: [x]}}",
                "httpHeaders.A.files: unknown field",
            ),
            ("matchers: prod", "matchers: character 5: expected ="),
            (
                "basicAuth: {username: u}",
                "basicAuth: missing field `passwordFile`",
            ),
            (
                "basicAuth: {password: p}",
                "basicAuth.password: unknown field",
            ),
            (
                "tlsConfig: {certFile: /c}",
                "tlsConfig: certFile and keyFile",
            ),
            (
                "tlsConfig: {serverName: a}",
                "tlsConfig.serverName: unknown field",
            ),
            ("basic_auth: {}", "basic_auth: unknown field"),
        ] {
            let error = connection(fields).expect_err(fields);
            assert!(error.contains(expected), "{fields}: {error}");
        }
    }
}
