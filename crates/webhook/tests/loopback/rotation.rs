//! Certificates and authorities are replaced again and again while the API server asks 500 times per second, and not one
//! question fails: neither with the bundle that is registered, nor with the one before it.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::ByteString;
use kube::Api;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use runtime::certificates::{Managed, Profile};
use runtime::tls::{ServingProfile, TlsFiles};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use webhook::certificates::{Files, Source};
use webhook::registration::CONFIGURATION;
use webhook::serve::LIMITS;

use crate::client::{Connection, trusting};
use crate::objects::Objects;
use crate::running::{NAME, Replica};

/// Clients, each of which asks at this interval: 500 questions per second.
const CLIENTS: usize = 10;
const INTERVAL: Duration = Duration::from_millis(20);
/// Questions on one connection.
const KEPT: u32 = 8;

fn swift() -> Profile {
    Profile {
        authority_age: Duration::from_secs(4),
        leaf_age: Duration::from_secs(2),
        settling: Duration::from_millis(300),
        overlap: Duration::from_secs(1),
        tick: Duration::from_millis(100),
        ..Profile::default()
    }
}

fn managed(objects: &Objects) -> Source {
    Source::Managed(Box::new(Managed {
        secrets: Api::namespaced(objects.client(), "suite"),
        secret: "vpa-tls-certs".to_owned(),
        authority: "test".to_owned(),
        names: vec![NAME.to_owned()],
        profile: swift(),
        serving: ServingProfile::default(),
    }))
}

fn registered(objects: &Objects) -> Result<String> {
    let configuration = objects.get(CONFIGURATION).context("nothing is registered")?;
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let bundle: ByteString = serde_json::from_value(bundle).context("no bundle")?;
    Ok(String::from_utf8(bundle.0)?)
}

/// What the API servers trust: the registered bundle, or the one before it where news travel slowly.
#[derive(Default)]
struct Trust {
    seen: Vec<String>,
    leaves: BTreeSet<String>,
}

/// Watches what is registered and served until `enough` of both were seen.
async fn watch(
    objects: &Objects,
    trust: &Mutex<Trust>,
    leaf: impl Fn() -> Result<String>,
    enough: (usize, usize),
) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        let (bundle, leaf) = (registered(objects)?, leaf()?);
        let (bundles, leaves) = {
            let mut trust = trust.lock().unwrap();
            if trust.seen.last() != Some(&bundle) {
                trust.seen.push(bundle);
            }
            trust.leaves.insert(leaf);
            (trust.seen.len(), trust.leaves.len())
        };
        if bundles >= enough.0 && leaves >= enough.1 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{bundles} bundles and {leaves} certificates in two minutes");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Asks until it is stopped; gives how often. Any failure is an error.
async fn ask(
    replicas: Arc<Vec<Replica>>,
    trust: Arc<Mutex<Trust>>,
    client: usize,
    news_travel_slowly: bool,
    stop: Arc<Mutex<bool>>,
) -> Result<u32> {
    let mut asked = 0;
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    // Every other client has heard of the last bundle but not of the present one.
    let behind = if news_travel_slowly { client % 2 } else { 0 };
    while !*stop.lock().unwrap() {
        let replica = &replicas[(client / 2) % replicas.len()];
        let (bundle, number) = {
            let trust = trust.lock().unwrap();
            let number = trust.seen.len().saturating_sub(1 + behind);
            (trust.seen[number].clone(), number)
        };
        let wrong = || format!("client {client}, question {asked}, bundle {number}");
        let mut connection = Connection::open(replica.address, NAME, &trusting(&bundle)?).await.with_context(wrong)?;
        for question in 0..KEPT {
            ticks.tick().await;
            connection.admit(&format!("{client}-{asked}-{question}")).await.with_context(wrong)?;
        }
        asked += KEPT;
    }
    Ok(asked)
}

