//! Certificates of upstreams: from files, and from Secrets and `ConfigMap`s of other programs, which
//! are followed. An entry that cannot be read keeps its last valid value.
//!
//! A provider may use its old certificate for some time after the object has its new CA: a kubelet
//! updates mounted Secrets with a delay. So a replaced CA bundle is trusted for [`OVERLAP`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use metric_routes::{ObjectEntry, ObjectKind, ObjectRef, PemSource, UpstreamSpec};
use parking_lot::Mutex;
use runtime::LogOnce;
use serving::tls::{TlsContents, TlsFiles, check_authorities};

use super::Metrics;

/// The time for which a replaced CA bundle is still trusted.
const OVERLAP: Duration = Duration::from_mins(10);
const TIMEOUT: Duration = Duration::from_secs(2);
/// The largest number of objects that are read at the same time.
const AT_ONCE: usize = 8;
/// The largest size of an entry in bytes.
const MAX_BYTES: usize = 128 * 1024;

/// Reads certificates. Clones share the entries of objects.
#[derive(Clone)]
pub(super) struct PemReader {
    client: Client,
    entries: Arc<Mutex<BTreeMap<ObjectEntry, FollowedEntry>>>,
    metrics: Metrics,
}

#[derive(Default)]
struct FollowedEntry {
    /// The last valid value.
    current: Option<Vec<u8>>,
    /// The value before, and the time of its replacement.
    previous: Option<(Vec<u8>, Instant)>,
    error: Option<String>,
    logged: LogOnce<String>,
}

impl FollowedEntry {
    fn update(&mut self, entry: &ObjectEntry, read: Result<Vec<u8>, String>, now: Instant) {
        match read {
            Ok(value) => {
                self.error = None;
                self.logged.clear();
                if self.current.as_ref() == Some(&value) {
                    return;
                }
                if let Some(before) = self.current.replace(value) {
                    self.previous = Some((before, now));
                    tracing::info!(%entry, "a certificate of an upstream was replaced");
                }
            }
            Err(error) => {
                if let Some(error) = self.logged.update(Some(error.clone())) {
                    tracing::error!(%entry, error, "cannot read a certificate of an upstream; keeping the last valid one");
                }
                self.error = Some(error);
            }
        }
        let is_over = |since: &Instant| now.saturating_duration_since(*since) >= OVERLAP;
        self.previous.take_if(|(_, since)| is_over(since));
    }

    fn current(&self, entry: &ObjectEntry) -> Result<Vec<u8>, String> {
        self.current.clone().ok_or_else(|| {
            let error = self.error.as_deref().unwrap_or("not read yet");
            format!("{entry}: {error}")
        })
    }

    /// The present CA bundle, and the one before during [`OVERLAP`].
    fn bundle(&self, entry: &ObjectEntry, now: Instant) -> Result<Vec<u8>, String> {
        let mut bundle = self.current(entry)?;
        let is_trusted = |since: &Instant| now.saturating_duration_since(*since) < OVERLAP;
        if let Some((previous, _)) = self.previous.as_ref().filter(|(_, at)| is_trusted(at)) {
            bundle.push(b'\n');
            bundle.extend_from_slice(previous);
        }
        Ok(bundle)
    }
}

impl PemReader {
    pub(super) fn new(client: Client, metrics: Metrics) -> Self {
        Self {
            client,
            entries: Arc::default(),
            metrics,
        }
    }

    /// Reads the objects that these upstreams name, and forgets all others.
    pub(super) async fn refresh(&self, upstreams: &[UpstreamSpec]) {
        let wanted: BTreeSet<ObjectEntry> = upstreams.iter().flat_map(entries_of).collect();
        let objects: BTreeSet<ObjectRef> =
            wanted.iter().map(|entry| entry.object.clone()).collect();
        let read = stream::iter(objects).map(|object| async {
            let read = self.object(&object).await;
            (object, read)
        });
        let found: BTreeMap<_, _> = read.buffer_unordered(AT_ONCE).collect().await;
        let sources = upstreams.iter().filter_map(UpstreamSpec::authorities);
        let bundles: BTreeSet<ObjectEntry> = sources.filter_map(entry_of).collect();
        let now = Instant::now();
        {
            let mut entries = self.entries.lock();
            entries.retain(|entry, _| wanted.contains(entry));
            for entry in &wanted {
                let read = match found.get(&entry.object) {
                    Some(Ok(data)) if bundles.contains(entry) => bundle_in(data, entry),
                    // Certificate and key are checked as a pair.
                    Some(Ok(data)) => value_in(data, &entry.key),
                    Some(Err(error)) => Err(error.clone()),
                    None => continue,
                };
                let followed = entries.entry(entry.clone()).or_default();
                followed.update(entry, read, now);
            }
        }
        for upstream in upstreams {
            self.report(upstream);
        }
    }

