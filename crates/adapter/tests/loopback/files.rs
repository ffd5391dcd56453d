//! Whom to trust comes from files, in the place of what the API server says or beside it.

use adapter::metrics::PREFIX;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::ensure;
use delegated_auth::DelegatedAuth;
use eventually::{Pace, eventually};
use prometheus::Registry;
use runtime::Readiness;
use tempfile::TempDir;

use crate::api_server::ApiServer;
use crate::authority::{Authority, Identity};
use crate::configuration::becomes;
use crate::stage::{Stage, flags};

/// A mounted Secret as a kubelet keeps it: the file is a link through `..data`, which is moved in
/// one step.
struct Mounted(TempDir);

impl Mounted {
    fn new(text: &str) -> Self {
        let mounted = Self(tempfile::tempdir().unwrap());
        mounted.replace("1", text);
        symlink(
            Path::new("..data").join("ca.crt"),
            mounted.0.path().join("ca.crt"),
        )
        .unwrap();
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

/// Asks, and gives the code and whom the API server was asked about.
async fn taken_for(stage: &Stage, shown: &Identity, headers: &[&str]) -> (u16, String) {
    let code = stage.connect(Some(shown)).await.queue(headers).await;
    let asked = stage.api.reviews();
    (
        code,
        asked
            .last()
            .map(|spec| spec["user"].as_str().unwrap().to_owned())
            .unwrap_or_default(),
    )
}

async fn check(stage: &Stage, shown: &Identity, headers: &[&str], expected: (u16, &str)) {
    assert_eq!(
        taken_for(stage, shown, headers).await,
        (expected.0, expected.1.to_owned())
    );
}

#[tokio::test]
async fn flags_about_the_proxy_replace_all_that_the_api_server_says_of_it_and_nothing_else() {
    let own = Authority::new("own proxies");
    let file = Mounted::new(&own.pem());
    let words = [
        &*file.flag("requestheader-client-ca-file"),
        "--requestheader-allowed-names=aggregator,another",
        "--requestheader-username-headers=X-Who",
        "--requestheader-group-headers=X-Team",
        "--requestheader-extra-headers-prefix=X-More-",
    ];
    let stage = Stage::new(&words).await;
    let proxy = own.client("aggregator");
    let said = [
        "X-Who: joe",
        "X-Team: a",
        "X-Team: b",
        "X-More-Scopes: one",
        "X-Remote-Group: system:masters",
    ];
    assert_eq!(stage.connect(Some(&proxy)).await.queue(&said).await, 403);
    let asked = stage.api.reviews();
    let spec = asked.last().unwrap();
    assert_eq!(spec["user"], "joe");
    assert_eq!(
        spec["groups"],
        serde_json::json!(["a", "b", "system:authenticated"])
    );
    assert_eq!(spec["extra"], serde_json::json!({"scopes": ["one"]}));
    // The names are the flags', too, and what the API server says of its proxy counts no more.
    check(&stage, &own.client("front-proxy-client"), &said, (401, "")).await;
    check(
        &stage,
        &stage.proxies.client("front-proxy-client"),
        &["X-Remote-User: joe"],
        (401, ""),
    )
    .await;
    // Clients are the API server's.
    check(&stage, &stage.clients.client("jane"), &said, (403, "jane")).await;
}

#[tokio::test]
async fn with_a_file_the_usual_headers_and_any_name_are_believed() {
    let own = Authority::new("own proxies");
    let file = Mounted::new(&own.pem());
    let stage = Stage::new(&[&file.flag("requestheader-client-ca-file")]).await;
    check(
        &stage,
        &own.client("anybody"),
        &["X-Remote-User: joe"],
        (403, "joe"),
    )
    .await;
}

#[tokio::test]
async fn a_file_of_clients_authorities_leaves_the_proxy_to_the_api_server() {
    let own = Authority::new("own clients");
    let file = Mounted::new(&own.pem());
    let stage = Stage::new(&[&file.flag("client-ca-file")]).await;
    check(
        &stage,
        &own.client("jane"),
        &["X-Remote-User: joe"],
        (403, "jane"),
    )
    .await;
    check(&stage, &stage.clients.client("jane"), &[], (401, "")).await;
    check(
        &stage,
        &stage.proxies.client("front-proxy-client"),
        &["X-Remote-User: joe"],
        (403, "joe"),
    )
    .await;
}

#[tokio::test]
async fn files_change_under_connections_that_live_and_nonsense_in_them_changes_nothing() {
    let (first, next) = (Authority::new("first"), Authority::new("next"));
    let file = Mounted::new(&first.pem());
    let stage = Stage::new(&[&file.flag("client-ca-file")]).await;
    let (mut old, mut new) = (
        stage.connect(Some(&first.client("jane"))).await,
        stage.connect(Some(&next.client("jane"))).await,
    );
    assert_eq!((old.queue(&[]).await, new.queue(&[]).await), (403, 401));
    file.replace("2", &(first.pem() + &next.pem()));
    becomes(&mut new, &[], 403).await;
    assert_eq!(old.queue(&[]).await, 403);
    file.replace("3", "nonsense");
    let report = eventually("nonsense is told", Pace::WITHIN, async || {
        let (_, report) = stage.connect(None).await.get("/readyz?verbose", &[]).await;
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
    let own = Authority::new("own proxies");
    let file = Mounted::new(&own.pem());
    let stage = Stage::new(&[
        "--authentication-skip-lookup",
        &file.flag("requestheader-client-ca-file"),
    ])
    .await;
    check(
        &stage,
        &own.client("proxy"),
        &["X-Remote-User: joe"],
        (403, "joe"),
    )
    .await;
    // Nobody says who signs for clients, so their certificates say nothing, and are wrong as a
    // proxy's.
    check(&stage, &stage.clients.client("jane"), &[], (401, "")).await;
    let nobody = Stage::new(&["--authentication-skip-lookup"]).await;
    check(
        &nobody,
        &nobody.proxies.client("front-proxy-client"),
        &["X-Remote-User: joe"],
        (403, "system:anonymous"),
    )
    .await;
}

/// Whether an adapter with these flags starts where it may not read the `ConfigMap`.
async fn begins(words: &[&str]) -> Result<(), String> {
    runtime::client::install_crypto_provider();
    let api = ApiServer::start(None).await;
    api.known.forbids.send_replace(true);
    let auth = DelegatedAuth::new(
        flags(words),
        api.client.clone(),
        &Registry::new(),
        PREFIX,
        &Readiness::default(),
    )
    .unwrap();
    auth.load().await.map_err(|error| format!("{error:#}"))
}

#[tokio::test]
async fn what_is_not_to_be_looked_up_need_not_be_there() {
    let file = Mounted::new(&Authority::new("both").pem());
    let (clients, proxies) = (
        file.flag("client-ca-file"),
        file.flag("requestheader-client-ca-file"),
    );
    assert_eq!(begins(&[&clients, &proxies]).await, Ok(()));
    assert_eq!(begins(&["--authentication-skip-lookup"]).await, Ok(()));
    assert_eq!(
        begins(&["--authentication-tolerate-lookup-failure"]).await,
        Ok(())
    );
    let error = begins(&[&proxies]).await.unwrap_err();
    assert!(
        error.contains("extension-apiserver-authentication-reader"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_at_the_start() {
    let error = begins(&["--client-ca-file=/nowhere/ca.crt"])
        .await
        .unwrap_err();
    assert!(
        error.starts_with("--client-ca-file: cannot read /nowhere/ca.crt: "),
        "{error}"
    );
    for (text, expected) in [("", "it is empty"), ("nonsense", "no usable certificate")] {
        let error = begins(&[&Mounted::new(text).flag("requestheader-client-ca-file")])
            .await
            .unwrap_err();
        assert!(
            error.starts_with("--requestheader-client-ca-file: ") && error.contains(expected),
            "{error}"
        );
    }
    let file = Mounted::new(&Authority::new("proxies").pem());
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
