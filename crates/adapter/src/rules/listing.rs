//! Keeps the catalog of metrics current: lists the series that rules are about and the resources of
//! the cluster, and follows the rule file. A list that fails leaves what the one before found.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
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

use super::Shared;
use super::catalog::{Catalog, Listed};
use super::followed::{Complaints, RuleFile};

/// Lists at the same time.
const CONCURRENCY: usize = 4;
/// For the resources of the cluster.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause after a list that failed.
const RETRY: Duration = Duration::from_secs(10);
/// A metric that nobody knows is reason to list again, but no more often than this.
const WANTED: Duration = Duration::from_secs(30);

/// How series are listed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How often.
    pub(super) interval: Duration,
    /// How old their last sample may be.
    pub(super) max_age: Duration,
}

/// What the loop knows.
pub(super) struct Listing {
    rules: RuleSet,
    file: RuleFile,
    lister: Lister,
}

/// What it takes to list.
struct Lister {
    shared: Arc<Shared>,
    client: Client,
    /// The API server's time, which is nearer to the store's than that of a machine whose clock is
    /// off.
    clock: ApiServerClock,
    pace: Pace,
    listed: Listed,
    complaints: Complaints,
}

impl Listing {
    /// Starts with the rules of a file, which must be good.
    pub(super) fn new(
        shared: Arc<Shared>,
        client: Client,
        clock: ApiServerClock,
        pace: Pace,
        path: PathBuf,
    ) -> anyhow::Result<Self> {
        let (file, rules) = RuleFile::open(path, shared.metrics.clone())?;
        let (listed, complaints) = (Listed::new(), Complaints::default());
        Ok(Self {
            rules,
            file,
            lister: Lister {
                shared,
                client,
                clock,
                pace,
                listed,
                complaints,
            },
        })
    }

    /// Goes on for ever. A list of rules that stand no longer is broken off.
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
            shared.metrics.listed(listed.is_ok());
            let pause = match listed {
                Ok(()) => self.lister.pace.interval,
                Err(error) => {
                    tracing::warn!(error = %format!("{error:#}"), "cannot list all metrics; those known before stay");
                    RETRY.min(self.lister.pace.interval)
                }
            };
            if let Some(rules) = rest(began, pause, &shared.wanted, self.file.changed()).await {
                self.rules = rules;
            }
        }
    }
}

/// Until it is time to list again: after the pause, when somebody wants what nobody knows, or when
/// there is a change, which is given.
///
/// What is wanted is listened for from the beginning to the end, and whoever wanted something
/// before was noted: no wish is lost.
async fn rest<T>(
    began: Instant,
    pause: Duration,
    wanted: &Notify,
    change: impl Future<Output = T>,
) -> Option<T> {
    let wanted = async {
        wanted.notified().await;
        sleep_until(began + WANTED).await;
    };
    tokio::select! {
        () = sleep_until(began + pause) => None,
        () = wanted => None,
        change = change => Some(change),
    }
}

impl Lister {
    async fn list(&mut self, rules: &RuleSet) -> anyhow::Result<()> {
        let resources = timeout(PATIENCE, read_api_resources(&self.client)).await;
        let resources = resources
            .context("the API server takes too long")?
            .context("list the cluster's resources")?;
        let store = self.shared.store.connect().await?;
        let all = rules.custom.iter().chain(&rules.external);
        let queries: BTreeSet<String> = all.map(|rule| rule.series_query.clone()).collect();
        let since = self
            .clock
            .timestamp()
            .saturating_sub(self.pace.max_age)
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
        let (catalog, complaints) = Catalog::of(rules, &self.listed, resources);
        for complaint in complaints {
            self.complaints.make(&complaint.to_string());
        }
        let (custom, external) = catalog.len();
        self.shared.metrics.known(custom, external);
        tracing::debug!(custom, external, "metrics are listed");
        self.shared.publish(catalog);
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// When the rest is over, in seconds, if somebody wants something at these.
    async fn check(wanted_at: &[u64], pause: Duration, expected: u64) {
        let (wanted, began) = (Notify::new(), Instant::now());
        let wishes = async {
            for second in wanted_at {
                sleep_until(began + Duration::from_secs(*second)).await;
                wanted.notify_one();
            }
            pending::<()>().await;
        };
        tokio::select! {
            change = rest(began, pause, &wanted, pending::<()>()) => assert_eq!(change, None),
            () = wishes => {}
        }
        // Timers are exact to a millisecond.
        assert_eq!(
            (Instant::now() - began).as_secs(),
            expected,
            "{wanted_at:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_wish_is_kept_however_early_it_comes() {
        let long = Duration::from_mins(10);
        check(&[], long, 600).await;
        check(&[2], long, 30).await;
        check(&[2, 17], long, 30).await;
        check(&[100], long, 100).await;
        check(&[2], Duration::from_secs(10), 10).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_wanted_while_a_list_was_made_counts_too() {
        let (wanted, began) = (Notify::new(), Instant::now());
        wanted.notify_one();
        let long = Duration::from_mins(10);
        assert_eq!(rest(began, long, &wanted, pending::<()>()).await, None);
        assert_eq!((Instant::now() - began).as_secs(), 30);
        assert_eq!(
            rest(began, long, &wanted, async { "change" }).await,
            Some("change")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_wish_outlasts_looks_at_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rules.yaml");
        std::fs::write(&path, "rules: []").expect("a file");
        let metrics = super::super::metrics::Metrics::register(&prometheus::Registry::new())
            .expect("metrics");
        let (mut file, _) = RuleFile::open(path, metrics).expect("rules");
        let (wanted, began) = (Notify::new(), Instant::now());
        wanted.notify_one();
        assert!(
            rest(began, Duration::from_mins(10), &wanted, file.changed())
                .await
                .is_none()
        );
        assert!(Instant::now() - began < Duration::from_mins(1));
    }
}
