//! Keeps the catalog current: lists the series of rules and the API resources of the cluster, and
//! follows the rule file. If a listing fails, the previous result is kept.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::Client;
use runtime::ApiServerClock;
use sources::rules::{RuleSet, read_api_resources};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::catalog::{Catalog, Listed};
use super::rule_file::{LoggedWarnings, RuleFile};
use super::{RulesConfig, Shared};

/// The largest number of listings in flight.
const CONCURRENCY: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(15);
/// The pause after a failed listing.
const RETRY: Duration = Duration::from_secs(10);
/// The shortest interval between listings for unknown metrics.
const MIN_RELIST_INTERVAL: Duration = Duration::from_secs(30);

pub(super) struct CatalogRefresher {
    rules: RuleSet,
    file: RuleFile,
    lister: Lister,
}

struct Lister {
    shared: Arc<Shared>,
    client: Client,
    /// The API server's time: a machine's clock may be wrong.
    clock: ApiServerClock,
    config: RulesConfig,
    listed: Listed,
    warnings: LoggedWarnings,
}

impl CatalogRefresher {
    /// Loads the rule file, which must be valid.
    pub(super) fn new(
        shared: Arc<Shared>,
        client: Client,
        clock: ApiServerClock,
        config: RulesConfig,
    ) -> anyhow::Result<Self> {
        let (file, rules) = RuleFile::open(config.file.clone(), shared.metrics.clone())?;
        let lister = Lister {
            shared,
            client,
            clock,
            config,
            listed: Listed::new(),
            warnings: LoggedWarnings::default(),
        };
        Ok(Self {
            rules,
            file,
            lister,
        })
    }

    /// Runs the loop. A change of the rule file cancels a listing. Never returns.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.lister.shared);
        loop {
            let began = Instant::now();
            let listed = tokio::select! {
                listed = self.lister.list(&self.rules) => listed,
                rules = self.file.changed() => {
                    self.rules = rules;
                    continue;
                }
            };
            let pause = match listed {
                Ok(()) => {
                    shared.listing_error.store(None);
                    self.lister.config.relist_interval
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "cannot list all metrics; keeping the previous ones");
                    shared.listing_error.store(Some(Arc::new(error)));
                    RETRY.min(self.lister.config.relist_interval)
                }
            };
            if let Some(rules) =
                wait_for_relist(began, pause, &shared.relist_requested, self.file.changed()).await
            {
                self.rules = rules;
            }
        }
    }
}

/// Waits until the next listing: for the pause, for a request for an unknown metric, or for a
/// change, which is returned.
///
/// `Notify` remembers a request that came before the wait.
async fn wait_for_relist<T>(
    began: Instant,
    pause: Duration,
    relist_requested: &Notify,
    change: impl Future<Output = T>,
) -> Option<T> {
    let relist_requested = async {
        relist_requested.notified().await;
        sleep_until(began + MIN_RELIST_INTERVAL).await;
    };
    tokio::select! {
        () = sleep_until(began + pause) => None,
        () = relist_requested => None,
        change = change => Some(change),
    }
}

impl Lister {
    async fn list(&mut self, rules: &RuleSet) -> anyhow::Result<()> {
        let resources = timeout(TIMEOUT, read_api_resources(&self.client)).await;
        let resources = resources
            .context("the API server takes too long")?
            .context("list the cluster's resources")?;
        let now = self.clock.timestamp();
        let store = self.shared.store.connect(now).await?;
        let all = rules.custom.iter().chain(&rules.external);
        let queries: BTreeSet<String> = all.map(|rule| rule.series_query.clone()).collect();
        let since = now
            .saturating_sub(self.config.max_age)
            .unwrap_or(Timestamp::MIN);
        self.listed.retain(|query, _| queries.contains(query));
        let mut lists = stream::iter(queries)
            .map(|query| async {
                let found = store.shapes(&query, since).await;
                (query, found)
            })
            .buffer_unordered(CONCURRENCY);
        let mut failed = None;
        let mut found = Listed::new();
        while let Some((query, shapes)) = lists.next().await {
            match shapes {
                Ok(shapes) => drop(found.insert(query, Arc::new(shapes))),
                Err(error) => drop(failed.get_or_insert(anyhow::Error::new(error).context(query))),
            }
        }
        drop(lists);
        self.listed.extend(found);
        let (catalog, warnings) = Catalog::of(rules, &self.listed, resources);
        for complaint in warnings {
            self.warnings.log(&complaint.to_string());
        }
        let (custom, external) = catalog.len();
        tracing::debug!(custom, external, "metrics are listed");
        self.shared.publish(catalog);
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// `expected`: the end of the wait in seconds, with requests for unknown metrics at these
    /// times.
    async fn check(wanted_at: &[u64], pause: Duration, expected: u64) {
        let (relist_requested, began) = (Notify::new(), Instant::now());
        let wishes = async {
            for second in wanted_at {
                sleep_until(began + Duration::from_secs(*second)).await;
                relist_requested.notify_one();
            }
            pending::<()>().await;
        };
        tokio::select! {
            change = wait_for_relist(began, pause, &relist_requested, pending::<()>()) => assert_eq!(change, None),
            () = wishes => {}
        }
        // Timers are exact to a millisecond.
        let seconds = (Instant::now() - began).as_secs();
        assert_eq!(seconds, expected, "{wanted_at:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_for_a_relist_is_not_lost() {
        let long = Duration::from_mins(10);
        check(&[], long, 600).await;
        check(&[2], long, 30).await;
        check(&[2, 17], long, 30).await;
        check(&[100], long, 100).await;
        check(&[2], Duration::from_secs(10), 10).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_during_a_listing_counts() {
        let (relist_requested, began) = (Notify::new(), Instant::now());
        relist_requested.notify_one();
        let long = Duration::from_mins(10);
        assert_eq!(
            wait_for_relist(began, long, &relist_requested, pending::<()>()).await,
            None
        );
        assert_eq!((Instant::now() - began).as_secs(), 30);
        assert_eq!(
            wait_for_relist(began, long, &relist_requested, async { "change" }).await,
            Some("change")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_survives_reloads_of_the_rule_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rules.yaml");
        std::fs::write(&path, "rules: []").expect("a file");
        let metrics =
            super::super::Metrics::register(&prometheus::Registry::new()).expect("metrics");
        let (mut file, _) = RuleFile::open(path, metrics).expect("rules");
        let (relist_requested, began) = (Notify::new(), Instant::now());
        relist_requested.notify_one();
        let (pause, change) = (Duration::from_mins(10), file.changed());
        let changed = wait_for_relist(began, pause, &relist_requested, change).await;
        assert!(changed.is_none());
        assert!(Instant::now() - began < Duration::from_mins(1));
    }
}
