//! Keeps the configuration of authentication current: watches the API server's `ConfigMap`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use arc_swap::ArcSwap;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use parking_lot::Mutex;
use runtime::{Condition, LogOnce};

use crate::config::{AuthenticationConfig, Entries, FRONT_PROXY_CA};
use crate::metrics::Metrics;

pub(crate) const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// The pause between two attempts of the first lookup.
const RETRY: Duration = Duration::from_secs(1);

/// The number of 403 responses after which the first lookup fails. A new role binding takes a
/// moment to become effective.
const MAX_DENIALS: u32 = 3;

/// The current configuration. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ConfigWatcher {
    current: Arc<ArcSwap<AuthenticationConfig>>,
    state: Arc<Mutex<State>>,
    /// True once the configuration is loaded.
    is_loaded: Arc<Condition>,
    metrics: Metrics,
}

/// The last entries that could be used.
#[derive(Debug, Default)]
struct State {
    entries: Entries,
    /// Whether the `ConfigMap` has lost the CA bundle.
    is_lost: bool,
    updates: u64,
}

impl ConfigWatcher {
    pub(crate) fn new(is_loaded: Condition, metrics: Metrics) -> Self {
        Self {
            current: Arc::default(),
            state: Arc::default(),
            is_loaded: Arc::new(is_loaded),
            metrics,
        }
    }

    pub(crate) fn get(&self) -> Arc<AuthenticationConfig> {
        self.current.load_full()
    }

    /// Loads the configuration; retries until the API server answers. Without a `ConfigMap`, no
    /// front proxy is trusted.
    pub(crate) async fn load(&self, config_maps: &Api<ConfigMap>) -> anyhow::Result<()> {
        let (mut logged, mut denials) = (LogOnce::default(), 0);
        loop {
            let error = match config_maps.get_opt(NAME).await {
                Ok(found) => {
                    self.update(found.unwrap_or_default().data.unwrap_or_default());
                    return Ok(());
                }
                Err(error) => error,
            };
            denials += u32::from(matches!(&error, kube::Error::Api(status) if status.code == 403));
            if denials == MAX_DENIALS {
                bail!(
                    "cannot read the authentication settings in ConfigMap {NAMESPACE}/{NAME}: bind the service account to the Role \
                     extension-apiserver-authentication-reader with a RoleBinding in the namespace {NAMESPACE}: {error}"
                );
            }
            if logged.is_new(()) {
                tracing::warn!(%error, "cannot read authentication settings; retrying");
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Follows changes. Never returns.
    ///
    /// While the `ConfigMap` is missing or unreadable, the last configuration stays: its CA bundles
    /// are still valid, and the API server restores the object.
    pub(crate) async fn follow(self, config_maps: Api<ConfigMap>) {
        let mut states = pin!(watch_object(config_maps, NAME).default_backoff());
        let mut logged = LogOnce::default();
        while let Some(state) = states.next().await {
            match state {
                Ok(Some(found)) => {
                    logged.clear();
                    self.update(found.data.unwrap_or_default());
                }
                Ok(None) => tracing::debug!("ConfigMap {NAMESPACE}/{NAME} does not exist"),
                Err(error) if logged.is_new(()) => {
                    tracing::warn!(%error, "cannot watch authentication settings; keeping the last valid configuration");
                }
                Err(_) => {}
            }
        }
    }

    /// Keeps the last configuration if the new one is not valid.
    fn update(&self, entries: Entries) {
        let mut state = self.state.lock();
        state.updates += 1;
        let (entries, is_lost) = AuthenticationConfig::retained(&state.entries, entries);
        let config = match AuthenticationConfig::parse(entries, state.updates) {
            Ok(config) => config,
            Err(error) => {
                tracing::error!(%error, "authentication settings are not valid; keeping the last valid configuration");
                return self.is_loaded.ready_but(format!(
                    "the last authentication settings are not valid: {error}"
                ));
            }
        };
        let is_changed =
            state.updates == 1 || is_lost != state.is_lost || config.entries != state.entries;
        state.entries.clone_from(&config.entries);
        state.is_lost = is_lost;
        let mut warnings = config.warnings();
        if is_lost {
            warnings.push(format!(
                "ConfigMap {NAMESPACE}/{NAME} has no {FRONT_PROXY_CA} any more: keeping the last known"
            ));
        }
        if warnings.is_empty() {
            self.is_loaded.ready();
        } else {
            self.is_loaded.ready_but(warnings.join("; "));
        }
        if !is_changed {
            return;
        }
        for warning in warnings {
            tracing::warn!(warning, "authentication settings");
        }
        let front_proxy = config.front_proxy.is_some();
        tracing::info!(front_proxy, "loaded authentication settings");
        let configured = &self.metrics.rows.front_proxy_configured;
        configured.set(front_proxy.into());
        self.current.store(Arc::new(config));
    }
}
