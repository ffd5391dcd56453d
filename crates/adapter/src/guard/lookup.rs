//! Follows the `ConfigMap` in which the API server says whom to trust about callers.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use runtime::Condition;

use super::metrics::Metrics;
use super::trust::{Data, Trust};

/// Where the API server says it.
pub(super) const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Between two first tries.
const PAUSE: Duration = Duration::from_secs(1);

/// After so many refusals there is no use in going on. A role that was just bound may take a moment to count.
const REFUSALS: u32 = 3;

/// The API server does not let us read it.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read ConfigMap {NAMESPACE}/{NAME}, which says whom to trust about callers: bind the service account to the Role \
     extension-apiserver-authentication-reader with a RoleBinding in the namespace {NAMESPACE}: {0}"
)]
pub(super) struct NotAllowed(kube::Error);

/// Whom to trust now. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Trusted {
    current: Arc<ArcSwap<Trust>>,
    generation: Arc<AtomicU64>,
    /// Holds from the first reading on.
    is_known: Arc<Condition>,
    metrics: Metrics,
}

impl Trusted {
    /// Nobody yet.
    pub(super) fn nobody(is_known: Condition, metrics: Metrics) -> Self {
        Self { current: Arc::default(), generation: Arc::default(), is_known: Arc::new(is_known), metrics }
    }

    /// Whom to trust now.
    pub(super) fn load_full(&self) -> Arc<Trust> {
        self.current.load_full()
    }

    /// Reads it for the first time, however long it takes. That there is nothing to read is an answer too: then nobody is
    /// believed who says who asks.
    pub(super) async fn begin(&self, config_maps: &Api<ConfigMap>) -> Result<(), NotAllowed> {
        let (mut said, mut refusals) = (false, 0);
        loop {
            match config_maps.get_opt(NAME).await {
                Ok(found) => {
                    self.take(found.unwrap_or_default().data.unwrap_or_default());
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    refusals += 1;
                    if refusals == REFUSALS {
                        return Err(NotAllowed(kube::Error::Api(status)));
                    }
                }
                Err(error) if !said => {
                    tracing::warn!(%error, "cannot read whom to trust about callers; trying again");
                    said = true;
                }
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Follows it for ever. While it cannot be read, or is gone, the last one stands: its authorities do not go bad by that, and
    /// the API server puts it back.
    pub(super) async fn follow(self, config_maps: Api<ConfigMap>) {
        let mut states = pin!(watch_object(config_maps, NAME).default_backoff());
        let mut said = false;
        while let Some(state) = states.next().await {
            match state {
                Ok(Some(found)) => {
                    said = false;
                    self.take(found.data.unwrap_or_default());
                }
                Ok(None) => tracing::debug!("there is no ConfigMap {NAMESPACE}/{NAME}"),
                Err(error) if !said => {
                    tracing::warn!(%error, "cannot watch whom to trust about callers; the last known stands");
                    said = true;
                }
                Err(_) => {}
            }
        }
    }

    /// Takes over what is said, unless it is the same, or cannot be used.
    fn take(&self, data: Data) {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let trust = match Trust::read(data, generation) {
            Ok(trust) => trust,
            Err(error) => {
                tracing::error!(%error, "{NAMESPACE}/{NAME} cannot be used; the last known stands");
                return self.is_known.ready_but(format!("what was read last cannot be used: {error}"));
            }
        };
        let warnings = trust.warnings();
        if warnings.is_empty() {
            self.is_known.ready();
        } else {
            self.is_known.ready_but(warnings.join("; "));
        }
        if trust.data == self.current.load().data && generation > 1 {
            return;
        }
        for warning in warnings {
            tracing::warn!("{NAMESPACE}/{NAME}: {warning}");
        }
        let (has_front_proxy, has_clients) = (trust.front_proxy.is_some(), trust.clients.is_some());
        tracing::info!(has_front_proxy, has_clients, "whom to trust about callers");
        self.metrics.has_front_proxy(has_front_proxy);
        self.current.store(Arc::new(trust));
    }
}
