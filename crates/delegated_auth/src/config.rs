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
pub(crate) mod tests;
