//! Who may ask what: recognises callers, then asks the API server what they may do.
//!
//! Callers are recognised in the order of `k8s.io/apiserver`'s delegated authentication: the API
//! server itself, which says in headers for whom it asks; a certificate; a token; else nobody. What
//! names a user is believed only from the connection that it may come from, and is taken out of the
//! request.

mod access;
mod always_allowed;
mod args;
mod authorities;
pub mod coalescing_cache;
mod front_proxy;
mod lookup;
mod lost;
mod metrics;
mod own;
mod peers;
mod rejection;
mod review;
mod subject;
mod token;
mod trust;
mod user;
mod wants;

use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use http::HeaderMap;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use prometheus::Registry;
use runtime::client::connect;
use runtime::throttle::Throttle;
use runtime::{ApiServerClock, Chassis, Readiness};
use rustls_pki_types::UnixTime;
use serving::tls::PeerCertificates;

use access::Access;
use coalescing_cache::CoalescingCache;
use front_proxy::strip;
use lookup::{NAMESPACE, Trusted};
use metrics::Metrics;
use own::Own;
use peers::Peers;
use token::{Owner, Tokens, bearer};
use trust::Trust;

pub use access::Mode;
pub use always_allowed::AlwaysAllowed;
pub use args::GuardArgs;
pub use own::TrustArgs;
pub use rejection::{AuthorizedScope, Rejection};
pub use user::{User, Via};
pub use wants::Wants;

/// Questions about callers per second, and at once; upstream's. A quarter is kept for users for
/// whom the API server vouches; others are refused rather than that they use that up by waiting.
const QPS: f64 = 200.0;
const BURST: u32 = 400;

/// Decides who may ask what. Clones share everything.
#[derive(Clone)]
pub struct Guard {
    trusted: Trusted,
    config_maps: Api<ConfigMap>,
    peers: Arc<Peers>,
    tokens: Tokens,
    access: Access,
    always_allowed: Arc<[AlwaysAllowed]>,
    anonymous_auth: bool,
    metrics: Metrics,
    /// Certificates go by it. Without it, by the time of this machine.
    clock: ApiServerClock,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("trusted", &self.trusted)
            .field("mode", &self.access.mode)
            .finish_non_exhaustive()
    }
}

/// What a request says about who sent it, and what its connection is.
struct Claims<'a> {
    /// Whom to trust, from the first look at the request to the last.
    trust: Arc<Trust>,
    peer: Option<&'a PeerCertificates>,
    /// The user that the headers name, whoever wrote them.
    headers: Result<Option<User>, front_proxy::NotText>,
    token: Option<String>,
}

