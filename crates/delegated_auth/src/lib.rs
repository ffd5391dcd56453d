//! Authentication and authorization of an extension API server, delegated to the API server.
//!
//! Callers are authenticated in the order of `k8s.io/apiserver`'s delegated authentication: request
//! headers of a front proxy (the API server itself), a bearer token, else anonymous. Certificates of
//! other clients are refused. The API server then authorizes callers by a `SubjectAccessReview`.
//! Request headers are accepted only on a front proxy's connection, and headers that name a user are
//! removed from every request.
//!
//! * `request_headers` behind `certificate_authenticator`, and `token_authenticator`: the ways in
//! * `authorizer`, `attributes`: the user and its rights, reasons to reject a caller
//! * `review`: requests to the API server; `coalescing_cache`: their results
//! * `config`, `config_watcher`: whom to trust, from the cluster
//! * `ca_bundle`, `certificate_subject`: verification of certificates
//! * `args`, `metrics`: flags, with the paths that need no rights, and metrics

mod args;
mod attributes;
mod authorizer;
mod ca_bundle;
mod certificate_authenticator;
mod certificate_subject;
pub mod coalescing_cache;
mod config;
mod config_watcher;
mod metrics;
mod request_headers;
mod review;
mod token_authenticator;

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use http::HeaderMap;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use prometheus::Registry;
use runtime::client::connect;
use runtime::rate_limiter::Throttle;
use runtime::{ApiServerClock, Manager, Readiness};
use rustls_pki_types::UnixTime;
use serving::tls::PeerCertificates;

use authorizer::Authorizer;
use certificate_authenticator::CertificateAuthenticator;
use coalescing_cache::CoalescingCache;
use config::AuthenticationConfig;
use config_watcher::{ConfigWatcher, NAMESPACE};
use metrics::Metrics;
use request_headers::strip_identity_headers;
use token_authenticator::{TokenAuthenticator, bearer_token};

pub use args::{AlwaysAllowedPath, AuthArgs};
pub use attributes::{Attributes, AuthMethod, User};
pub use authorizer::{AuthorizedScope, Rejection};

/// Reviews per second, and in a burst; upstream's limits. A quarter of the burst is reserved for
/// users that the API server names. Other reviews fail fast instead of draining the reserve.
const QPS: f64 = 200.0;
const BURST: u32 = 400;

/// Authenticates and authorizes callers. Clones share all state.
#[derive(Clone)]
pub struct DelegatedAuth {
    config: ConfigWatcher,
    config_maps: Api<ConfigMap>,
    certificates: Arc<CertificateAuthenticator>,
    tokens: TokenAuthenticator,
    authorizer: Authorizer,
    always_allowed: Arc<[AlwaysAllowedPath]>,
    anonymous_auth: bool,
    metrics: Metrics,
    /// The clock for the validity of certificates.
    clock: ApiServerClock,
}

impl DelegatedAuth {
    /// Creates an instance that posts reviews through `client`. It trusts no front proxy before
    /// [`DelegatedAuth::load`]. Names of metrics begin with
    /// `metrics_prefix`.
    pub fn new(
        args: AuthArgs,
        client: Client,
        registry: &Registry,
        metrics_prefix: &str,
        readiness: &Readiness,
    ) -> Result<Self, prometheus::Error> {
        let metrics = Metrics::register(registry, metrics_prefix)?;
        Ok(Self {
            config: ConfigWatcher::new(readiness.condition("authentication"), metrics.clone()),
            config_maps: Api::namespaced(client.clone(), NAMESPACE),
            certificates: Arc::default(),
            tokens: TokenAuthenticator {
                client: client.clone(),
                ttl: args.authentication_token_webhook_cache_ttl.0,
                cache: CoalescingCache::default(),
                metrics: metrics.clone(),
            },
            authorizer: Authorizer {
                client,
                allowed_ttl: args.authorization_webhook_cache_authorized_ttl.0,
                denied_ttl: args.authorization_webhook_cache_unauthorized_ttl.0,
                proxied: CoalescingCache::default(),
                direct: CoalescingCache::default(),
                metrics: metrics.clone(),
            },
            always_allowed: args.authorization_always_allow_paths.into(),
            anonymous_auth: args.anonymous_auth,
            metrics,
            clock: ApiServerClock::default(),
        })
    }

    /// Checks the validity of certificates by this clock instead of the machine's.
    #[must_use]
    pub fn with_clock(self, clock: ApiServerClock) -> Self {
        Self { clock, ..self }
    }

