//! Keeps the configuration of authentication current: watches the `ConfigMap` that the API server
//! writes, and reads the files that override it.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use parking_lot::Mutex;
use runtime::{Condition, LogOnce};

use crate::config::{AuthenticationConfig, Entries};
use crate::last_known::retain_last_known;
use crate::metrics::Metrics;
use crate::overrides::{OverrideArgs, OverridesError};

/// The `ConfigMap` and its namespace.
pub(crate) const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// The pause between two attempts of the first lookup.
const RETRY: Duration = Duration::from_secs(1);

/// The number of 403 responses after which the first lookup fails. A new role binding takes a
/// moment to become effective.
const MAX_DENIALS: u32 = 3;

/// The interval at which the files are read.
const POLL: Duration = Duration::from_secs(1);

/// The reason that the configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The API server denies access to the `ConfigMap`.
    #[error(
        "cannot read the authentication settings in ConfigMap {NAMESPACE}/{NAME}: bind the service account to the Role \
         extension-apiserver-authentication-reader with a RoleBinding in the namespace {NAMESPACE}: {0}"
    )]
    Denied(kube::Error),
    /// A flag names a file that cannot be used.
    #[error(transparent)]
    Overrides(#[from] OverridesError),
}

/// The current configuration. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ConfigWatcher {
    current: Arc<ArcSwap<AuthenticationConfig>>,
    sources: Arc<Mutex<Sources>>,
    overrides: Arc<OverrideArgs>,
    /// True once the configuration is loaded.
    is_loaded: Arc<Condition>,
    metrics: Metrics,
}

/// The last entries of each source that could be used.
#[derive(Debug, Clone, Default)]
struct Sources {
    cluster: Entries,
    files: Entries,
    /// Keys of CA bundles that the `ConfigMap` has lost.
    missing: Vec<&'static str>,
    /// The number of updates so far.
    updates: u64,
}

impl ConfigWatcher {
    /// Creates a watcher with an empty configuration.
    pub(crate) fn new(overrides: OverrideArgs, is_loaded: Condition, metrics: Metrics) -> Self {
        Self {
            current: Arc::default(),
            sources: Arc::default(),
            overrides: Arc::new(overrides),
            is_loaded: Arc::new(is_loaded),
            metrics,
        }
    }

    /// Returns the current configuration.
    pub(crate) fn get(&self) -> Arc<AuthenticationConfig> {
        self.current.load_full()
    }

    /// Loads the configuration; retries until the API server answers. Without a `ConfigMap`, no
    /// front proxy is trusted. Files must be valid.
    pub(crate) async fn load(&self, config_maps: &Api<ConfigMap>) -> Result<(), LoadError> {
        let files = self.overrides.load().await?;
        let cluster = if self.overrides.needs_lookup() {
            self.look_up(config_maps).await?
        } else {
            Entries::new()
        };
        if self.overrides.has_files() {
            // These apply even if the entries of the cluster cannot be used.
            self.update(|sources| sources.files = files);
        }
        self.update_cluster(&cluster);
        Ok(())
    }

    fn update_cluster(&self, entries: &Entries) {
        let entries = self.overrides.merge(entries, &Entries::new());
        self.update(|sources| {
            (sources.cluster, sources.missing) = retain_last_known(&sources.cluster, entries);
        });
    }

    async fn look_up(&self, config_maps: &Api<ConfigMap>) -> Result<Entries, LoadError> {
        let (mut logged, mut denials) = (LogOnce::default(), 0);
        loop {
            let error = match config_maps.get_opt(NAME).await {
                Ok(found) => return Ok(found.unwrap_or_default().data.unwrap_or_default()),
                Err(error) => error,
            };
            denials += u32::from(matches!(&error, kube::Error::Api(status) if status.code == 403));
            if self.overrides.authentication_tolerate_lookup_failure {
                tracing::warn!(%error, "cannot read authentication settings; starting without them");
                return Ok(Entries::new());
            }
            if denials == MAX_DENIALS {
                return Err(LoadError::Denied(error));
            }
            if logged.is_new(()) {
                tracing::warn!(%error, "cannot read authentication settings; retrying");
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Follows all sources. Never returns.
    pub(crate) async fn follow(self, config_maps: Api<ConfigMap>) {
        tokio::join!(self.follow_cluster(config_maps), self.follow_files());
    }

    /// While the `ConfigMap` is missing or unreadable, the last configuration stays: its CA bundles
    /// are still valid, and the API server restores the object.
    async fn follow_cluster(&self, config_maps: Api<ConfigMap>) {
        if !self.overrides.needs_lookup() {
            return pending().await;
        }
        let mut states = pin!(watch_object(config_maps, NAME).default_backoff());
        let mut logged = LogOnce::default();
        while let Some(state) = states.next().await {
            match state {
                Ok(Some(found)) => {
                    logged.clear();
                    self.update_cluster(&found.data.unwrap_or_default());
                }
                Ok(None) => tracing::debug!("ConfigMap {NAMESPACE}/{NAME} does not exist"),
                Err(error) if logged.is_new(()) => {
                    tracing::warn!(%error, "cannot watch authentication settings; keeping the last valid configuration");
                }
                Err(_) => {}
            }
        }
    }

    /// While a file is missing, unreadable or not valid, its last contents stay.
    async fn follow_files(&self) {
        if !self.overrides.has_files() {
            return pending().await;
        }
        let (mut last, mut logged) = (None, LogOnce::default());
        loop {
            tokio::time::sleep(POLL).await;
            let read = self.overrides.read().await;
            match read.map_err(|error| error.to_string()) {
                Ok(files) if last.as_ref() != Some(&files) => {
                    self.update(|sources| sources.files.clone_from(&files));
                    last = Some(files);
                    logged.clear();
                }
                Ok(_) => {}
                Err(error) => {
                    if let Some(error) = logged.update(Some(error)) {
                        tracing::error!(
                            error,
                            "cannot load a CA file; keeping the last valid configuration"
                        );
                    }
                }
            }
        }
    }

    /// Changes a source. Keeps the last configuration if the new one is not valid.
    fn update(&self, change: impl FnOnce(&mut Sources)) {
        let mut sources = self.sources.lock();
        sources.updates += 1;
        let mut next = sources.clone();
        change(&mut next);
        let entries = self.overrides.merge(&next.cluster, &next.files);
        let config = match AuthenticationConfig::parse(entries, next.updates) {
            Ok(config) => config,
            Err(error) => {
                tracing::error!(%error, "authentication settings are not valid; keeping the last valid configuration");
                return self.is_loaded.ready_but(format!(
                    "the last authentication settings are not valid: {error}"
                ));
            }
        };
        let is_changed = next.updates == 1
            || next.missing != sources.missing
            || config.entries != self.current.load().entries;
        *sources = next;
        let mut warnings = config.warnings();
        warnings.extend(sources.missing.iter().map(|key| {
            format!("ConfigMap {NAMESPACE}/{NAME} has no {key} any more: keeping the last known")
        }));
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
        let (front_proxy, client_ca) = (config.front_proxy.is_some(), config.client_ca.is_some());
        tracing::info!(front_proxy, client_ca, "loaded authentication settings");
        self.metrics.set_front_proxy_configured(front_proxy);
        self.current.store(Arc::new(config));
    }
}
