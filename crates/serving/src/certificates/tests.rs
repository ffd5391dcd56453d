//! Rotation of certificates against a store with resource versions like the API server's.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;

use super::*;

mod clocks;
mod loss;

pub(super) const NAME: &str = "webhook.shop.svc";
const PATH: &str = "/api/v1/namespaces/shop/secrets/tls";

/// One Secret, with its first field manager.
#[derive(Clone, Default)]
struct Store {
    secret: Arc<Mutex<Option<(Value, String)>>>,
    /// The number of writes that still succeed; `None` for all.
    writes: Arc<Mutex<Option<u32>>>,
}

impl Store {
    fn router(&self) -> axum::Router {
        axum::Router::new()
            .route(PATH, get(read).patch(write))
            .with_state(self.clone())
    }

    fn version(&self) -> u64 {
        let secret = self.secret.lock().unwrap();
        secret.as_ref().map_or(0, |(secret, _)| version(secret))
    }

    fn client(&self) -> kube::Client {
        let router = self.router();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let router = router.clone();
            async move { router.oneshot(request.map(Body::new)).await }
        });
        kube::Client::new(service, "shop")
    }

    fn managed(&self) -> ManagedConfig {
        let instant = RotationPolicy {
            settling: Duration::ZERO,
            ..RotationPolicy::default()
        };
        ManagedConfig {
            secrets: Api::namespaced(self.client(), "shop"),
            secret: "tls".to_owned(),
            authority: "shop authority".to_owned(),
            names: vec![NAME.to_owned(), "127.0.0.1".to_owned()],
            profile: instant,
            serving: ServingProfile::default(),
        }
    }

    fn put(&self, data: &[(&str, &str)]) {
        let bytes = |text: &str| k8s_openapi::ByteString(text.as_bytes().to_vec());
        let data: BTreeMap<_, _> = data
            .iter()
            .map(|(name, text)| (name, bytes(text)))
            .collect();
        let secret = json!({"metadata": {"name": "tls", "resourceVersion": "1"}, "data": data});
        *self.secret.lock().unwrap() = Some((secret, "kubectl".to_owned()));
    }
}

fn version(secret: &Value) -> u64 {
    let version = secret["metadata"]["resourceVersion"].as_str();
    version.map_or(0, |version| version.parse().unwrap())
}

fn refuse(code: StatusCode) -> Response {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    let status = json!({"status": "Failure", "message": code.as_str(), "reason": reason, "code": code.as_u16()});
    (code, Json(status)).into_response()
}

async fn read(State(store): State<Store>) -> Response {
    let secret = store.secret.lock().unwrap().clone();
    match secret {
        Some((secret, _)) => Json(secret).into_response(),
        None => refuse(StatusCode::NOT_FOUND),
    }
}

async fn write(
    State(store): State<Store>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let change: Value = serde_json::from_str(&body).unwrap();
    if let Some(left) = store.writes.lock().unwrap().as_mut() {
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => return refuse(StatusCode::FORBIDDEN),
        }
    }
    let mut stored = store.secret.lock().unwrap();
    let is_apply = headers["content-type"].to_str().unwrap().contains("apply");
    let (mut secret, owner) = match (stored.clone(), is_apply) {
        (None, true) => (change.clone(), query["fieldManager"].clone()),
        // The field manager is new each time, so an existing Secret belongs to another.
        (Some(_), true) => return refuse(StatusCode::CONFLICT),
        (None, false) => return refuse(StatusCode::NOT_FOUND),
        (Some((secret, owner)), false) => {
            if secret["metadata"]["resourceVersion"] != change["metadata"]["resourceVersion"] {
                return refuse(StatusCode::CONFLICT);
            }
            let mut changed = secret;
            for (name, value) in change["data"].as_object().unwrap() {
                match value {
                    Value::Null => drop(changed["data"].as_object_mut().unwrap().remove(name)),
                    value => changed["data"][name] = value.clone(),
                }
            }
            (changed, owner)
        }
    };
    secret["metadata"]["resourceVersion"] = (version(&secret) + 1).to_string().into();
    *stored = Some((secret.clone(), owner));
    Json(secret).into_response()
}

