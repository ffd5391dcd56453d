//! The configuration of authentication: CA bundle and request headers of front proxies.
//!
//! The entries are those of the `ConfigMap` `extension-apiserver-authentication`, which the API
//! server writes; lists are JSON arrays. Source of the keys:
//! `k8s.io/apiserver/pkg/server/options/authentication.go`.

use std::collections::BTreeMap;

use http::HeaderName;

use crate::ca_bundle::CaBundle;

#[derive(Debug, Clone, Default)]
pub(crate) struct AuthenticationConfig {
    /// `None` without a front proxy CA: no request headers are accepted.
    pub(crate) front_proxy: Option<RequestHeaderConfig>,
    /// A number that changes with the configuration.
    pub(crate) generation: u64,
    pub(crate) entries: Entries,
}

/// The front proxies and their request headers.
#[derive(Debug, Clone)]
pub(crate) struct RequestHeaderConfig {
    /// The CA bundle of front proxies.
    pub(crate) ca: CaBundle,
    /// Allowed common names; an empty list allows any. An empty name matches no certificate.
    pub(crate) allowed_names: Vec<String>,
    pub(crate) username_headers: Vec<HeaderName>,
    pub(crate) uid_headers: Vec<HeaderName>,
    pub(crate) group_headers: Vec<HeaderName>,
    /// Prefixes of headers with extra attributes, in lower case.
    pub(crate) extra_prefixes: Vec<String>,
}

pub(crate) type Entries = BTreeMap<String, String>;

/// Read for a warning only.
const CLIENT_CA: &str = "client-ca-file";
pub(crate) const FRONT_PROXY_CA: &str = "requestheader-client-ca-file";
const ALLOWED_NAMES: &str = "requestheader-allowed-names";
const USERNAME_HEADERS: &str = "requestheader-username-headers";
const UID_HEADERS: &str = "requestheader-uid-headers";
const GROUP_HEADERS: &str = "requestheader-group-headers";
const EXTRA_PREFIXES: &str = "requestheader-extra-headers-prefix";

impl AuthenticationConfig {
    /// The error names the key of the entry that cannot be used.
    pub(crate) fn parse(entries: Entries, generation: u64) -> Result<Self, String> {
        Ok(Self {
            front_proxy: front_proxy(&entries)?,
            generation,
            entries,
        })
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let Some(proxy) = &self.front_proxy else {
            return vec![format!(
                "no {FRONT_PROXY_CA}: requests through API aggregation are anonymous"
            )];
        };
        let skipped = proxy.ca.skipped().iter();
        let mut warnings: Vec<String> = skipped
            .map(|error| format!("{FRONT_PROXY_CA}: skipped a certificate: {error}"))
            .collect();
        let clients = bundle(&self.entries, CLIENT_CA).ok().flatten();
        if proxy.allowed_names.is_empty()
            && clients.is_some_and(|clients| proxy.ca.shares_certificate_with(&clients))
        {
            warnings.push(format!(
                "{FRONT_PROXY_CA} and {CLIENT_CA} share a CA and {ALLOWED_NAMES} is empty: \
                 any client with a certificate can claim to be any user"
            ));
        }
        warnings
    }

    /// Returns these entries, or, if they have lost the CA bundle of front proxies, the previous
    /// ones: a partial write must not lock out the HPA controller. Its other entries stay with the
    /// bundle that they were written for.
    ///
    /// Source: `loadCABundle` of
    /// `k8s.io/apiserver/pkg/server/dynamiccertificates/configmap_cafile_content.go`.
    pub(crate) fn retained(previous: &Entries, current: Entries) -> (Entries, bool) {
        let is_lost =
            entry(&current, FRONT_PROXY_CA).is_none() && entry(previous, FRONT_PROXY_CA).is_some();
        let entries = if is_lost { previous.clone() } else { current };
        (entries, is_lost)
    }
}

impl RequestHeaderConfig {
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.allowed_names.is_empty()
            || !name.is_empty() && self.allowed_names.iter().any(|allowed| allowed == name)
    }
}

fn front_proxy(entries: &Entries) -> Result<Option<RequestHeaderConfig>, String> {
    let Some(ca) = bundle(entries, FRONT_PROXY_CA)? else {
        return Ok(None);
    };
    Ok(Some(RequestHeaderConfig {
        ca,
        allowed_names: list(entries, ALLOWED_NAMES)?,
        username_headers: headers(entries, USERNAME_HEADERS)?,
        uid_headers: headers(entries, UID_HEADERS)?,
        group_headers: headers(entries, GROUP_HEADERS)?,
        extra_prefixes: names(entries, EXTRA_PREFIXES)?
            .map(|prefix| prefix.to_ascii_lowercase())
            .collect(),
    }))
}

fn entry<'a>(entries: &'a Entries, key: &str) -> Option<&'a String> {
    entries.get(key).filter(|text| !text.trim().is_empty())
}

fn bundle(entries: &Entries, key: &str) -> Result<Option<CaBundle>, String> {
    entry(entries, key)
        .map(|pem| CaBundle::parse(pem).map_err(|error| format!("{key}: {error}")))
        .transpose()
}

/// Keeps empty names: a list of empty names is not an empty list, which would allow any name.
fn list(entries: &Entries, key: &str) -> Result<Vec<String>, String> {
    let Some(text) = entry(entries, key) else {
        return Ok(Vec::new());
    };
    let names = serde_json::from_str::<Option<Vec<String>>>(text)
        .map_err(|error| format!("{key}: expected a JSON array of strings: {error}"))?;
    Ok(names.unwrap_or_default())
}