async fn under_load(
    replicas: Vec<Replica>,
    objects: &Objects,
    leaf: impl Fn() -> Result<String>,
    enough: (usize, usize),
    news_travel_slowly: bool,
    meanwhile: impl Future<Output = Result<()>>,
) -> Result<()> {
    let (replicas, trust, stop) =
        (Arc::new(replicas), Arc::new(Mutex::new(Trust::default())), Arc::new(Mutex::new(false)));
    let started = Instant::now();
    while registered(objects).is_err() {
        ensure!(started.elapsed() < Duration::from_secs(30), "nothing is registered");
        sleep(Duration::from_millis(10)).await;
    }
    trust.lock().unwrap().seen.push(registered(objects)?);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(ask(replicas.clone(), trust.clone(), client, news_travel_slowly, stop.clone()));
    }
    let watched = watch(objects, &trust, leaf, enough);
    let (watched, done) = tokio::join!(watched, meanwhile);
    *stop.lock().unwrap() = true;
    let mut asked = 0;
    for client in clients.join_all().await {
        asked += client?;
    }
    watched?;
    done?;
    ensure!(asked > 500, "only {asked} questions");
    eprintln!("{asked} questions in {:?}, none failed", started.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_replace_their_certificates_and_authorities_twice_under_load() -> Result<()> {
    let objects = Objects::default();
    let replicas = vec![
        Replica::start(managed(&objects), &objects, LIMITS).await?,
        Replica::start(managed(&objects), &objects, LIMITS).await?,
    ];
    let leaf = || {
        let secret = objects.get("vpa-tls-certs").context("no secret")?;
        Ok(secret["data"]["serverCert.pem"].to_string())
    };
    // One, both, the new one alone; both, the new one alone.
    under_load(replicas, &objects, leaf, (5, 5), true, async { Ok(()) }).await
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

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    fn issue(&self) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([NAME.to_owned()])?.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_swapped_under_load() -> Result<()> {
    let objects = Objects::default();
    let mut mounted = Mounted { folder: tempfile::tempdir()?, revision: 0 };
    for name in ["cert", "key", "ca"] {
        symlink(Path::new("..data").join(name), mounted.path(name))?;
    }
    let mut authority = Authority::new("first")?;
    let (certificate, key) = authority.issue()?;
    mounted.put(&certificate, &key, &authority.pem)?;
    let files = TlsFiles { certificate: mounted.path("cert"), private_key: mounted.path("key"), authorities: None };
    let files =
        Files { files, authorities: Some(mounted.path("ca")), follow: true, serving: ServingProfile::default() };
    let replica = Replica::start(Source::Files(files), &objects, LIMITS).await?;
    let address = replica.address;
    let served = mounted.path("cert");
    let leaf = move || std::fs::read_to_string(&served).context("the certificate");
    let bundle_becomes = async |expected: &str| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while registered(&objects).ok().as_deref() != Some(expected) {
            ensure!(Instant::now() < deadline, "the new authorities are not registered");
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    let swaps = async {
        bundle_becomes(&authority.pem).await?;
        for name in ["second", "third"] {
            // The order in which people must do it: trust both, change, trust the new one.
            let next = Authority::new(name)?;
            let both = format!("{}{}", next.pem, authority.pem);
            let (old_certificate, old_key) = (leaf()?, std::fs::read_to_string(mounted.path("key"))?);
            mounted.put(&old_certificate, &old_key, &both)?;
            bundle_becomes(&both).await?;
            let (certificate, key) = next.issue()?;
            mounted.put(&certificate, &key, &both)?;
            let deadline = Instant::now() + Duration::from_secs(30);
            let connector = trusting(&next.pem)?;
            while Connection::open(address, NAME, &connector).await.is_err() {
                ensure!(Instant::now() < deadline, "the new certificate is not served");
                sleep(Duration::from_millis(20)).await;
            }
            mounted.put(&certificate, &key, &next.pem)?;
            bundle_becomes(&next.pem).await?;
            authority = next;
        }
        Ok(())
    };
    under_load(vec![replica], &objects, || Ok(String::new()), (5, 1), false, swaps).await
}
