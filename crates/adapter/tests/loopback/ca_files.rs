//! CA files in place of the API server's settings, or in addition to them.

use std::os::unix::fs::symlink;

use anyhow::ensure;
use prometheus::Registry;
use runtime::Readiness;
use serde_json::json;
use tempfile::TempDir;
use testing::{Pace, eventually};

use crate::api_server::ApiServer;
use crate::ca::{Ca, Identity};
use crate::configuration::becomes;
use crate::fixture::{Fixture, authentication};

/// A mounted Secret as the kubelet updates it: the file is a link through `..data`, which is
/// replaced atomically.
struct Mounted(TempDir);

impl Mounted {
    fn new(text: &str) -> Self {
        let mounted = Self(tempfile::tempdir().unwrap());
        mounted.replace("1", text);
        symlink("..data/ca.crt", mounted.0.path().join("ca.crt")).unwrap();
        mounted
    }

    fn replace(&self, revision: &str, text: &str) {
        let folder = self.0.path();
        std::fs::create_dir(folder.join(revision)).unwrap();
        std::fs::write(folder.join(revision).join("ca.crt"), text).unwrap();
        symlink(revision, folder.join("..next")).unwrap();
        std::fs::rename(folder.join("..next"), folder.join("..data")).unwrap();
    }

    fn flag(&self, name: &str) -> String {
        format!("--{name}={}", self.0.path().join("ca.crt").display())
    }
}

const JOE: [&str; 1] = ["X-Remote-User: joe"];

/// Checks the status code of a request, and the user of the access review.
async fn check(fixture: &Fixture, shown: &Identity, headers: &[&str], expected: &str) {
    let code = fixture.connect(Some(shown)).await.queue(headers).await;
    let found = format!("{code} {}", fixture.last_user());
    assert_eq!(found.trim(), expected);
}

#[tokio::test]
async fn flags_about_the_proxy_replace_all_that_the_api_server_says_of_it_and_nothing_else() {
    let own = Ca::new("own proxies");
    let file = Mounted::new(&own.pem());
    let words = [
        &*file.flag("requestheader-client-ca-file"),
        "--requestheader-allowed-names=aggregator,another",
        "--requestheader-username-headers=X-Who",
        "--requestheader-group-headers=X-Team",
        "--requestheader-extra-headers-prefix=X-More-",
    ];
    let fixture = Fixture::new(&words).await;
    let proxy = own.client("aggregator");
    let said = [
        "X-Who: joe",
        "X-Team: a",
        "X-Team: b",
        "X-More-Scopes: one",
        "X-Remote-Group: system:masters",
    ];
    assert_eq!(fixture.connect(Some(&proxy)).await.queue(&said).await, 403);
    let asked = fixture.api.reviews();
    let spec = asked.last().unwrap();
    assert_eq!(spec["user"], "joe");
    let groups = json!(["a", "b", "system:authenticated"]);
    assert_eq!(spec["groups"], groups);
    assert_eq!(spec["extra"], json!({"scopes": ["one"]}));
    // The allowed names come from the flags as well, and the API server's front proxy CA is not
    // used.
    let other = own.client("front-proxy-client");
    check(&fixture, &other, &said, "401").await;
    let proxy = fixture.proxies.client("front-proxy-client");
    check(&fixture, &proxy, &JOE, "401").await;
    // The client CA is the API server's.
    let jane = fixture.clients.client("jane");
    check(&fixture, &jane, &said, "403 jane").await;
}

#[tokio::test]
async fn with_a_front_proxy_ca_file_the_default_headers_and_any_name_are_accepted() {
    let own = Ca::new("own proxies");
    let file = Mounted::new(&own.pem());
    let fixture = Fixture::new(&[&file.flag("requestheader-client-ca-file")]).await;
    check(&fixture, &own.client("any-name"), &JOE, "403 joe").await;
}

#[tokio::test]
async fn a_client_ca_file_does_not_override_the_front_proxy() {
    let own = Ca::new("own clients");
    let file = Mounted::new(&own.pem());
    let fixture = Fixture::new(&[&file.flag("client-ca-file")]).await;
    check(&fixture, &own.client("jane"), &JOE, "403 jane").await;
    let jane = fixture.clients.client("jane");
    check(&fixture, &jane, &[], "401").await;
    let proxy = fixture.proxies.client("front-proxy-client");
    check(&fixture, &proxy, &JOE, "403 joe").await;
}

