//! Keeps the last known CA bundles if the `ConfigMap` loses them: a partial write must not lock out
//! the HPA controller.
//!
//! Source: `loadCABundle` of
//! `k8s.io/apiserver/pkg/server/dynamiccertificates/configmap_cafile_content.go`, which keeps its
//! last bundle if the key is gone. Upstream still takes the other front proxy entries from the
//! current object; here they stay with the bundle that they were written for.

use crate::config::{CLIENT_CA, Entries, FRONT_PROXY_CA};
use crate::overrides::FRONT_PROXY_PREFIX;

/// Returns the current entries with each missing CA bundle, and the entries that belong to it,
/// replaced by the previous ones; and the keys of the missing bundles.
pub(crate) fn retain_last_known(
    previous: &Entries,
    mut current: Entries,
) -> (Entries, Vec<&'static str>) {
    let has = |entries: &Entries, key| entries.get(key).is_some_and(|pem| !pem.trim().is_empty());
    let mut missing = Vec::new();
    let bundles = [(CLIENT_CA, CLIENT_CA), (FRONT_PROXY_CA, FRONT_PROXY_PREFIX)];
    for (key, prefix) in bundles {
        if has(&current, key) || !has(previous, key) {
            continue;
        }
        current.retain(|name, _| !name.starts_with(prefix));
        let retained = previous.iter().filter(|(name, _)| name.starts_with(prefix));
        current.extend(retained.map(|(name, text)| (name.clone(), text.clone())));
        missing.push(key);
    }
    (current, missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::entries;

    fn check(current: &[(&str, &str)], expected: &[(&str, &str)], missing: &[&str]) {
        let previous = [
            (CLIENT_CA, "clients"),
            (FRONT_PROXY_CA, "proxies"),
            ("requestheader-allowed-names", "names"),
        ];
        assert_eq!(
            retain_last_known(&entries(&previous), entries(current)),
            (entries(expected), missing.to_vec()),
            "{current:?}"
        );
        assert_eq!(
            retain_last_known(&Entries::new(), entries(current)),
            (entries(current), vec![]),
            "{current:?}"
        );
    }

    #[test]
    fn a_missing_bundle_stays_with_the_entries_that_belong_to_it() {
        let (clients, proxies) = ((CLIENT_CA, "new clients"), (FRONT_PROXY_CA, "new proxies"));
        let (old_clients, old_proxies) = ((CLIENT_CA, "clients"), (FRONT_PROXY_CA, "proxies"));
        let names = ("requestheader-allowed-names", "names");
        check(&[clients, proxies], &[clients, proxies], &[]);
        let retained = [clients, old_proxies, names];
        check(&[clients], &retained, &[FRONT_PROXY_CA]);
        let blank = [clients, (FRONT_PROXY_CA, " "), (names.0, "[]")];
        check(&blank, &retained, &[FRONT_PROXY_CA]);
        let other = ("other", "a");
        check(
            &[proxies, other],
            &[old_clients, proxies, other],
            &[CLIENT_CA],
        );
        let old = [old_clients, old_proxies, names];
        check(&[], &old, &[CLIENT_CA, FRONT_PROXY_CA]);
    }
}
