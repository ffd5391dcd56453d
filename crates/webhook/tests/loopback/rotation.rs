//! Rotation of certificates and CAs under 500 reviews per second. No review fails, with the
//! registered bundle or the previous one.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::ByteString;
use kube::Api;
use serde_json::Value;
use serving::certificates::{Files, ManagedConfig, RotationPolicy, Source};
use serving::tls::{ServingProfile, TlsFiles};
use tempfile::TempDir;
use testing::{Pace, eventually};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use webhook::registration::CONFIGURATION;
use webhook::serve::LIMITS;

use crate::api_server::ApiServer;
use crate::ca::Ca;
use crate::client::{Connection, trusting};
use crate::fixture::{NAME, Replica};

/// Clients with one review per interval each: 500 reviews per second.
const CLIENTS: usize = 10;
const INTERVAL: Duration = Duration::from_millis(20);
const REVIEWS_PER_CONNECTION: u32 = 8;
/// Minimum number of reviews.
const MIN_REVIEWS: u32 = 500;

fn fast_rotation() -> RotationPolicy {
    RotationPolicy {
        authority_age: Duration::from_secs(4),
        leaf_age: Duration::from_secs(2),
        settling: Duration::from_millis(300),
        overlap: Duration::from_secs(1),
        tick: Duration::from_millis(100),
        ..RotationPolicy::default()
    }
}

pub(crate) fn managed(api_server: &ApiServer, profile: RotationPolicy) -> Source {
    Source::Managed(Box::new(ManagedConfig {
        secrets: Api::namespaced(api_server.client(), "suite"),
        secret: "vpa-tls-certs".to_owned(),
        authority: "test".to_owned(),
        names: vec![NAME.to_owned()],
        profile,
        serving: ServingProfile::default(),
    }))
}

/// The files that `path` has for `cert`, `key` and the name of a CA bundle.
pub(crate) fn files(path: impl Fn(&str) -> PathBuf, bundle: Option<&str>) -> Source {
    let files = TlsFiles {
        certificate: path("cert"),
        private_key: path("key"),
        authorities: None,
    };
    Source::Files(Files {
        files,
        authorities: bundle.map(path),
        follow: true,
        serving: ServingProfile::default(),
    })
}

fn bundle(configuration: &Value) -> Result<String> {
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let bundle: ByteString = serde_json::from_value(bundle).context("no bundle")?;
    Ok(String::from_utf8(bundle.0)?)
}

/// The bundles registered so far, oldest first. API servers use the last one, or for a while the
/// one before.
pub(crate) fn bundles(api_server: &ApiServer) -> Result<Vec<String>> {
    let versions = api_server.versions(CONFIGURATION);
    let mut bundles = versions.iter().map(bundle).collect::<Result<Vec<_>>>()?;
    bundles.dedup();
    Ok(bundles)
}

struct Clients {
    replicas: Vec<Replica>,
    api_server: ApiServer,
    with_lag: bool,
    sent: AtomicU32,
    stop: CancellationToken,
}