#[tokio::test]
async fn file_changes_apply_to_open_connections_unless_they_are_invalid() {
    let (first, next) = (Ca::new("first"), Ca::new("next"));
    let file = Mounted::new(&first.pem());
    let fixture = Fixture::new(&[&file.flag("client-ca-file")]).await;
    let (mut old, mut new) = (
        fixture.connect(Some(&first.client("jane"))).await,
        fixture.connect(Some(&next.client("jane"))).await,
    );
    assert_eq!((old.queue(&[]).await, new.queue(&[]).await), (403, 401));
    file.replace("2", &(first.pem() + &next.pem()));
    becomes(&mut new, &[], 403).await;
    assert_eq!(old.queue(&[]).await, 403);
    file.replace("3", "nonsense");
    let report = eventually("the invalid file is reported", Pace::WITHIN, async || {
        let (_, report) = fixture.get("/readyz?verbose").await;
        ensure!(report.contains("client-ca-file: no usable"), "{report}");
        Ok(())
    });
    report.await.unwrap();
    assert_eq!((old.queue(&[]).await, new.queue(&[]).await), (403, 403));
    file.replace("4", &next.pem());
    becomes(&mut old, &[], 401).await;
    assert_eq!(new.queue(&[]).await, 403);
}

#[tokio::test]
async fn without_a_lookup_only_files_count() {
    let own = Ca::new("own proxies");
    let file = Mounted::new(&own.pem());
    let fixture = Fixture::new(&[
        "--authentication-skip-lookup",
        &file.flag("requestheader-client-ca-file"),
    ])
    .await;
    check(&fixture, &own.client("proxy"), &JOE, "403 joe").await;
    // Without a client CA, client certificates are not valid, neither as a client's nor as a front
    // proxy's.
    let jane = fixture.clients.client("jane");
    check(&fixture, &jane, &[], "401").await;
    let skipping = Fixture::new(&["--authentication-skip-lookup"]).await;
    let proxy = skipping.proxies.client("front-proxy-client");
    check(&skipping, &proxy, &JOE, "403 system:anonymous").await;
}

/// The result of starting an adapter with these flags if access to the `ConfigMap` is denied.
pub(crate) async fn begins(words: &[&str]) -> Result<(), String> {
    let api = ApiServer::start(None).await;
    api.known.forbids.send_replace(true);
    let auth = authentication(words, &api, &Registry::new(), &Readiness::default());
    auth.load().await.map_err(|error| format!("{error:#}"))
}

#[tokio::test]
async fn without_a_lookup_the_config_map_need_not_be_readable() {
    let file = Mounted::new(&Ca::new("both").pem());
    let clients = file.flag("client-ca-file");
    let proxies = file.flag("requestheader-client-ca-file");
    for words in [
        &[&*clients, &*proxies][..],
        &["--authentication-skip-lookup"],
        &["--authentication-tolerate-lookup-failure"],
    ] {
        assert_eq!(begins(words).await, Ok(()), "{words:?}");
    }
    let error = begins(&[&proxies]).await.unwrap_err();
    assert!(
        error.contains("extension-apiserver-authentication-reader"),
        "{error}"
    );
}

#[tokio::test]
async fn the_error_of_an_invalid_file_names_its_flag() {
    let missing = begins(&["--client-ca-file=/nowhere/ca.crt"]).await;
    let error = missing.unwrap_err();
    assert!(
        error.starts_with("--client-ca-file: cannot read /nowhere/ca.crt: "),
        "{error}"
    );
    for (text, expected) in [("", "it is empty"), ("nonsense", "no usable certificate")] {
        let file = Mounted::new(text);
        let started = begins(&[&file.flag("requestheader-client-ca-file")]).await;
        let error = started.unwrap_err();
        assert!(
            error.starts_with("--requestheader-client-ca-file: ") && error.contains(expected),
            "{error}"
        );
    }
    let file = Mounted::new(&Ca::new("proxies").pem());
    let words = [
        &file.flag("requestheader-client-ca-file"),
        "--requestheader-group-headers=a b",
    ];
    let error = begins(&words).await.unwrap_err();
    assert_eq!(
        error,
        "--requestheader-group-headers: \"a b\" is not the name of a header"
    );
}