    /// Sets the metric of an upstream with entries of objects.
    fn report(&self, upstream: &UpstreamSpec) {
        let entries = self.entries.lock();
        let mut own = entries_of(upstream).peekable();
        let is_followed = own.peek().is_some();
        let has_error = own.any(|entry| {
            let followed = entries.get(&entry);
            followed.is_none_or(|followed| followed.error.is_some())
        });
        self.metrics
            .set_certificates_read(&upstream.name, is_followed.then_some(!has_error));
    }

    async fn object(&self, object: &ObjectRef) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let (namespace, name) = (&object.namespace, &object.name);
        let client = self.client.clone();
        let read = async {
            match object.kind {
                ObjectKind::Secret => {
                    let secrets: Api<Secret> = Api::namespaced(client, namespace);
                    let data = secrets.get(name).await?.data.unwrap_or_default();
                    Ok(data
                        .into_iter()
                        .map(|(key, value)| (key, value.0))
                        .collect())
                }
                ObjectKind::ConfigMap => {
                    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
                    let data = maps.get(name).await?.data.unwrap_or_default();
                    let bytes = |(key, text): (String, String)| (key, text.into_bytes());
                    Ok(data.into_iter().map(bytes).collect())
                }
            }
        };
        match tokio::time::timeout(TIMEOUT, read).await {
            Ok(read) => read.map_err(|error: kube::Error| error.to_string()),
            Err(_) => Err(format!("no response within {} s", TIMEOUT.as_secs())),
        }
    }

    /// The value of a source: the text of a file, or that of an entry that `value` returns.
    async fn read(
        &self,
        source: &PemSource,
        value: impl Fn(&FollowedEntry, &ObjectEntry) -> Result<Vec<u8>, String>,
    ) -> Result<Vec<u8>, String> {
        match source {
            PemSource::File(path) => read_file(path).await,
            PemSource::Entry(entry) => {
                let entries = self.entries.lock();
                let missing = || format!("{entry}: not read yet");
                value(entries.get(entry).ok_or_else(missing)?, entry)
            }
        }
    }

    pub(super) async fn authorities(&self, spec: &UpstreamSpec) -> Result<Vec<u8>, String> {
        let source = spec.authorities().ok_or("there is no CA bundle")?;
        let now = Instant::now();
        let bundle = |followed: &FollowedEntry, entry: &ObjectEntry| followed.bundle(entry, now);
        self.read(&source, bundle).await
    }

    /// CA bundle, client certificate and private key of an upstream, and their places for messages.
    pub(super) async fn client_contents(
        &self,
        spec: &UpstreamSpec,
    ) -> Result<(TlsContents, TlsFiles), String> {
        let missing = "the client certificate of KEDA's operator is missing";
        let [certificate, private_key] = spec.client_certificate().ok_or(missing)?;
        let contents = TlsContents {
            certificate: self.read(&certificate, FollowedEntry::current).await?,
            private_key: self.read(&private_key, FollowedEntry::current).await?,
            authorities: Some(self.authorities(spec).await?),
        };
        let place = |source: PemSource| source.to_string().into();
        let places = TlsFiles {
            certificate: place(certificate),
            private_key: place(private_key),
            authorities: spec.authorities().map(place),
        };
        Ok((contents, places))
    }
}

async fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let read = tokio::fs::read(path).await;
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn entries_of(upstream: &UpstreamSpec) -> impl Iterator<Item = ObjectEntry> {
    let certificate = upstream.client_certificate().into_iter().flatten();
    let sources = upstream.authorities().into_iter().chain(certificate);
    sources.filter_map(entry_of)
}

