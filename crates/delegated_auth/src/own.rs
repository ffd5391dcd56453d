//! Whom to trust about callers as our own flags and the files that they name say it, in the place
//! of what the API server says.
//!
//! Source: `k8s.io/apiserver/pkg/server/options/authentication.go`,
//! `DelegatingAuthenticationOptions`. As there, each authority replaces its own part only: with a
//! file of the front proxy's authorities everything about front proxies is from the flags, and
//! clients' authorities are still looked up.

use std::path::{Path, PathBuf};

use crate::trust::{CLIENT_CA, Data, PROXY_CA, Trust, TrustError};

/// What the entries about front proxies begin with.
pub(crate) const PROXY: &str = "requestheader-";

/// Flags that say whom to trust about callers.
#[derive(Debug, Clone, clap::Args)]
pub struct TrustArgs {
    /// Authorities (PEM) of clients' certificates. Without, those that the API server names. Read
    /// again when it changes.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Authorities (PEM) of the certificates of front proxies, which say in headers who asks.
    /// Without, whatever the API server names counts, in the place of all flags about front
    /// proxies. Read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that front proxies have, separated by commas. If empty, any.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "")]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers in which front proxies name the user.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "x-remote-user"
    )]
    pub requestheader_username_headers: Vec<String>,
    /// Headers with the user's unique identifier.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "")]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers with the user's groups.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "x-remote-group"
    )]
    pub requestheader_group_headers: Vec<String>,
    /// What headers with anything else about the user begin with.
    #[arg(
        long,
        value_name = "PREFIXES",
        value_delimiter = ',',
        default_value = "x-remote-extra-"
    )]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Do not look up in the cluster what no flag says.
    #[arg(long)]
    pub authentication_skip_lookup: bool,
    /// Start also if what no flag says cannot be looked up. Callers may all be anonymous then,
    /// until it can be.
    #[arg(long)]
    pub authentication_tolerate_lookup_failure: bool,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: cannot read {path}: {error}", path = .path.display())]
pub(crate) struct Unreadable {
    flag: &'static str,
    path: PathBuf,
    error: std::io::Error,
}

/// Why the files cannot be used from the start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The key is the name of the flag.
    #[error("--{0}")]
    Trust(TrustError),
}

/// The flags as entries of the `ConfigMap` that they stand in for.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    clients: Option<PathBuf>,
    proxies: Option<PathBuf>,
    /// What is said of front proxies, beside their authorities.
    about_proxies: Data,
    skip_lookup: bool,
    /// Whether it is no reason to stop that nothing can be looked up.
    pub(crate) tolerates_failure: bool,
}

impl Own {
    pub(crate) fn new(args: TrustArgs) -> Self {
        let TrustArgs {
            client_ca_file,
            requestheader_client_ca_file,
            requestheader_allowed_names,
            requestheader_username_headers,
            requestheader_uid_headers,
            requestheader_group_headers,
            requestheader_extra_headers_prefix,
            authentication_skip_lookup,
            authentication_tolerate_lookup_failure,
        } = args;
        let about_proxies = [
            ("allowed-names", requestheader_allowed_names),
            ("username-headers", requestheader_username_headers),
            ("uid-headers", requestheader_uid_headers),
            ("group-headers", requestheader_group_headers),
            ("extra-headers-prefix", requestheader_extra_headers_prefix),
        ];
        let entry = |(key, mut list): (&str, Vec<String>)| {
            // A flag with nothing behind it is a list of one empty name, and means none.
            list.retain(|name| !name.is_empty());
            (format!("{PROXY}{key}"), serde_json::json!(list).to_string())
        };
        Self {
            clients: client_ca_file,
            proxies: requestheader_client_ca_file,
            about_proxies: about_proxies.map(entry).into(),
            skip_lookup: authentication_skip_lookup,
            tolerates_failure: authentication_tolerate_lookup_failure,
        }
    }

    /// Whether anything is to be looked up in the cluster.
    pub(crate) fn needs_lookup(&self) -> bool {
        !self.skip_lookup && (self.clients.is_none() || self.proxies.is_none())
    }

    /// Whether there are files.
    pub(crate) fn has_files(&self) -> bool {
        self.clients.is_some() || self.proxies.is_some()
    }