impl Guard {
    /// One that asks through `client` and trusts nobody before [`Guard::begin`].
    pub fn new(
        args: GuardArgs,
        client: Client,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, prometheus::Error> {
        let GuardArgs {
            anonymous_auth,
            authentication_token_webhook_cache_ttl,
            authorization_mode,
            authorization_always_allow_paths,
            authorization_webhook_cache_authorized_ttl,
            authorization_webhook_cache_unauthorized_ttl,
            trust,
        } = args;
        let metrics = Metrics::register(registry)?;
        Ok(Self {
            trusted: Trusted::nobody(
                Own::new(trust),
                readiness.condition("authentication"),
                metrics.clone(),
            ),
            config_maps: Api::namespaced(client.clone(), NAMESPACE),
            peers: Arc::default(),
            tokens: Tokens {
                client: client.clone(),
                keep: authentication_token_webhook_cache_ttl.into(),
                answers: CoalescingCache::default(),
                metrics: metrics.clone(),
            },
            access: Access {
                client,
                mode: authorization_mode,
                keep_allowed: authorization_webhook_cache_authorized_ttl.into(),
                keep_denied: authorization_webhook_cache_unauthorized_ttl.into(),
                proxied: CoalescingCache::default(),
                direct: CoalescingCache::default(),
                metrics: metrics.clone(),
            },
            always_allowed: authorization_always_allow_paths.into(),
            anonymous_auth,
            metrics,
            clock: ApiServerClock::default(),
        })
    }

    /// The same, but certificates of callers begin and end by the API server's time.
    #[must_use]
    pub fn by(self, clock: ApiServerClock) -> Self {
        Self { clock, ..self }
    }

    fn time(&self) -> UnixTime {
        UnixTime::since_unix_epoch(
            self.clock
                .now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        )
    }

    /// One for a program: reads whom to trust, and follows it in a task. Its questions have a rate
    /// of their own, so that nothing else holds them up. Nothing if the end comes before.
    pub async fn start(args: GuardArgs, chassis: &Chassis) -> anyhow::Result<Option<Self>> {
        let throttle = Throttle::new(QPS, BURST).reserving(BURST / 4).refusing();
        let client = connect(
            chassis.config.clone(),
            throttle,
            chassis.rest_metrics.clone(),
        )?;
        let guard = Self::new(args, client, &chassis.registry, &chassis.readiness)
            .context("metrics about callers")?;
        let guard = guard.by(chassis.clock());
        let Some(begun) = chassis.shutdown.run_until_cancelled(guard.begin()).await else {
            return Ok(None);
        };
        begun?;
        chassis
            .tasks
            .spawn_until_shutdown("authentication", guard.clone().follow());
        Ok(Some(guard))
    }

    /// Reads whom to trust for the first time, however long it takes; an error if that is not
    /// allowed.
    pub async fn begin(&self) -> anyhow::Result<()> {
        Ok(self.trusted.begin(&self.config_maps).await?)
    }

    /// Follows whom to trust, for ever.
    pub async fn follow(self) {
        self.trusted.follow(self.config_maps).await;
    }

    /// Lets a caller do what it wants, or says why not. What names a user is taken out of the
    /// headers in any case. The priority level is by the access review that let the caller in.
    pub async fn admit(
        &self,
        peer: Option<&PeerCertificates>,
        headers: &mut HeaderMap,
        wants: &Wants,
    ) -> Result<(User, AuthorizedScope), Rejection> {
        let claims = self.claims(peer, headers);
        if let Wants::Path { path, .. } = wants
            && self
                .always_allowed
                .iter()
                .any(|allowed| allowed.covers(path))
        {
            return Ok((User::anonymous(), AuthorizedScope::Request));
        }
        let recognised = self.recognise(claims).await;
        self.metrics.attempted(if recognised.is_some() {
            "success"
        } else {
            "failure"
        });
        let user = recognised.ok_or(Rejection::Unauthorized)?;
        let level = self.access.check(&user, wants, false).await?;
        Ok((user, level))
    }

    /// Whether a connection is the API server's, whatever its requests say.
    pub fn is_front_proxy(&self, peer: &PeerCertificates) -> bool {
        let finding = self
            .peers
            .judge(&self.trusted.load_full(), peer, self.time());
        matches!(finding.is_front_proxy, Some(Ok(())))
    }

    /// Makes sure that the API server was asked about a user who was let in, also where users are
    /// trusted without: whatever is passed on to others is asked for in our own name.
    pub async fn confirm(&self, user: &User, wants: &Wants) -> Result<(), Rejection> {
        if self.access.mode == Mode::TrustFrontProxy {
            self.access.check(user, wants, true).await?;
        }
        Ok(())
    }

    /// Makes sure that a user may do the same at the scope of the cluster.
    pub async fn confirm_cluster_scope(&self, user: &User, wants: &Wants) -> Result<(), Rejection> {
        self.access
            .check(user, &wants.at_cluster_scope(), true)
            .await?;
        Ok(())
    }

    fn claims<'a>(
        &self,
        peer: Option<&'a PeerCertificates>,
        headers: &mut HeaderMap,
    ) -> Claims<'a> {
        let trust = self.trusted.load_full();
        let proxy = trust.front_proxy.as_ref();
        let named = proxy
            .filter(|_| peer.is_some())
            .map_or(Ok(None), |proxy| proxy.user(headers));
        let token = bearer(headers);
        strip(proxy, headers);
        Claims {
            trust,
            peer,
            headers: named,
            token,
        }
    }

    /// Who it is; nobody only if nothing that was shown turned out to be wrong.
    async fn recognise(&self, claims: Claims<'_>) -> Option<User> {
        let mut is_wrong = false;
        if let Some(peer) = claims.peer {
            let finding = self.peers.judge(&claims.trust, peer, self.time());
            match finding.user(claims.headers) {
                Ok(Some(user)) => return Some(user.recognised()),
                Ok(None) => {}
                Err(errors) => {
                    tracing::debug!(errors, "a certificate is not accepted");
                    is_wrong = true;
                }
            }
        }
        if let Some(token) = claims.token {
            match self.tokens.owner(&token).await {
                Owner::User(user) => return Some(user.recognised()),
                Owner::Nobody | Owner::Unknown => is_wrong = true,
            }
        }
        (!is_wrong && self.anonymous_auth).then(User::anonymous)
    }
}