fn entry_of(source: PemSource) -> Option<ObjectEntry> {
    match source {
        PemSource::Entry(entry) => Some(entry),
        PemSource::File(_) => None,
    }
}

fn value_in(data: &BTreeMap<String, Vec<u8>>, key: &str) -> Result<Vec<u8>, String> {
    let value = data.get(key).ok_or("the object has no such entry")?;
    if value.len() > MAX_BYTES {
        let length = value.len();
        return Err(format!("{length} bytes, at most {MAX_BYTES} are allowed"));
    }
    Ok(value.clone())
}

fn bundle_in(data: &BTreeMap<String, Vec<u8>>, entry: &ObjectEntry) -> Result<Vec<u8>, String> {
    let value = value_in(data, &entry.key)?;
    check_authorities(&value, Path::new(&entry.key)).map_err(|error| error.to_string())?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[u8] = b"-----BEGIN CERTIFICATE-----\nAQ==\n-----END CERTIFICATE-----\n";
    const TWO: &[u8] = b"two";

    fn entry() -> ObjectEntry {
        let object = ObjectRef {
            kind: ObjectKind::Secret,
            namespace: "keda".to_owned(),
            name: "kedaorg-certs".to_owned(),
        };
        ObjectEntry {
            object,
            key: "ca.crt".to_owned(),
        }
    }

    #[test]
    fn a_replaced_bundle_is_trusted_for_the_overlap() {
        let (entry, start) = (entry(), Instant::now());
        let mut followed = FollowedEntry::default();
        assert!(followed.bundle(&entry, start).is_err());
        followed.update(&entry, Ok(ONE.to_vec()), start);
        assert_eq!(followed.bundle(&entry, start).unwrap(), ONE);
        followed.update(&entry, Ok(TWO.to_vec()), start);
        let both = [TWO, b"\n", ONE].concat();
        assert_eq!(followed.bundle(&entry, start).unwrap(), both);
        let before = start + OVERLAP / 2;
        followed.update(&entry, Ok(TWO.to_vec()), before);
        assert_eq!(followed.bundle(&entry, before).unwrap(), both);
        assert_eq!(followed.bundle(&entry, start + OVERLAP).unwrap(), TWO);
        followed.update(&entry, Err("gone".to_owned()), start + OVERLAP);
        assert!(followed.previous.is_none());
    }

    #[test]
    fn the_last_valid_value_is_kept_after_an_error() {
        let (entry, now) = (entry(), Instant::now());
        let mut followed = FollowedEntry::default();
        followed.update(&entry, Err("forbidden".to_owned()), now);
        let error = followed.bundle(&entry, now).unwrap_err();
        assert_eq!(error, "ca.crt of Secret keda/kedaorg-certs: forbidden");
        followed.update(&entry, Ok(ONE.to_vec()), now);
        followed.update(&entry, Err("forbidden".to_owned()), now);
        assert_eq!(followed.bundle(&entry, now).unwrap(), ONE);
        assert_eq!(followed.error.as_deref(), Some("forbidden"));
    }

    #[test]
    fn a_bundle_must_be_whole_and_small() {
        let certificate = || {
            let own = rcgen::generate_simple_self_signed(["keda".to_owned()]).unwrap();
            own.cert.pem().into_bytes()
        };
        let (one, two) = (certificate(), certificate());
        let read = |value: &[u8]| {
            let data = [("ca.crt".to_owned(), value.to_vec())].into();
            bundle_in(&data, &entry()).map(drop)
        };
        let both = [one.clone(), two.clone()].concat();
        assert_eq!((read(&one), read(&both)), (Ok(()), Ok(())));
        for invalid in [b"", &b"text"[..], ONE, &[&one, &two[..40]].concat()] {
            assert!(read(invalid).is_err(), "{invalid:?}");
        }
        let large = [one, vec![b'\n'; MAX_BYTES]].concat();
        let error = format!("{} bytes, at most 131072 are allowed", large.len());
        assert_eq!(read(&large), Err(error));
        assert!(bundle_in(&BTreeMap::new(), &entry()).is_err());
    }
}