/// Drops empty names: an empty prefix would match every header.
fn names(entries: &Entries, key: &str) -> Result<impl Iterator<Item = String>, String> {
    let names = list(entries, key)?.into_iter();
    Ok(names.filter(|name| !name.is_empty()))
}

fn headers(entries: &Entries, key: &str) -> Result<Vec<HeaderName>, String> {
    let header = |name: String| {
        HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{key}: {name:?} is not the name of a header"))
    };
    names(entries, key)?.map(header).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    pub(crate) fn ca() -> String {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .pem()
    }

    pub(crate) fn entries(entries: &[(&str, &str)]) -> Entries {
        entries
            .iter()
            .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn the_entries_that_the_api_server_writes_are_parsed() {
        let (proxy, clients) = (ca(), ca());
        let entries = entries(&[
            (CLIENT_CA, &clients),
            (FRONT_PROXY_CA, &(proxy + &ca())),
            (ALLOWED_NAMES, r#"["front-proxy-client"]"#),
            (USERNAME_HEADERS, r#"["X-Remote-User"]"#),
            (GROUP_HEADERS, r#"["X-Remote-Group"]"#),
            (EXTRA_PREFIXES, r#"["X-Remote-Extra-"]"#),
        ]);
        let config = AuthenticationConfig::parse(entries, 7).unwrap();
        let proxy = config.front_proxy.as_ref().unwrap();
        assert_eq!(proxy.allowed_names, ["front-proxy-client"]);
        assert_eq!(proxy.username_headers, ["x-remote-user"]);
        assert_eq!(proxy.uid_headers, Vec::<HeaderName>::new());
        assert_eq!(proxy.extra_prefixes, ["x-remote-extra-"]);
        assert_eq!((config.warnings(), config.generation), (Vec::new(), 7));
    }

    #[test]
    fn without_a_front_proxy_ca_there_is_no_front_proxy_and_a_warning() {
        for entries in [
            entries(&[]),
            entries(&[
                (CLIENT_CA, &ca()),
                (USERNAME_HEADERS, r#"["X-Remote-User"]"#),
            ]),
        ] {
            let config = AuthenticationConfig::parse(entries, 0).unwrap();
            assert!(config.front_proxy.is_none());
            let warnings = config.warnings();
            assert!(warnings[0].contains(FRONT_PROXY_CA), "{warnings:?}");
        }
    }

    #[test]
    fn a_shared_ca_without_allowed_names_is_a_warning() {
        let shared = ca();
        let warnings = |names| {
            let both = [(CLIENT_CA, shared.as_str()), (FRONT_PROXY_CA, &shared)];
            let entries = entries(&[both[0], both[1], (ALLOWED_NAMES, names)]);
            AuthenticationConfig::parse(entries, 0)
                .unwrap()
                .warnings()
                .concat()
        };
        let found = warnings("");
        assert!(found.contains("can claim to be any user"), "{found}");
        assert_eq!(warnings(r#"["proxy"]"#), "");
    }

    #[test]
    fn a_lost_bundle_stays_with_the_entries_that_belong_to_it() {
        let (names, others) = ((ALLOWED_NAMES, "names"), (ALLOWED_NAMES, "others"));
        let (old, new) = ((FRONT_PROXY_CA, "old"), (FRONT_PROXY_CA, "new"));
        let previous = entries(&[old, names]);
        for (current, expected, is_lost) in [
            (&[new, others][..], &[new, others][..], false),
            (&[new], &[new], false),
            (&[others], &[old, names], true),
            (&[(FRONT_PROXY_CA, " "), others], &[old, names], true),
            (&[], &[old, names], true),
        ] {
            let found = AuthenticationConfig::retained(&previous, entries(current));
            assert_eq!(found, (entries(expected), is_lost), "{current:?}");
            let found = AuthenticationConfig::retained(&Entries::new(), entries(current));
            assert_eq!(found, (entries(current), false), "{current:?}");
        }
    }

    #[test]
    fn an_empty_name_in_the_list_allows_no_certificate() {
        let proxy = ca();
        for (list, allowed, refused) in [
            (r#"[""]"#, &[][..], &["", "proxy"][..]),
            (r#"["", "proxy"]"#, &["proxy"], &["", "other"]),
            (r#"["proxy"]"#, &["proxy"], &["", "other"]),
            ("[]", &["", "proxy"], &[]),
            ("null", &["", "proxy"], &[]),
            ("", &["", "proxy"], &[]),
        ] {
            let entries = entries(&[(FRONT_PROXY_CA, &proxy), (ALLOWED_NAMES, list)]);
            let config = AuthenticationConfig::parse(entries, 0).unwrap();
            let proxy = config.front_proxy.unwrap();
            for (names, expected) in [(allowed, true), (refused, false)] {
                assert!(
                    names.iter().all(|name| proxy.allows(name) == expected),
                    "{list}: {names:?}"
                );
            }
        }
    }

    #[test]
    fn an_error_names_the_key() {
        let proxy = ca();
        let damaged = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        // The second entry replaces the first one.
        for (key, text, expected) in [
            (FRONT_PROXY_CA, damaged, ": "),
            (FRONT_PROXY_CA, "nothing", ": no usable certificate"),
            (ALLOWED_NAMES, "a,b", ": expected a JSON array"),
            (GROUP_HEADERS, r#"["a b"]"#, ": \"a b\" is not"),
        ] {
            let entries = entries(&[(FRONT_PROXY_CA, &proxy), (key, text)]);
            let error = AuthenticationConfig::parse(entries, 0).unwrap_err();
            assert!(error.starts_with(&format!("{key}{expected}")), "{error}");
        }
    }
}
