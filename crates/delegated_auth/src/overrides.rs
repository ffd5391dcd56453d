//! Flags and files that override the authentication configuration of the cluster.
//!
//! Source: `DelegatingAuthenticationOptions` of
//! `k8s.io/apiserver/pkg/server/options/authentication.go`. As there, each CA file overrides its own
//! part only: with a front proxy CA file, all front proxy entries come from flags, and the client CA
//! is still looked up.

use std::path::{Path, PathBuf};

use crate::config::{AuthenticationConfig, CLIENT_CA, ConfigError, Entries, FRONT_PROXY_CA};

/// The prefix of the keys of front proxy entries.
pub(crate) const FRONT_PROXY_PREFIX: &str = "requestheader-";

/// Flags that override the authentication configuration of the cluster.
#[derive(Debug, Clone, clap::Args)]
pub struct OverrideArgs {
    /// CA bundle (PEM) of client certificates. Default: the bundle that the API server publishes.
    /// Reloaded when it changes.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// CA bundle (PEM) of front proxies, whose request headers name the user. Default: the front
    /// proxy settings that the API server publishes; the other --requestheader flags are then
    /// ignored. Reloaded when it changes.
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that front proxy certificates may have, separated by commas. Empty allows any.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "")]
    pub requestheader_allowed_names: Vec<String>,
    /// Request headers with the user name.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "x-remote-user"
    )]
    pub requestheader_username_headers: Vec<String>,
    /// Request headers with the user's unique identifier.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "")]
    pub requestheader_uid_headers: Vec<String>,
    /// Request headers with the user's groups.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "x-remote-group"
    )]
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of request headers with extra attributes of the user.
    #[arg(
        long,
        value_name = "PREFIXES",
        value_delimiter = ',',
        default_value = "x-remote-extra-"
    )]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Do not look up missing authentication settings in the cluster.
    #[arg(long)]
    pub authentication_skip_lookup: bool,
    /// Start even if `extension-apiserver-authentication` cannot be read. Until it can, every caller
    /// is anonymous.
    #[arg(long)]
    pub authentication_tolerate_lookup_failure: bool,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: cannot read {path}: {error}", path = .path.display())]
pub(crate) struct ReadError {
    flag: &'static str,
    path: PathBuf,
    error: std::io::Error,
}

/// The reason that the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OverridesError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The key of the entry is the name of the flag.
    #[error("--{0}")]
    Config(ConfigError),
}

impl OverrideArgs {
    /// Returns the front proxy entries other than the CA bundle.
    fn front_proxy_entries(&self) -> Entries {
        let lists = [
            ("allowed-names", &self.requestheader_allowed_names),
            ("username-headers", &self.requestheader_username_headers),
            ("uid-headers", &self.requestheader_uid_headers),
            ("group-headers", &self.requestheader_group_headers),
            (
                "extra-headers-prefix",
                &self.requestheader_extra_headers_prefix,
            ),
        ];
        let entry = |(key, list): (&str, &Vec<String>)| {
            // An empty flag is a list of one empty name, and means an empty list.
            let names: Vec<_> = list.iter().filter(|name| !name.is_empty()).collect();
            let key = format!("{FRONT_PROXY_PREFIX}{key}");
            (key, serde_json::json!(names).to_string())
        };
        lists.map(entry).into()
    }

    /// Whether a part of the configuration is looked up in the cluster.
    pub(crate) fn needs_lookup(&self) -> bool {
        let has_all = self.client_ca_file.is_some() && self.requestheader_client_ca_file.is_some();
        !self.authentication_skip_lookup && !has_all
    }

    pub(crate) fn has_files(&self) -> bool {
        self.client_ca_file.is_some() || self.requestheader_client_ca_file.is_some()
    }

    /// Returns the entries of the files.
    pub(crate) async fn read(&self) -> Result<Entries, ReadError> {
        let mut entries = Entries::new();
        if let Some(path) = &self.client_ca_file {
            entries.insert(CLIENT_CA.to_owned(), read(CLIENT_CA, path).await?);
        }
        if let Some(path) = &self.requestheader_client_ca_file {
            entries.extend(self.front_proxy_entries());
            entries.insert(FRONT_PROXY_CA.to_owned(), read(FRONT_PROXY_CA, path).await?);
        }
        Ok(entries)
    }

    /// Returns the entries of the files, which must be valid at the start.
    pub(crate) async fn load(&self) -> Result<Entries, OverridesError> {
        let entries = self.read().await?;
        AuthenticationConfig::parse(entries.clone(), 0).map_err(OverridesError::Config)?;
        Ok(entries)
    }