    /// The entries that the files say, as they are now.
    pub(crate) async fn read(&self) -> Result<Data, Unreadable> {
        let mut data = Data::new();
        if let Some(path) = &self.clients {
            data.insert(CLIENT_CA.to_owned(), read(CLIENT_CA, path).await?);
        }
        if let Some(path) = &self.proxies {
            data.extend(self.about_proxies.clone());
            data.insert(PROXY_CA.to_owned(), read(PROXY_CA, path).await?);
        }
        Ok(data)
    }

    /// The same for the first time, when they must be sound.
    pub(crate) async fn begin(&self) -> Result<Data, Unusable> {
        let data = self.read().await?;
        Trust::read(data.clone(), 0).map_err(Unusable::Trust)?;
        Ok(data)
    }

    /// All entries: what was looked up, without what the files replace, and what they say.
    pub(crate) fn over(&self, looked_up: &Data, files: &Data) -> Data {
        let is_replaced = |key: &str| {
            self.clients.is_some() && key == CLIENT_CA
                || self.proxies.is_some() && key.starts_with(PROXY)
        };
        let kept = looked_up
            .iter()
            .filter(|(key, _)| !is_replaced(key))
            .chain(files);
        kept.map(|(key, text)| (key.clone(), text.clone()))
            .collect()
    }
}

/// An empty file, which may be one that is being written, is no reason to trust nobody.
async fn read(flag: &'static str, path: &Path) -> Result<String, Unreadable> {
    let text = match tokio::fs::read_to_string(path).await {
        Ok(text) if text.trim().is_empty() => Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "it is empty",
        )),
        read => read,
    };
    text.map_err(|error| Unreadable {
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
        trust: TrustArgs,
    }

    /// `expected`: the entries that count, of what was looked up and of what files say.
    fn check(words: &[&str], expected: &[&str]) {
        let own = Own::new(Flags::parse_from(std::iter::once(&"adapter").chain(words)).trust);
        let keys = [
            CLIENT_CA,
            PROXY_CA,
            "requestheader-allowed-names",
            "requestheader-uid-headers",
            "other",
        ];
        let data = |from: &str| {
            keys.map(|key| (key.to_owned(), format!("{key} {from}")))
                .into()
        };
        let mut files: Data = data("file");
        files.retain(|key, _| {
            own.clients.is_some() && key == CLIENT_CA
                || own.proxies.is_some()
                    && [
                        "requestheader-client-ca-file",
                        "requestheader-allowed-names",
                    ]
                    .contains(&key.as_str())
        });
        let texts: Vec<String> = own.over(&data("map"), &files).into_values().collect();
        assert_eq!(texts, expected, "{words:?}");
    }

    #[test]
    fn each_file_replaces_its_own_part() {
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
    fn a_flag_with_nothing_behind_it_names_nobody() {
        let entries = |words: &[&str]| {
            let mut own =
                Own::new(Flags::parse_from(std::iter::once(&"adapter").chain(words)).trust);
            own.about_proxies.remove("requestheader-allowed-names")
        };
        for (words, expected) in [
            (&[][..], "[]"),
            (&["--requestheader-allowed-names="], "[]"),
            (&["--requestheader-allowed-names=a,,b"], r#"["a","b"]"#),
        ] {
            assert_eq!(entries(words).as_deref(), Some(expected), "{words:?}");
        }
    }

    #[test]
    fn nothing_is_looked_up_that_files_say() {
        let needs = |words: &[&str]| {
            Own::new(Flags::parse_from(std::iter::once(&"adapter").chain(words)).trust)
                .needs_lookup()
        };
        assert!(
            needs(&[])
                && needs(&["--client-ca-file=a"])
                && needs(&["--requestheader-client-ca-file=a"])
        );
        assert!(!needs(&[
            "--client-ca-file=a",
            "--requestheader-client-ca-file=b"
        ]));
        assert!(!needs(&["--authentication-skip-lookup"]));
    }

    #[tokio::test]
    async fn an_empty_file_says_nothing() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let own = Own::new(
            Flags::parse_from([
                "adapter",
                "--client-ca-file",
                file.path().to_str().expect("text"),
            ])
            .trust,
        );
        std::fs::write(file.path(), "\n").expect("written");
        assert!(
            own.read()
                .await
                .expect_err("empty")
                .to_string()
                .ends_with("it is empty")
        );
        std::fs::write(file.path(), "anything").expect("written");
        assert_eq!(own.read().await.expect("read")[CLIENT_CA], "anything");
    }
}
