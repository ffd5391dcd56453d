//! Authorities that the `ConfigMap` does not name any more stand: whoever writes it by halves must
//! not cut off the autoscaler.
//!
//! Source: `k8s.io/apiserver/pkg/server/dynamiccertificates/configmap_cafile_content.go`,
//! `loadCABundle`, which keeps its last bundle when the key is gone. Upstream takes the lists about
//! front proxies from what is there now; here they stay with the authorities that they were written
//! for.

use crate::own::PROXY;
use crate::trust::{CLIENT_CA, Data, PROXY_CA};

/// The entries that count: those of now, and of authorities that are gone those of before, with all
/// that belongs to them. And which those are.
pub(crate) fn with_lost(before: &Data, mut now: Data) -> (Data, Vec<&'static str>) {
    let has = |data: &Data, key| data.get(key).is_some_and(|pem| !pem.trim().is_empty());
    let mut lost = Vec::new();
    for (key, prefix) in [(CLIENT_CA, CLIENT_CA), (PROXY_CA, PROXY)] {
        if has(&now, key) || !has(before, key) {
            continue;
        }
        let belongs = |name: &str| name.starts_with(prefix);
        now.retain(|name, _| !belongs(name));
        now.extend(
            before
                .iter()
                .filter(|(name, _)| belongs(name))
                .map(|(name, text)| (name.clone(), text.clone())),
        );
        lost.push(key);
    }
    (now, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entries: &[(&str, &str)]) -> Data {
        entries
            .iter()
            .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn check(now: &[(&str, &str)], expected: &[(&str, &str)], lost: &[&str]) {
        let before = [
            (CLIENT_CA, "clients"),
            (PROXY_CA, "proxies"),
            ("requestheader-allowed-names", "names"),
        ];
        assert_eq!(
            with_lost(&data(&before), data(now)),
            (data(expected), lost.to_vec()),
            "{now:?}"
        );
        assert_eq!(
            with_lost(&Data::new(), data(now)),
            (data(now), vec![]),
            "{now:?}"
        );
    }

    #[test]
    fn authorities_that_are_gone_stay_with_all_that_belongs_to_them() {
        let (clients, proxies) = ((CLIENT_CA, "new clients"), (PROXY_CA, "new proxies"));
        let (old_clients, old_proxies) = ((CLIENT_CA, "clients"), (PROXY_CA, "proxies"));
        let names = ("requestheader-allowed-names", "names");
        check(&[clients, proxies], &[clients, proxies], &[]);
        check(&[clients], &[clients, old_proxies, names], &[PROXY_CA]);
        check(
            &[clients, (PROXY_CA, " "), (names.0, "[]")],
            &[clients, old_proxies, names],
            &[PROXY_CA],
        );
        check(
            &[proxies, ("other", "a")],
            &[old_clients, proxies, ("other", "a")],
            &[CLIENT_CA],
        );
        check(
            &[],
            &[old_clients, old_proxies, names],
            &[CLIENT_CA, PROXY_CA],
        );
    }
}
