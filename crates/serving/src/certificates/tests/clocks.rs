//! Replicas whose clocks are wrong, and API servers whose clocks differ.

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;
use tower::Layer as _;

use super::*;
use runtime::api_server_clock::steady;

const HOUR: Duration = Duration::from_hours(1);
const TICK: Duration = Duration::from_secs(5);

struct Replica {
    tls: ManagedTls,
    clock: ApiServerClock,
    /// The local clock at a true time.
    own: fn(SystemTime) -> SystemTime,
}

impl Replica {
    async fn begin(store: &Store, own: fn(SystemTime) -> SystemTime) -> Self {
        let clock = ApiServerClock::default();
        // The time before the first response.
        clock.observe(own(true_time()), own(true_time()), steady());
        let managed = ManagedConfig {
            secrets: Api::namespaced(dated(store, &clock), "shop"),
            ..store.managed()
        };
        Self {
            tls: ManagedTls::start(managed, &clock).await.unwrap(),
            clock,
            own,
        }
    }

    async fn tick(&mut self, registered: &str) {
        let now = self.clock.at((self.own)(true_time()), steady());
        let done = self.tls.tick(Some(registered), now, steady()).await;
        done.unwrap();
    }
}

/// The API server's time, which advances with tokio's clock.
fn true_time() -> SystemTime {
    begin() + steady().duration_since(start())
}

/// A client whose responses have dates, which set `clock`.
fn dated(store: &Store, clock: &ApiServerClock) -> kube::Client {
    let router = store.router();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let router = router.clone();
        async move {
            let mut response = router.oneshot(request.map(Body::new)).await?;
            let date = Timestamp::try_from(true_time()).unwrap();
            let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&date);
            let date = date.unwrap().parse().unwrap();
            response.headers_mut().insert(http::header::DATE, date);
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    kube::Client::new(clock.layer().layer(service), "shop")
}

/// A clock that is eight days ahead in every second hour, and eight days behind in the others.
fn jumping(time: SystemTime) -> SystemTime {
    if (seconds(time) / 3600) % 2 == 0 {
        time + DAY * 8
    } else {
        time - DAY * 8
    }
}

#[tokio::test(start_paused = true)]
async fn the_api_server_trusts_every_replica_at_every_tick_whatever_their_clocks_show() {
    let store = Store::default();
    let clocks: [fn(SystemTime) -> SystemTime; 4] = [
        |time| time + DAY * 200,
        |time| time - HOUR,
        jumping,
        |time| time,
    ];
    let mut replicas = Vec::new();
    for own in clocks {
        replicas.push(Replica::begin(&store, own).await);
    }
    let mut registered = replicas[0].tls.bundle();
    // A year with a tick a day, and some days of it with ticks as they really are.
    for day in 0..365 {
        let ticks = if day % 60 == 1 { 10 } else { 1 };
        for tick in 0..ticks {
            for one in 0..replicas.len() {
                replicas[one].tick(&registered).await;
                registered = replicas[one].tls.bundle();
                for (other, replica) in replicas.iter().enumerate() {
                    let is_trusted = is_trusted(&replica.tls, &registered, true_time());
                    assert!(is_trusted, "day {day}, tick {tick}: {other} after {one}");
                }
            }
            tokio::time::advance(TICK).await;
        }
        tokio::time::advance(DAY + HOUR).await;
    }
    // Twelve certificates and two authorities with their ends, and the beginning.
    let writes = store.version();
    assert!((14..=22).contains(&writes), "{writes} writes");
}

/// Ticks of replicas whose API servers' clocks are this far ahead, and how often they wrote the
/// Secret then. The first clock is right.
async fn writes(ahead: [Duration; 2], ticks: u32) -> u64 {
    let store = Store::default();
    let mut replicas = [begun(&store).await.unwrap(), begun(&store).await.unwrap()];
    let before = store.version();
    for tick in 0..ticks {
        let (now, steady) = (begin() + TICK * tick, start() + TICK * tick);
        for one in 0..replicas.len() {
            let (registered, now_there) = (replicas[0].bundle(), now + ahead[one]);
            let done = replicas[one]
                .tick(Some(&registered), now_there, steady)
                .await;
            done.unwrap();
            let is_trusted = is_trusted(&replicas[0], &replicas[0].bundle(), now);
            assert!(is_trusted, "{ahead:?}, tick {tick}");
        }
    }
    store.version() - before
}