/// Whether a client that trusts `bundle` accepts the served certificate in a handshake at `now`.
/// As in Go, a CA counts only while it is valid.
fn is_trusted(tls: &ManagedTls, bundle: &str, now: SystemTime) -> bool {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        let authority = authority.unwrap();
        let (_, read) = X509Certificate::from_der(&authority).unwrap();
        let now = ASN1Time::from_timestamp(seconds(now)).unwrap();
        if read.validity().is_valid_at(now) {
            roots.add(authority.clone()).unwrap();
        }
    }
    if roots.is_empty() {
        return false;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = builder.build().unwrap();
    let (chain, _) = tls.in_use.served().unwrap();
    let now = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap());
    [NAME, "127.0.0.1"].into_iter().all(|name| {
        let name = ServerName::try_from(name).unwrap();
        let result = verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], now);
        result.is_ok()
    })
}

async fn begun(store: &Store) -> Result<ManagedTls> {
    let clock = ApiServerClock::default();
    clock.observe(begin(), begin(), start());
    ManagedTls::start(store.managed(), &clock).await
}

impl ManagedTls {
    /// A tick at a time by which both clocks have advanced equally since the start.
    async fn tick_at(&mut self, registered: Option<&str>, now: SystemTime) -> Result<()> {
        let steady = start() + now.duration_since(begin()).unwrap();
        self.tick(registered, now, steady).await
    }
}

/// The monotonic clock at [`begin`].
fn start() -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START
}

fn leaf(tls: &ManagedTls) -> &Certificate {
    &tls.in_use.chain[0]
}

pub(super) fn begin() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(500_000)
}

pub(super) const DAY: Duration = Duration::from_hours(24);

/// A CA that is valid from `now` for these days.
pub(super) fn authority(now: SystemTime, days: u32) -> issue::Pair {
    let made = issue::authority("shop", now, DAY * days, None);
    made.unwrap().authority
}

/// A server certificate that is valid from `now` for these days.
pub(super) fn leaf_of(authority: &issue::Pair, now: SystemTime, days: u32) -> issue::Pair {
    let (authority, names) = (
        (&authority.certificate, &*authority.key),
        [NAME, "127.0.0.1"],
    );
    let names = names.map(str::to_owned);
    issue::leaf(authority, &names, Side::Server, now, DAY * days).unwrap()
}

#[tokio::test]
async fn for_three_years_clients_with_this_or_the_previous_bundle_trust_the_server() {
    let store = Store::default();
    let mut tls = begun(&store).await.unwrap();
    let (mut bundles, mut leaves, mut authorities) = (vec![tls.bundle()], 1, 1);
    // The clients' bundle follows a tick later, as when another program writes it.
    let mut registered = tls.bundle();
    for hour in (12..3 * 365 * 24).step_by(12) {
        let now = begin() + Duration::from_hours(1) * hour;
        let (old_leaf, old_bundle) = (leaf(&tls).clone(), tls.bundle());
        tls.tick_at(Some(&registered), now).await.unwrap();
        registered.clone_from(&old_bundle);
        leaves += usize::from(*leaf(&tls) != old_leaf);
        if tls.bundle() != old_bundle {
            authorities += usize::from(tls.stored.contents.authorities.len() > 1);
            bundles.push(tls.bundle());
            let last = &bundles[bundles.len() - 2];
            assert!(is_trusted(&tls, last, now), "hour {hour}");
        }
        for bundle in [&tls.bundle(), &old_bundle] {
            assert!(is_trusted(&tls, bundle, now), "hour {hour}");
        }
    }
    assert_eq!((authorities, tls.stored.contents.authorities.len()), (7, 1));
    assert!((36..=48).contains(&leaves), "{leaves} in 36 months");
}

