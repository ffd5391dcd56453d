//! Whom to trust about callers: what the API server writes into the `ConfigMap`
//! `extension-apiserver-authentication`, or flags say in its place, read into the form in which
//! requests are judged.
//!
//! Source: keys of `k8s.io/apiserver/pkg/server/options/authentication.go`. Lists are JSON arrays.

use std::collections::BTreeMap;

use http::HeaderName;

use crate::authorities::{Authorities, BundleError};

/// Whom to trust.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust {
    /// The API server in front of us, that says who asks.
    pub(crate) front_proxy: Option<FrontProxy>,
    /// Those who sign certificates of ordinary clients.
    pub(crate) clients: Option<Authorities>,
    /// Changes whenever anything does.
    pub(crate) generation: u64,
    /// What it was read from.
    pub(crate) data: Data,
}

/// A proxy that says in headers who asks.
#[derive(Debug, Clone)]
pub(crate) struct FrontProxy {
    /// Who signs its certificates.
    pub(crate) authorities: Authorities,
    /// The common names that it may have; any if there are none. An empty one is nobody's.
    pub(crate) allowed_names: Vec<String>,
    /// Headers with the name of the user.
    pub(crate) username_headers: Vec<HeaderName>,
    /// Headers with the unique identifier.
    pub(crate) uid_headers: Vec<HeaderName>,
    /// Headers with groups.
    pub(crate) group_headers: Vec<HeaderName>,
    /// What headers with anything else begin with, in small letters.
    pub(crate) extra_prefixes: Vec<String>,
}

/// Why a configuration cannot be used. The key is named.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    /// A bundle of authorities.
    #[error("{key}: {error}")]
    Bundle {
        /// Which one.
        key: &'static str,
        /// Why.
        error: BundleError,
    },
    /// A list.
    #[error("{key}: expected a JSON array of strings: {error}")]
    List {
        /// Which one.
        key: &'static str,
        /// Why.
        error: serde_json::Error,
    },
    /// A header that cannot be one.
    #[error("{key}: {name:?} is not the name of a header")]
    Header {
        /// Which list.
        key: &'static str,
        /// Which name.
        name: String,
    },
}

/// The entries of the `ConfigMap`.
pub(crate) type Data = BTreeMap<String, String>;

pub(crate) const CLIENT_CA: &str = "client-ca-file";
pub(crate) const PROXY_CA: &str = "requestheader-client-ca-file";
const ALLOWED_NAMES: &str = "requestheader-allowed-names";
const USERNAME_HEADERS: &str = "requestheader-username-headers";
const UID_HEADERS: &str = "requestheader-uid-headers";
const GROUP_HEADERS: &str = "requestheader-group-headers";
const EXTRA_PREFIXES: &str = "requestheader-extra-headers-prefix";

impl Trust {
    /// Reads the entries. Without authorities of the front proxy there is none.
    pub(crate) fn read(data: Data, generation: u64) -> Result<Self, TrustError> {
        Ok(Self {
            front_proxy: front_proxy(&data)?,
            clients: authorities(&data, CLIENT_CA)?,
            generation,
            data,
        })
    }

    /// What an operator should know about it.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let bundles = [
            (
                PROXY_CA,
                self.front_proxy.as_ref().map(|proxy| &proxy.authorities),
            ),
            (CLIENT_CA, self.clients.as_ref()),
        ];
        for (key, authorities) in bundles {
            for error in authorities
                .map(Authorities::passed_over)
                .unwrap_or_default()
            {
                warnings.push(format!("{key}: a certificate is passed over: {error}"));
            }
        }
        match (&self.front_proxy, &self.clients) {
            (None, _) => warnings.push(format!(
                "no {PROXY_CA}: the API server cannot say who asks through it"
            )),
            (Some(proxy), Some(clients))
                if proxy.allowed_names.is_empty() && proxy.authorities.overlap(clients) =>
            {
                warnings.push(format!(
                    "{PROXY_CA} and {CLIENT_CA} share an authority and {ALLOWED_NAMES} is empty: whoever has a client certificate \
                     can claim to be anybody"
                ));
            }
            _ => {}
        }
        warnings
    }
}

fn front_proxy(data: &Data) -> Result<Option<FrontProxy>, TrustError> {
    let Some(authorities) = authorities(data, PROXY_CA)? else {
        return Ok(None);
    };
    Ok(Some(FrontProxy {
        authorities,
        allowed_names: list(data, ALLOWED_NAMES)?,
        username_headers: headers(data, USERNAME_HEADERS)?,
        uid_headers: headers(data, UID_HEADERS)?,
        group_headers: headers(data, GROUP_HEADERS)?,
        extra_prefixes: names(data, EXTRA_PREFIXES)?
            .iter()
            .map(|prefix| prefix.to_ascii_lowercase())
            .collect(),
    }))
}

fn authorities(data: &Data, key: &'static str) -> Result<Option<Authorities>, TrustError> {
    let Some(pem) = data.get(key).filter(|pem| !pem.trim().is_empty()) else {
        return Ok(None);
    };
    Authorities::read(pem)
        .map(Some)
        .map_err(|error| TrustError::Bundle { key, error })
}

