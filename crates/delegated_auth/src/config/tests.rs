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