#[tokio::test]
async fn the_secret_is_written_seldom_where_the_clocks_of_api_servers_differ() {
    for (days, ticks, most) in [(20, 100, 0), (40, 100, 2), (200, 100, 4), (200, 1500, 12)] {
        let found = writes([Duration::ZERO, DAY * days], ticks).await;
        assert!(found <= most, "{found} in {ticks} ticks, {days} days apart");
    }
}

/// The certificates that a replica with a fast clock leaves behind.
fn from_the_future(ahead: Duration) -> CertificateSet {
    let later = begin() + ahead;
    let authority = authority(later, 365);
    let leaf = leaf_of(&authority, begin(), 90);
    CertificateSet {
        authorities: vec![authority.certificate],
        authority_key: Some(authority.key),
        chain: vec![leaf.certificate],
        key: Some(leaf.key),
        ..CertificateSet::default()
    }
}

#[test]
fn a_ca_signs_nothing_before_it_is_valid() {
    let names = [NAME.to_owned()];
    let check = |ahead, expected| {
        let (set, policy) = (from_the_future(ahead), RotationPolicy::default());
        let found = step(&set, None, &names, &policy, seconds(begin()), None);
        assert_eq!(found, expected, "{ahead:?}");
    };
    check(DAY * 200, RotationStep::AddAuthority);
    check(DAY * 2, RotationStep::AddAuthority);
    check(HOUR * 2, RotationStep::Keep);
}

#[tokio::test]
async fn a_secret_with_a_ca_from_the_future_is_repaired() {
    let poison = from_the_future(DAY * 200);
    let put = |store: &Store| {
        let entries = poison.entries();
        let text = |value: &k8s_openapi::ByteString| String::from_utf8(value.0.clone()).unwrap();
        let entries = entries.iter();
        let entries = entries.filter_map(|(name, value)| Some((*name, text(value.as_ref()?))));
        store.lose(Some(&entries.collect()));
    };
    // By a replica that starts.
    let store = Store::default();
    put(&store);
    let tls = begun(&store).await.unwrap();
    assert!(is_trusted(&tls, &tls.bundle(), begin()));
    // By a replica that has served before: clients trust its certificate.
    let store = Store::default();
    let mut tls = begun(&store).await.unwrap();
    let (bundle, shown) = (tls.bundle(), leaf(&tls).clone());
    put(&store);
    tls.tick_at(Some(&bundle), begin()).await.unwrap();
    assert!(tls.bundle() == bundle && *leaf(&tls) == shown);
    let again = begun(&store).await.unwrap();
    assert!(again.bundle() == bundle && *leaf(&again) == shown);
}

#[tokio::test]
async fn a_file_of_client_authorities_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clients");
    let change = || std::fs::write(&path, authority(begin(), 300).certificate.pem).unwrap();
    change();
    let store = Store::default();
    let serving = ServingProfile {
        client_authorities: Some(path.clone()),
        ..ServingProfile::default()
    };
    let managed = ManagedConfig {
        serving,
        ..store.managed()
    };
    let tls = ManagedTls::start(managed, &ApiServerClock::default()).await;
    let mut tls = tls.unwrap();
    let before = tls.current()();
    tls.tick(None, SystemTime::now(), steady()).await.unwrap();
    assert!(Arc::ptr_eq(&before, &tls.current()()));
    change();
    tls.tick(None, SystemTime::now(), steady()).await.unwrap();
    let second = tls.current()();
    assert!(!Arc::ptr_eq(&before, &second));
    std::fs::write(&path, "nonsense").unwrap();
    let error = tls.tick(None, SystemTime::now(), steady()).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&*path.to_string_lossy()), "{error}");
    assert!(Arc::ptr_eq(&second, &tls.current()()));
}