impl FrontProxy {
    /// Whether it may have this common name.
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.allowed_names.is_empty()
            || !name.is_empty() && self.allowed_names.iter().any(|allowed| allowed == name)
    }
}

/// Empty ones among them are kept: a list of nothing else is not an empty list, which allows
/// anything.
fn list(data: &Data, key: &'static str) -> Result<Vec<String>, TrustError> {
    let Some(text) = data.get(key).filter(|text| !text.trim().is_empty()) else {
        return Ok(Vec::new());
    };
    let names: Option<Vec<String>> =
        serde_json::from_str(text).map_err(|error| TrustError::List { key, error })?;
    Ok(names.unwrap_or_default())
}

/// Those that are not empty: an empty one would be a prefix of every header.
fn names(data: &Data, key: &'static str) -> Result<Vec<String>, TrustError> {
    Ok(list(data, key)?
        .into_iter()
        .filter(|name| !name.is_empty())
        .collect())
}

fn headers(data: &Data, key: &'static str) -> Result<Vec<HeaderName>, TrustError> {
    let name = |name: String| {
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| TrustError::Header { key, name })
    };
    names(data, key)?.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    fn authority() -> String {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .pem()
    }

    fn data(entries: &[(&str, &str)]) -> Data {
        entries
            .iter()
            .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn what_the_api_server_writes_is_read() {
        let (proxy, clients) = (authority(), authority());
        let entries = data(&[
            (CLIENT_CA, &clients),
            (PROXY_CA, &(proxy + &authority())),
            (ALLOWED_NAMES, r#"["front-proxy-client"]"#),
            (USERNAME_HEADERS, r#"["X-Remote-User"]"#),
            (GROUP_HEADERS, r#"["X-Remote-Group"]"#),
            (EXTRA_PREFIXES, r#"["X-Remote-Extra-"]"#),
        ]);
        let trust = Trust::read(entries, 7).unwrap();
        let proxy = trust.front_proxy.as_ref().unwrap();
        assert_eq!(proxy.allowed_names, ["front-proxy-client"]);
        assert_eq!(proxy.username_headers, ["x-remote-user"]);
        assert_eq!(proxy.uid_headers, Vec::<HeaderName>::new());
        assert_eq!(proxy.extra_prefixes, ["x-remote-extra-"]);
        assert!(trust.clients.is_some());
        assert_eq!((trust.warnings(), trust.generation), (Vec::new(), 7));
    }

    #[test]
    fn without_authorities_of_a_front_proxy_there_is_none_and_it_is_said() {
        for entries in [
            data(&[]),
            data(&[
                (CLIENT_CA, &authority()),
                (USERNAME_HEADERS, r#"["X-Remote-User"]"#),
            ]),
        ] {
            let trust = Trust::read(entries, 0).unwrap();
            assert!(trust.front_proxy.is_none());
            assert!(
                trust.warnings()[0].contains("requestheader-client-ca-file"),
                "{:?}",
                trust.warnings()
            );
        }
    }

    #[test]
    fn one_authority_for_both_and_no_names_is_warned_of() {
        let shared = authority();
        let both = [(CLIENT_CA, shared.as_str()), (PROXY_CA, &shared)];
        let warnings = Trust::read(data(&both), 0).unwrap().warnings();
        assert!(
            warnings
                .iter()
                .any(|warning| warning.contains("can claim to be anybody")),
            "{warnings:?}"
        );
        let named = [both[0], both[1], (ALLOWED_NAMES, r#"["proxy"]"#)];
        assert_eq!(
            Trust::read(data(&named), 0).unwrap().warnings(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_empty_name_in_the_list_allows_nobody() {
        let proxy = authority();
        for (list, allowed, refused) in [
            (r#"[""]"#, &[][..], &["", "proxy"][..]),
            (r#"["", "proxy"]"#, &["proxy"], &["", "other"]),
            (r#"["proxy"]"#, &["proxy"], &["", "other"]),
            ("[]", &["", "proxy"], &[]),
            ("null", &["", "proxy"], &[]),
            ("", &["", "proxy"], &[]),
        ] {
            let trust = Trust::read(data(&[(PROXY_CA, &proxy), (ALLOWED_NAMES, list)]), 0).unwrap();
            let proxy = trust.front_proxy.unwrap();
            for (names, expected) in [(allowed, true), (refused, false)] {
                assert!(
                    names.iter().all(|name| proxy.allows(name) == expected),
                    "{list}: {names:?}"
                );
            }
        }
    }

    #[test]
    fn what_cannot_be_used_names_its_key() {
        let proxy = authority();
        for (entries, expected) in [
            (
                data(&[(
                    PROXY_CA,
                    "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
                )]),
                "requestheader-client-ca-file: ",
            ),
            (
                data(&[(CLIENT_CA, "nothing")]),
                "client-ca-file: no usable certificate",
            ),
            (
                data(&[(PROXY_CA, &proxy), (ALLOWED_NAMES, "a,b")]),
                "requestheader-allowed-names: expected a JSON array",
            ),
            (
                data(&[(PROXY_CA, &proxy), (GROUP_HEADERS, r#"["a b"]"#)]),
                "requestheader-group-headers: \"a b\" is not",
            ),
        ] {
            let error = Trust::read(entries, 0).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
