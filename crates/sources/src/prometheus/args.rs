//! Flags of the connection to Prometheus, or to another store with its API: VPA's names, with
//! prometheus-adapter's as aliases.

use std::path::PathBuf;

use anyhow::Context as _;
use runtime::GoDuration;
use runtime::duration::positive_duration;

use super::connection::headers_of_texts;
use super::{Connection, Credentials, Matchers, Secret};

/// Flags of the connection to Prometheus, with a default address.
#[derive(Debug, Clone, clap::Args)]
pub struct PrometheusArgs {
    /// Address of Prometheus or of another store with its API.
    #[arg(
        long,
        alias = "prometheus-url",
        default_value = "http://prometheus.monitoring.svc",
        value_name = "URL"
    )]
    pub prometheus_address: String,
    #[command(flatten)]
    pub client: PrometheusClientArgs,
}

/// Flags of the connection to Prometheus, wherever it is.
#[derive(Debug, Clone, clap::Args)]
pub struct PrometheusClientArgs {
    /// Skip the verification of Prometheus's certificate.
    #[arg(long)]
    pub prometheus_insecure: bool,
    /// CA certificates (PEM) of Prometheus. Without them the system's are trusted.
    #[arg(long, value_name = "FILE")]
    pub prometheus_ca_file: Option<PathBuf>,
    /// Client certificate (PEM) for Prometheus. Needs --prometheus-client-key-file.
    #[arg(
        long,
        alias = "prometheus-client-tls-cert-file",
        value_name = "FILE",
        requires = "prometheus_client_key_file"
    )]
    pub prometheus_client_cert_file: Option<PathBuf>,
    /// Private key (PEM) of --prometheus-client-cert-file.
    #[arg(
        long,
        alias = "prometheus-client-tls-key-file",
        value_name = "FILE",
        requires = "prometheus_client_cert_file"
    )]
    pub prometheus_client_key_file: Option<PathBuf>,
    /// Timeout of one query.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = positive_duration)]
    pub prometheus_query_timeout: GoDuration,
    /// File with the bearer token for Prometheus, read for each connection. Takes precedence over a
    /// user name.
    #[arg(
        long,
        alias = "prometheus-token-file",
        default_value = "",
        value_name = "FILE"
    )]
    pub prometheus_bearer_token_file: String,
    /// User name for Prometheus.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub username: String,
    /// File with the password of --username, read for each connection.
    #[arg(long, default_value = "", value_name = "FILE")]
    pub password_file: String,
    /// Header of requests to Prometheus, as NAME=VALUE, such as the tenant. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", hide_env_values = true)]
    pub prometheus_header: Vec<String>,
    /// Label matchers, separated by commas, that every selector of every query gets, such as
    /// cluster="prod-17". Needed if the store has several clusters.
    #[arg(long, default_value = "", value_name = "MATCHERS")]
    pub prometheus_matchers: Matchers,
}

impl PrometheusArgs {
    /// The connection. A token and a password, if any, take precedence over those in files.
    pub fn connection(
        self,
        token: Option<Secret>,
        password: Option<Secret>,
    ) -> anyhow::Result<Connection> {
        let connection = self
            .client
            .connection(self.prometheus_address, token, password)?;
        connection.check().context("--prometheus-address")?;
        Ok(connection)
    }
}

impl PrometheusClientArgs {
    /// The connection to an address, which is not checked.
    pub fn connection(
        self,
        address: String,
        token: Option<Secret>,
        password: Option<Secret>,
    ) -> anyhow::Result<Connection> {
        let file = |path: String| (!path.is_empty()).then(|| Secret::File(path.into()));
        let token = token.or_else(|| file(self.prometheus_bearer_token_file));
        let password = password.or_else(|| file(self.password_file));
        let credentials = match token {
            Some(token) => Credentials::Bearer(token),
            None if self.username.is_empty() => Credentials::None,
            None => Credentials::Basic {
                username: self.username,
                password: password.unwrap_or(Secret::Text(String::new())),
            },
        };
        let headers = headers_of_texts(&self.prometheus_header, &credentials);
        Ok(Connection {
            address,
            credentials,
            ca_file: self.prometheus_ca_file,
            client_certificate: self
                .prometheus_client_cert_file
                .zip(self.prometheus_client_key_file),
            insecure: self.prometheus_insecure,
            query_timeout: self.prometheus_query_timeout.0,
            headers: headers.context("--prometheus-header")?,
            matchers: self.prometheus_matchers,
            always_post: false,
        })
    }
}
