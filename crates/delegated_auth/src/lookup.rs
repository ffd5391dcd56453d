//! Follows the `ConfigMap` in which the API server says whom to trust about callers, and the files
//! that stand in for it.

use parking_lot::Mutex;
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
use runtime::Condition;

use crate::lost::with_lost;
use crate::metrics::Metrics;
use crate::own::{Own, Unusable};
use crate::trust::{Data, Trust};

/// Where the API server says it.
pub(crate) const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Between two first tries.
const PAUSE: Duration = Duration::from_secs(1);

/// After so many refusals there is no use in going on. A role that was just bound may take a moment
/// to count.
const REFUSALS: u32 = 3;

/// How often the files are compared with what is in use.
const PERIOD: Duration = Duration::from_secs(1);

/// Why there is no beginning.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unknown {
    /// The API server does not let us read it.
    #[error(
        "cannot read ConfigMap {NAMESPACE}/{NAME}, which says whom to trust about callers: bind the service account to the Role \
         extension-apiserver-authentication-reader with a RoleBinding in the namespace {NAMESPACE}: {0}"
    )]
    NotAllowed(kube::Error),
    /// A flag names a file that cannot be used.
    #[error(transparent)]
    File(#[from] Unusable),
}

/// Whom to trust now. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Trusted {
    current: Arc<ArcSwap<Trust>>,
    said: Arc<Mutex<Said>>,
    own: Arc<Own>,
    /// Holds from the first reading on.
    is_known: Arc<Condition>,
    metrics: Metrics,
}

/// What was said last, as far as it can be used.
#[derive(Debug, Clone, Default)]
struct Said {
    by_the_cluster: Data,
    by_files: Data,
    /// Authorities that the cluster names no more.
    lost: Vec<&'static str>,
    /// How often anybody said anything.
    times: u64,
}

impl Trusted {
    /// Nobody yet.
    pub(crate) fn nobody(own: Own, is_known: Condition, metrics: Metrics) -> Self {
        let own = Arc::new(own);
        Self {
            current: Arc::default(),
            said: Arc::default(),
            own,
            is_known: Arc::new(is_known),
            metrics,
        }
    }

    /// Whom to trust now.
    pub(crate) fn load_full(&self) -> Arc<Trust> {
        self.current.load_full()
    }

    /// Reads it for the first time, however long it takes. That there is nothing to read is an
    /// answer too: then nobody is believed who says who asks. Files must be sound.
    pub(crate) async fn begin(&self, config_maps: &Api<ConfigMap>) -> Result<(), Unknown> {
        let by_files = self.own.begin().await?;
        let by_the_cluster = if self.own.needs_lookup() {
            self.look_up(config_maps).await?
        } else {
            Data::new()
        };
        if self.own.has_files() {
            // What cannot be used of the cluster's leaves this.
            self.take(|said| said.by_files = by_files);
        }
        self.hear(&by_the_cluster);
        Ok(())
    }

    /// The cluster says this. What files replace is none of its business.
    fn hear(&self, data: &Data) {
        let data = self.own.over(data, &Data::new());
        self.take(|said| (said.by_the_cluster, said.lost) = with_lost(&said.by_the_cluster, data));
    }

    async fn look_up(&self, config_maps: &Api<ConfigMap>) -> Result<Data, Unknown> {
        let (mut said, mut refusals) = (false, 0);
        loop {
            let error = match config_maps.get_opt(NAME).await {
                Ok(found) => return Ok(found.unwrap_or_default().data.unwrap_or_default()),
                Err(error) => error,
            };
            refusals += u32::from(matches!(&error, kube::Error::Api(status) if status.code == 403));
            if self.own.tolerates_failure {
                tracing::warn!(%error, "cannot read whom to trust about callers; going on without");
                return Ok(Data::new());
            }
            if refusals == REFUSALS {
                return Err(Unknown::NotAllowed(error));
            }
            if !said {
                tracing::warn!(%error, "cannot read whom to trust about callers; trying again");
                said = true;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Follows all of it for ever.
    pub(crate) async fn follow(self, config_maps: Api<ConfigMap>) {
        tokio::join!(self.follow_the_cluster(config_maps), self.follow_files());
    }

    /// While it cannot be read, or is gone, the last one stands: its authorities do not go bad by
    /// that, and the API server puts it back.
    async fn follow_the_cluster(&self, config_maps: Api<ConfigMap>) {
        if !self.own.needs_lookup() {
            return pending().await;
        }
        let mut states = pin!(watch_object(config_maps, NAME).default_backoff());
        let mut said = false;
        while let Some(state) = states.next().await {
            match state {
                Ok(Some(found)) => {
                    said = false;
                    self.hear(&found.data.unwrap_or_default());
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

    /// While a file cannot be read, or used, its last contents stand.
    async fn follow_files(&self) {
        if !self.own.has_files() {
            return pending().await;
        }
        let (mut last, mut complaint) = (None, None);
        loop {
            tokio::time::sleep(PERIOD).await;
            match self.own.read().await {
                Ok(found) if last.as_ref() != Some(&found) => {
                    self.take(|said| said.by_files = found.clone());
                    (last, complaint) = (Some(found), None);
                }
                Ok(_) => {}
                Err(error) => {
                    let error = error.to_string();
                    if complaint.as_ref() != Some(&error) {
                        tracing::error!(
                            error,
                            "whom to trust about callers cannot be read; the last known stands"
                        );
                    }
                    complaint = Some(error);
                }
            }
        }
    }

    /// Takes over what is said, unless it is the same, or cannot be used.
    fn take(&self, change: impl FnOnce(&mut Said)) {
        // It is replaced whole, so a panic elsewhere leaves nothing half-done.
        let mut said = self.said.lock();
        let mut next = said.clone();
        next.times += 1;
        said.times = next.times;
        change(&mut next);
        let data = self.own.over(&next.by_the_cluster, &next.by_files);
        let trust = match Trust::read(data, next.times) {
            Ok(trust) => trust,
            Err(error) => {
                tracing::error!(%error, "whom to trust about callers cannot be used; the last known stands");
                return self
                    .is_known
                    .ready_but(format!("what was read last cannot be used: {error}"));
            }
        };
        let is_news =
            next.times == 1 || next.lost != said.lost || trust.data != self.current.load().data;
        *said = next;
        let mut warnings = trust.warnings();
        let gone = |key: &&str| {
            format!("ConfigMap {NAMESPACE}/{NAME} has no {key} any more: the last known stands")
        };
        warnings.extend(said.lost.iter().map(gone));
        if warnings.is_empty() {
            self.is_known.ready();
        } else {
            self.is_known.ready_but(warnings.join("; "));
        }
        if !is_news {
            return;
        }
        for warning in warnings {
            tracing::warn!("whom to trust about callers: {warning}");
        }
        let (has_front_proxy, has_clients) = (trust.front_proxy.is_some(), trust.clients.is_some());
        tracing::info!(has_front_proxy, has_clients, "whom to trust about callers");
        self.metrics.has_front_proxy(has_front_proxy);
        self.current.store(Arc::new(trust));
    }
}