#[tokio::test]
async fn a_client_with_the_old_bundle_trusts_the_new_certificate() {
    let store = Store::default();
    let mut tls = begun(&store).await.unwrap();
    let (first, old) = (tls.bundle(), leaf(&tls).clone());
    let later = begin() + DAY * 181;
    let before = begin() + DAY * 179;
    tls.tick_at(Some(&first), before).await.unwrap();
    tls.tick_at(Some(&first), later).await.unwrap();
    assert_ne!(tls.bundle(), first);
    let both = tls.bundle();
    assert!(both.ends_with(&first), "the new one comes first");
    tls.tick_at(Some(&both), later).await.unwrap();
    assert!(*leaf(&tls) != old && !leaf(&tls).is_signed_by(&Certificate::read(&first).unwrap()));
    for bundle in [&first, &both] {
        assert!(is_trusted(&tls, bundle, later));
    }
    let settled = later + Duration::from_hours(2);
    tls.tick_at(Some(&both), settled).await.unwrap();
    assert!(is_trusted(&tls, &tls.bundle(), later) && !tls.bundle().contains(&first));
}

#[tokio::test]
async fn the_certificate_is_not_replaced_before_clients_have_the_bundle() {
    let store = Store::default();
    let mut tls = begun(&store).await.unwrap();
    let (first, old) = (tls.bundle(), leaf(&tls).clone());
    let later = begin() + DAY * 31;
    for registered in [None, Some(""), Some("-----BEGIN CERTIFICATE-----")] {
        tls.tick_at(registered, later).await.unwrap();
        assert_eq!(*leaf(&tls), old, "{registered:?}");
    }
    tls.tick_at(Some(&first), later).await.unwrap();
    assert_ne!(*leaf(&tls), old);

    // An expired certificate is replaced whatever bundle clients have.
    let end = later + DAY * 89;
    tls.tick_at(None, end).await.unwrap();
    assert!(is_trusted(&tls, &tls.bundle(), end));
}

#[tokio::test]
async fn replicas_that_start_together_agree() {
    let store = Store::default();
    let begins = (0..8).map(|_| begun(&store));
    let mut replicas = futures::future::try_join_all(begins).await.unwrap();
    for day in [0, 31, 181, 182, 200] {
        let now = begin() + DAY * day;
        let registered = replicas[0].bundle();
        for _ in 0..2 {
            let replicas = replicas.iter_mut();
            let ticks = replicas.map(|replica| replica.tick_at(Some(&registered), now));
            futures::future::try_join_all(ticks).await.unwrap();
        }
        let first = &replicas[0];
        for replica in &replicas {
            assert_eq!(replica.bundle(), first.bundle(), "day {day}");
            assert_eq!(leaf(replica), leaf(first), "day {day}");
            assert!(is_trusted(replica, &first.bundle(), now));
        }
    }
}

#[tokio::test]
async fn certificates_of_upstreams_scripts_are_adopted() {
    let made = authority(begin(), 100_000);
    let issuer = (&made.certificate, &*made.key);
    let names = [NAME.to_owned()];
    let theirs = issue::leaf(issuer, &names, Side::Server, begin(), DAY * 100_000).unwrap();
    let store = Store::default();
    store.put(&[
        ("caCert.pem", &made.certificate.pem),
        ("caKey.pem", &made.key),
        ("serverCert.pem", &theirs.certificate.pem),
        ("serverKey.pem", &theirs.key),
    ]);
    let tls = begun(&store).await.unwrap();
    assert_eq!(tls.bundle(), made.certificate.pem);
    let is_trusted = is_trusted(&tls, &made.certificate.pem, begin());
    assert!(is_trusted, "with our names in a new certificate");
}

#[tokio::test]
async fn an_invalid_secret_is_replaced() {
    let no_certificate = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----";
    let (key, leaf) = (("caKey.pem", "nonsense"), ("serverCert.pem", "x"));
    let nonsense: &[_] = &[("caCert.pem", "nonsense"), key, leaf, ("serverKey.pem", "")];
    for data in [
        nonsense,
        &[("caCert.pem", no_certificate), ("a", "b"), ("c", "")],
    ] {
        let store = Store::default();
        store.put(data);
        let tls = begun(&store).await.unwrap();
        assert!(is_trusted(&tls, &tls.bundle(), begin()));
    }
}