    /// Merges the entries of the cluster with those of the files, which take precedence.
    pub(crate) fn merge(&self, cluster: &Entries, files: &Entries) -> Entries {
        let is_overridden = |key: &str| {
            self.client_ca_file.is_some() && key == CLIENT_CA
                || self.requestheader_client_ca_file.is_some()
                    && key.starts_with(FRONT_PROXY_PREFIX)
        };
        let mut merged = cluster.clone();
        merged.retain(|key, _| !is_overridden(key));
        merged.extend(files.clone());
        merged
    }
}

/// Rejects an empty file, which may be in the middle of a write.
async fn read(flag: &'static str, path: &Path) -> Result<String, ReadError> {
    let text = match tokio::fs::read_to_string(path).await {
        Ok(text) if text.trim().is_empty() => Err(std::io::Error::other("it is empty")),
        read => read,
    };
    text.map_err(|error| ReadError {
        flag,
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        overrides: OverrideArgs,
    }

    fn parse(words: &[&str]) -> OverrideArgs {
        Flags::parse_from(std::iter::once(&"adapter").chain(words)).overrides
    }

    /// `expected`: the merged entries of the `ConfigMap` and of files.
    fn check(words: &[&str], expected: &[&str]) {
        let overrides = parse(words);
        let (names, uids) = ("requestheader-allowed-names", "requestheader-uid-headers");
        let keys = [CLIENT_CA, FRONT_PROXY_CA, names, uids, "other"];
        let data = |from: &str| {
            keys.map(|key| (key.to_owned(), format!("{key} {from}")))
                .into()
        };
        let mut files: Entries = data("file");
        files.retain(|key, _| {
            overrides.client_ca_file.is_some() && key == CLIENT_CA
                || overrides.requestheader_client_ca_file.is_some()
                    && [FRONT_PROXY_CA, names].contains(&key.as_str())
        });
        let merged = overrides.merge(&data("map"), &files);
        let texts: Vec<String> = merged.into_values().collect();
        assert_eq!(texts, expected, "{words:?}");
    }

    #[test]
    fn each_file_overrides_its_own_part() {
        let map = [
            "client-ca-file map",
            "other map",
            "requestheader-allowed-names map",
            "requestheader-client-ca-file map",
            "requestheader-uid-headers map",
        ];
        check(&[], &map);
        check(&["--requestheader-allowed-names=a"], &map);
        check(
            &["--client-ca-file=a"],
            &["client-ca-file file", map[1], map[2], map[3], map[4]],
        );
        let own = [
            "requestheader-allowed-names file",
            "requestheader-client-ca-file file",
        ];
        check(
            &["--requestheader-client-ca-file=a"],
            &[map[0], map[1], own[0], own[1]],
        );
        check(
            &["--requestheader-client-ca-file=a", "--client-ca-file=b"],
            &["client-ca-file file", map[1], own[0], own[1]],
        );
    }

    #[test]
    fn an_empty_flag_is_an_empty_list() {
        for (words, expected) in [
            (&[][..], "[]"),
            (&["--requestheader-allowed-names="], "[]"),
            (&["--requestheader-allowed-names=a,,b"], r#"["a","b"]"#),
        ] {
            let entries = parse(words).front_proxy_entries();
            assert_eq!(
                entries["requestheader-allowed-names"], expected,
                "{words:?}"
            );
        }
    }

    #[test]
    fn nothing_is_looked_up_that_files_override() {
        let (clients, proxies) = ("--client-ca-file=a", "--requestheader-client-ca-file=b");
        for (words, expected) in [
            (&[][..], true),
            (&[clients], true),
            (&[proxies], true),
            (&[clients, proxies], false),
            (&["--authentication-skip-lookup"], false),
        ] {
            assert_eq!(parse(words).needs_lookup(), expected, "{words:?}");
        }
    }

    #[tokio::test]
    async fn an_empty_file_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let overrides = parse(&["--client-ca-file", file.path().to_str().expect("text")]);
        std::fs::write(file.path(), "\n").expect("written");
        let error = overrides.read().await.expect_err("empty").to_string();
        assert!(error.ends_with("it is empty"), "{error}");
        std::fs::write(file.path(), "anything").expect("written");
        assert_eq!(overrides.read().await.expect("read")[CLIENT_CA], "anything");
    }
}
