//! Certificates and authorities are replaced again and again while the API server asks 500 times
//! per second, and not one question fails: neither with the bundle that is registered, nor with the
//! one before it.

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

use crate::authority::Authority;
use crate::client::{Connection, trusting};
use crate::objects::Objects;
use crate::running::{NAME, Replica};

/// Clients, each of which asks at this interval: 500 questions per second.
const CLIENTS: usize = 10;
const INTERVAL: Duration = Duration::from_millis(20);
/// Questions on one connection.
const KEPT: u32 = 8;
/// Questions at least, in all.
const QUESTIONS: u32 = 500;

fn swift() -> RotationPolicy {
    RotationPolicy {
        authority_age: Duration::from_secs(4),
        leaf_age: Duration::from_secs(2),
        settling: Duration::from_millis(300),
        overlap: Duration::from_secs(1),
        tick: Duration::from_millis(100),
        ..RotationPolicy::default()
    }
}

pub(crate) fn managed(objects: &Objects, profile: RotationPolicy) -> Source {
    Source::Managed(Box::new(ManagedConfig {
        secrets: Api::namespaced(objects.client(), "suite"),
        secret: "vpa-tls-certs".to_owned(),
        authority: "test".to_owned(),
        names: vec![NAME.to_owned()],
        profile,
        serving: ServingProfile::default(),
    }))
}

fn bundle(configuration: &Value) -> Result<String> {
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let bundle: ByteString = serde_json::from_value(bundle).context("no bundle")?;
    Ok(String::from_utf8(bundle.0)?)
}

/// What was registered so far, in order: API servers trust the last of these, or the one before it
/// where news travel slowly.
pub(crate) fn bundles(objects: &Objects) -> Result<Vec<String>> {
    let mut bundles: Vec<String> = objects
        .versions(CONFIGURATION)
        .iter()
        .map(bundle)
        .collect::<Result<_>>()?;
    bundles.dedup();
    Ok(bundles)
}

/// The API server, or one of several.
struct Asking {
    replicas: Vec<Replica>,
    objects: Objects,
    news_travel_slowly: bool,
    asked: AtomicU32,
    stop: CancellationToken,
}

impl Asking {
    /// Asks until it is stopped. Any failure is an error.
    async fn ask(&self, client: usize) -> Result<()> {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while !self.stop.is_cancelled() {
            let wrong = || {
                format!(
                    "client {client}, after {} questions",
                    self.asked.load(Ordering::Relaxed)
                )
            };
            let Some(mut connection) = self.connect(client).await.with_context(wrong)? else {
                continue;
            };
            for question in 0..KEPT {
                ticks.tick().await;
                connection
                    .admit(&format!("{client}-{question}"))
                    .await
                    .with_context(wrong)?;
                self.asked.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// A connection with a bundle that is to be trusted. None where it no longer was when the
    /// connection failed, since a busy machine held this client up for so long.
    async fn connect(&self, client: usize) -> Result<Option<Connection>> {
        let replica = &self.replicas[(client / 2) % self.replicas.len()];
        // Every other client has heard of the last bundle but not of the present one.
        let lag = usize::from(self.news_travel_slowly);
        let known = bundles(&self.objects)?;
        let chosen = (known.len() - 1).saturating_sub(lag * (client % 2));
        let opened = Connection::open(replica.address, NAME, &trusting(&known[chosen])?).await;
        if opened.is_err() && chosen + 1 + lag < bundles(&self.objects)?.len() {
            return Ok(None);
        }
        opened.map(Some).with_context(|| format!("bundle {chosen}"))
    }
}

/// Asks until so many bundles and certificates were seen, and `meanwhile` is over.
pub(crate) async fn under_load(
    replicas: Vec<Replica>,
    objects: &Objects,
    news_travel_slowly: bool,
    (enough_bundles, enough_certificates): (usize, usize),
    meanwhile: impl Future<Output = Result<()>>,
) -> Result<()> {
    eventually("something is registered", Pace::WITHIN, async || {
        objects.get(CONFIGURATION).context("nothing is")
    })
    .await?;
    let started = Instant::now();
    let (objects, asked, stop) = (objects.clone(), AtomicU32::new(0), CancellationToken::new());
    let asking = Arc::new(Asking {
        replicas,
        objects: objects.clone(),
        news_travel_slowly,
        asked,
        stop,
    });
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let asking = Arc::clone(&asking);
        clients.spawn(async move { asking.ask(client).await });
    }
    let enough = eventually(
        "there were enough bundles, certificates and questions",
        Pace::WITHIN,
        async || {
            let bundles = bundles(&objects).map_or(0, |bundles| bundles.len());
            let (certificates, asked) =
                (certificates(&objects), asking.asked.load(Ordering::Relaxed));
            let is_enough = bundles >= enough_bundles
                && certificates >= enough_certificates
                && asked >= QUESTIONS;
            ensure!(
                is_enough,
                "{bundles} bundles, {certificates} certificates, {asked} questions"
            );
            Ok(())
        },
    );
    let (enough, done) = tokio::join!(enough, meanwhile);
    asking.stop.cancel();
    for client in clients.join_all().await {
        client?;
    }
    done?;
    eprintln!(
        "{} questions in {:?}, none failed",
        asking.asked.load(Ordering::Relaxed),
        started.elapsed()
    );
    enough
}

/// How many different certificates were in the Secret so far.
fn certificates(objects: &Objects) -> usize {
    let secrets = objects.versions("vpa-tls-certs");
    secrets
        .iter()
        .map(|secret| secret["data"]["serverCert.pem"].to_string())
        .collect::<BTreeSet<_>>()
        .len()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_replace_their_certificates_and_authorities_twice_under_load() -> Result<()> {
    let objects = Objects::default();
    let replicas = vec![
        Replica::start(managed(&objects, swift()), &objects, LIMITS).await?,
        Replica::start(managed(&objects, swift()), &objects, LIMITS).await?,
    ];
    // One, both, the new one alone; both, the new one alone.
    under_load(replicas, &objects, true, (5, 5), async { Ok(()) }).await
}

/// Certificates in a folder as a kubelet keeps it.
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
async fn files_are_swapped_under_load() -> Result<()> {
    let objects = Objects::default();
    let mut mounted = Mounted {
        folder: tempfile::tempdir()?,
        revision: 0,
    };
    for name in ["cert", "key", "ca"] {
        symlink(Path::new("..data").join(name), mounted.path(name))?;
    }
    let mut authority = Authority::new("first")?;
    let (certificate, key) = authority.issue(None)?;
    mounted.put(&certificate, &key, &authority.pem)?;
    let files = TlsFiles {
        certificate: mounted.path("cert"),
        private_key: mounted.path("key"),
        authorities: None,
    };
    let files = Files {
        files,
        authorities: Some(mounted.path("ca")),
        follow: true,
        serving: ServingProfile::default(),
    };
    let replica = Replica::start(Source::Files(files), &objects, LIMITS).await?;
    let address = replica.address;
    let bundle_becomes = async |expected: &str| {
        let is_so = || {
            objects
                .get(CONFIGURATION)
                .is_some_and(|now| bundle(&now).is_ok_and(|now| now == expected))
        };
        eventually(
            "the new authorities are registered",
            Pace::WITHIN,
            async || {
                ensure!(is_so(), "the old ones are");
                Ok(())
            },
        )
        .await
    };
    let swaps = async {
        bundle_becomes(&authority.pem).await?;
        for name in ["second", "third"] {
            // The order in which people must do it: trust both, change, trust the new one.
            let next = Authority::new(name)?;
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
    under_load(vec![replica], &objects, false, (5, 0), swaps).await
}