impl Clients {
    /// Sends reviews until stopped. Any failure is an error.
    async fn run(&self, client: usize) -> Result<()> {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while !self.stop.is_cancelled() {
            let sent = || self.sent.load(Ordering::Relaxed);
            let wrong = || format!("client {client}, after {} reviews", sent());
            let Some(mut connection) = self.connect(client).await.with_context(wrong)? else {
                continue;
            };
            for review in 0..REVIEWS_PER_CONNECTION {
                ticks.tick().await;
                let admitted = connection.admit(&format!("{client}-{review}")).await;
                admitted.with_context(wrong)?;
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// A connection that trusts the last or the previous bundle. `None` if it failed and the bundle
    /// is outdated by now, because a busy machine delayed this client.
    async fn connect(&self, client: usize) -> Result<Option<Connection>> {
        let replica = &self.replicas[(client / 2) % self.replicas.len()];
        // Every other client has the previous bundle.
        let lag = usize::from(self.with_lag);
        let known = bundles(&self.api_server)?;
        let chosen = (known.len() - 1).saturating_sub(lag * (client % 2));
        let opened = Connection::open(replica.address, NAME, &trusting(&known[chosen])?).await;
        if opened.is_err() && chosen + 1 + lag < bundles(&self.api_server)?.len() {
            return Ok(None);
        }
        opened.map(Some).with_context(|| format!("bundle {chosen}"))
    }
}

/// Sends reviews until this many bundles and certificates were seen and `meanwhile` has ended.
pub(crate) async fn under_load(
    replicas: Vec<Replica>,
    api_server: &ApiServer,
    with_lag: bool,
    (enough_bundles, enough_certificates): (usize, usize),
    meanwhile: impl Future<Output = Result<()>>,
) -> Result<()> {
    eventually("something is registered", Pace::WITHIN, async || {
        api_server.get(CONFIGURATION).context("nothing is")
    })
    .await?;
    let started = Instant::now();
    let load = Arc::new(Clients {
        replicas,
        api_server: api_server.clone(),
        with_lag,
        sent: AtomicU32::new(0),
        stop: CancellationToken::new(),
    });
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let load = Arc::clone(&load);
        clients.spawn(async move { load.run(client).await });
    }
    let sent = || load.sent.load(Ordering::Relaxed);
    let enough = eventually("there was enough of each", Pace::WITHIN, async || {
        let bundles = bundles(api_server).map_or(0, |bundles| bundles.len());
        let (certificates, sent) = (certificates(api_server), sent());
        let all = format!("{bundles} bundles, {certificates} certificates, {sent} reviews");
        let rotated = bundles >= enough_bundles && certificates >= enough_certificates;
        ensure!(rotated && sent >= MIN_REVIEWS, all);
        Ok(())
    });
    let (enough, done) = tokio::join!(enough, meanwhile);
    load.stop.cancel();
    for client in clients.join_all().await {
        client?;
    }
    done?;
    let took = started.elapsed();
    eprintln!("{} reviews in {took:?}, none failed", sent());
    enough
}

/// The number of different certificates that were in the Secret.
fn certificates(api_server: &ApiServer) -> usize {
    let secrets = api_server.versions("vpa-tls-certs");
    let certificates = secrets
        .iter()
        .map(|secret| &secret["data"]["serverCert.pem"]);
    let certificates: BTreeSet<_> = certificates.map(Value::to_string).collect();
    certificates.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_rotate_certificates_and_cas_twice_under_load() -> Result<()> {
    let api_server = ApiServer::default();
    let start = || Replica::start(managed(&api_server, fast_rotation()), &api_server, LIMITS);
    let replicas = vec![start().await?, start().await?];
    // The first CA, both, the second alone; both, the third alone.
    under_load(replicas, &api_server, true, (5, 5), async { Ok(()) }).await
}

/// Certificates in a mounted folder, as the kubelet writes it.
struct Mounted {
    folder: TempDir,
    revision: u32,
}

impl Mounted {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&mut self, certificate: &str, key: &str, authorities: &str) -> Result<()> {
        self.revision += 1;
        let revision = format!("..{}", self.revision);
        std::fs::create_dir(self.path(&revision))?;
        for (name, text) in [("cert", certificate), ("key", key), ("ca", authorities)] {
            std::fs::write(self.path(&revision).join(name), text)?;
        }
        symlink(&revision, self.path("..next"))?;
        Ok(std::fs::rename(self.path("..next"), self.path("..data"))?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_replaced_under_load() -> Result<()> {
    let api_server = ApiServer::default();
    let mut mounted = Mounted {
        folder: tempfile::tempdir()?,
        revision: 0,
    };
    for name in ["cert", "key", "ca"] {
        symlink(Path::new("..data").join(name), mounted.path(name))?;
    }
    let mut authority = Ca::new("first")?;
    let (certificate, key) = authority.issue(None)?;
    mounted.put(&certificate, &key, &authority.pem)?;
    let source = files(|name| mounted.path(name), Some("ca"));
    let replica = Replica::start(source, &api_server, LIMITS).await?;
    let address = replica.address;
    let bundle_becomes = async |expected: &str| {
        eventually("the new CAs are registered", Pace::WITHIN, async || {
            let now = api_server.get(CONFIGURATION).context("none")?;
            ensure!(bundle(&now)? == expected, "the old ones are");
            Ok(())
        })
        .await
    };
    let swaps = async {
        bundle_becomes(&authority.pem).await?;
        for name in ["second", "third"] {
            // The order for users: trust both, replace the certificate, trust the new CA alone.
            let next = Ca::new(name)?;
            let both = format!("{}{}", next.pem, authority.pem);
            let old = |name: &str| std::fs::read_to_string(mounted.path(name));
            let (old_certificate, old_key) = (old("cert")?, old("key")?);
            mounted.put(&old_certificate, &old_key, &both)?;
            bundle_becomes(&both).await?;
            let (certificate, key) = next.issue(None)?;
            mounted.put(&certificate, &key, &both)?;
            let connector = trusting(&next.pem)?;
            let is_served = async || Connection::open(address, NAME, &connector).await.map(drop);
            eventually("the new certificate is served", Pace::WITHIN, is_served).await?;
            mounted.put(&certificate, &key, &next.pem)?;
            bundle_becomes(&next.pem).await?;
            authority = next;
        }
        Ok(())
    };
    under_load(vec![replica], &api_server, false, (5, 0), swaps).await
}