    fn now(&self) -> UnixTime {
        let now = self.clock.now().duration_since(UNIX_EPOCH);
        UnixTime::since_unix_epoch(now.unwrap_or_default())
    }

    /// Creates an instance with a client and a rate limit of its own, loads the configuration and
    /// follows it in a task. Returns `None` on shutdown.
    pub async fn start(
        args: AuthArgs,
        manager: &Manager,
        metrics_prefix: &str,
    ) -> anyhow::Result<Option<Self>> {
        let throttle = Throttle::new(QPS, BURST).reserving(BURST / 4).refusing();
        let client = connect(
            manager.config.clone(),
            throttle,
            manager.rest_metrics.clone(),
        )?;
        let (registry, readiness) = (&manager.registry, &manager.readiness);
        let auth = Self::new(args, client, registry, metrics_prefix, readiness)
            .context("register the metrics of authentication")?
            .with_clock(manager.clock());
        let Some(loaded) = manager.shutdown.run_until_cancelled(auth.load()).await else {
            return Ok(None);
        };
        loaded?;
        manager
            .tasks
            .spawn_until_shutdown("authentication", auth.clone().follow());
        Ok(Some(auth))
    }

    /// Loads the configuration. Retries until the API server answers; fails if it denies access.
    pub async fn load(&self) -> anyhow::Result<()> {
        self.config.load(&self.config_maps).await
    }

    /// Follows changes of the configuration. Never returns.
    pub async fn follow(self) {
        self.config.follow(self.config_maps).await;
    }

    /// Authenticates and authorizes a request. Removes the headers that name a user in any case.
    pub async fn authorize(
        &self,
        peer: Option<&PeerCertificates>,
        headers: &mut HeaderMap,
        attributes: &Attributes,
    ) -> Result<(User, AuthorizedScope), Rejection> {
        // It applies to the end of the request.
        let config = self.config.get();
        let front_proxy = config.front_proxy.as_ref();
        let named = front_proxy
            .filter(|_| peer.is_some())
            .map_or(Ok(None), |front_proxy| front_proxy.user(headers));
        let token = bearer_token(headers);
        strip_identity_headers(front_proxy, headers);
        if let Attributes::Path(attributes) = attributes
            && let Some(path) = &attributes.path
            && self
                .always_allowed
                .iter()
                .any(|allowed| allowed.matches(path))
        {
            return Ok((User::anonymous(), AuthorizedScope::Request));
        }
        let user = self.authenticate(&config, peer, named, token).await;
        self.metrics.attempted(user.is_some());
        let user = user.ok_or(Rejection::Unauthorized)?;
        let scope = self.authorizer.authorize(&user, attributes).await?;
        Ok((user, scope))
    }

    pub fn is_front_proxy(&self, peer: &PeerCertificates) -> bool {
        let verified = self
            .certificates
            .verify(&self.config.get(), peer, self.now());
        matches!(verified, Some(Ok(())))
    }

    /// Authorizes a user for the same request at the cluster scope.
    pub async fn authorize_at_cluster_scope(
        &self,
        user: &User,
        attributes: &Attributes,
    ) -> Result<(), Rejection> {
        self.authorizer
            .authorize(user, &attributes.at_cluster_scope())
            .await?;
        Ok(())
    }

    /// Returns the user of a request; the anonymous one only if no credential is invalid. `named` is
    /// the user of the request headers, not yet verified.
    async fn authenticate(
        &self,
        config: &AuthenticationConfig,
        peer: Option<&PeerCertificates>,
        named: Result<Option<User>, String>,
        token: Option<String>,
    ) -> Option<User> {
        let mut is_invalid = false;
        let now = self.now();
        let verified = peer.and_then(|peer| self.certificates.verify(config, peer, now));
        if let Some(verified) = verified {
            let named = verified
                .and(named)
                .and_then(|user| user.ok_or("a front proxy names no user".to_owned()));
            match named {
                Ok(user) => return Some(user.authenticated()),
                Err(error) => {
                    tracing::debug!(error, "rejecting a client certificate");
                    is_invalid = true;
                }
            }
        }
        if let Some(token) = token {
            match self.tokens.authenticate(&token).await {
                Some(user) => return Some(user.authenticated()),
                None => is_invalid = true,
            }
        }
        (!is_invalid && self.anonymous_auth).then(User::anonymous)
    }
}
