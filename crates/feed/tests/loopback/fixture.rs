//! Servers and readers with short limits.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use feed::client::{CurrentTls, Reports};
use feed::proto::feed_client::FeedClient;
use feed::{
    Forecast, LeaderTerm, Metrics, Publisher, Reader, Recommendation, Server, ServerLimits,
    Subscription,
};
use jiff::Timestamp;
use model::{ContainerRecommendation, Cpu, Memory, ResourceList};
use prometheus::Registry;
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::ServerName;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Channel;

use crate::certificates::{Authority, SERVER};

/// Only a failure takes this long.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// A running server.
pub(crate) struct Replica {
    pub(crate) publisher: Publisher,
    pub(crate) forecasts: Publisher<Forecast>,
    pub(crate) address: String,
    pub(crate) registry: Registry,
    /// Reports of the updater.
    pub(crate) reports: Arc<Mutex<Reports>>,
    pub(crate) tls: Arc<Mutex<Arc<ServerConfig>>>,
    _stop: DropGuard,
}

impl Replica {
    pub(crate) async fn start(authority: &Authority) -> Self {
        Self::with(authority, ServerLimits::default()).await
    }

    pub(crate) async fn with(authority: &Authority, limits: ServerLimits) -> Self {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let publisher = Publisher::default();
        let forecasts = Publisher::default().with_metrics(&metrics);
        let tls = Arc::new(Mutex::new(authority.server()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let current = Arc::clone(&tls);
        let reports: Arc<Mutex<Reports>> = Arc::default();
        let sink = Arc::clone(&reports);
        let server = Server {
            publisher: publisher.clone(),
            forecasts: forecasts.clone(),
            reports: Arc::new(move |reports| {
                let reports = reports
                    .into_iter()
                    .map(|one| (one.uid.clone(), Arc::new(one)));
                sink.lock().unwrap().extend(reports);
            }),
            tls: Arc::new(move || Arc::clone(&current.lock().unwrap())),
            allowed: "plimsoll-updater,plimsoll-webhook".parse().unwrap(),
            reporting: "plimsoll-updater".parse().unwrap(),
            limits,
            metrics,
        };
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone().drop_guard();
        tokio::spawn(async move { server.serve(listener, shutdown).await.unwrap() });
        Self {
            publisher,
            forecasts,
            address,
            registry,
            reports,
            tls,
            _stop: stop,
        }
    }

    /// Begins a term with these recommendations.
    pub(crate) fn lead(
        &self,
        term: u64,
        recommendations: impl IntoIterator<Item = Recommendation>,
    ) -> LeaderTerm {
        let term = self.publisher.begin(term);
        term.reset(recommendations, Timestamp::UNIX_EPOCH);
        term
    }

    /// The sum of a counter or gauge over its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .expect(name);
        let values = family.get_metric().iter();
        values
            .map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value())
            .sum()
    }

    /// The sum of a histogram.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        family.expect(name).get_metric()[0]
            .get_histogram()
            .get_sample_sum()
    }

    pub(crate) async fn client(
        &self,
        tls: Arc<ClientConfig>,
    ) -> anyhow::Result<FeedClient<Channel>> {
        let current: CurrentTls = Arc::new(move || Arc::clone(&tls));
        feed::client::client(&self.address, &current, &server_name()).await
    }
}

pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from(SERVER).unwrap()
}

pub(crate) fn recommendation(uid: &str, millicores: i64) -> Recommendation {
    let target = ResourceList::of(
        Cpu::from_millicores(millicores),
        Memory::from_bytes(1 << 20),
    );
    let container = ContainerRecommendation {
        container_name: "app".to_owned(),
        target: target.clone(),
        lower_bound: target.clone(),
        upper_bound: target.clone(),
        uncapped_target: target,
    };
    Recommendation {
        uid: uid.to_owned(),
        namespace: "shop".to_owned(),
        name: uid.to_owned(),
        observed_generation: 1,
        recommendation: model::Recommendation {
            containers: vec![container],
        },
    }
}

/// A reader whose leaders are set by the test.
pub(crate) struct Follower {
    pub(crate) leaders: Vec<watch::Sender<Option<String>>>,
    pub(crate) subscription: watch::Receiver<Subscription>,
}

impl Follower {
    /// The updater, which follows one leader of everything.
    pub(crate) fn of(authority: &Authority, replica: &Replica) -> Self {
        let follower = Self::of_shards(1, authority.named("plimsoll-updater"));
        follower.follow(replica);
        follower
    }

    /// Follows one leader per shard.
    pub(crate) fn of_shards(count: usize, tls: Arc<ClientConfig>) -> Self {
        let (leaders, receivers) = (0..count).map(|_| watch::channel(None)).unzip();
        let reader = Reader {
            leaders: receivers,
            tls: Arc::new(move || Arc::clone(&tls)),
            server_name: server_name(),
        };
        let (subscription, reading) = reader.subscribe();
        tokio::spawn(reading);
        Self {
            leaders,
            subscription,
        }
    }

    pub(crate) fn follow(&self, replica: &Replica) {
        self.follow_in(0, replica);
    }

    /// Makes the replica the leader of this shard.
    pub(crate) fn follow_in(&self, shard: usize, replica: &Replica) {
        self.leaders[shard].send_replace(Some(replica.address.clone()));
    }

    /// Waits until the subscription satisfies `is`.
    pub(crate) async fn until(&mut self, what: &str, is: impl FnMut(&Subscription) -> bool) {
        let seen = tokio::time::timeout(LIMIT, self.subscription.wait_for(is)).await;
        let is_seen = matches!(seen, Ok(Ok(_)));
        drop(seen);
        let now = self.subscription.borrow();
        assert!(is_seen, "{what} within {LIMIT:?}; it is {now:?}");
    }

    pub(crate) async fn until_fresh(&mut self, expected: &[(&str, i64)]) {
        self.until(&format!("fresh {expected:?}"), |now| {
            now.stale_since().is_none() && targets(now) == expected
        })
        .await;
    }

    pub(crate) async fn until_stale(&mut self) {
        self.until("stale", |now| now.stale_since().is_some()).await;
    }

    pub(crate) fn check(&self, expected: &[(&str, i64)]) {
        assert_eq!(targets(&self.subscription.borrow()), expected);
    }
}

/// The CPU of each target in millicores, by uid.
pub(crate) fn targets(subscription: &Subscription) -> Vec<(&str, i64)> {
    let target = |received: &feed::client::Received| {
        received.value.recommendation.containers[0]
            .target
            .cpu()
            .map_or(0, Cpu::millicores)
    };
    let mut targets: Vec<_> = subscription
        .iter()
        .map(|(uid, received)| (uid, target(received)))
        .collect();
    targets.sort_unstable();
    targets
}
