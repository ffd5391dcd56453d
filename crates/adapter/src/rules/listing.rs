//! Keeps the catalog of metrics current: lists the series that rules are about, the resources of the cluster, and the rule file.
//!
//! A list that fails leaves what the one before found. A file that cannot be read any more leaves the rules that stand.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::Client;
use tokio::time::{Instant, sleep_until, timeout};

use super::Shared;
use super::api_resources::ApiResources;
use super::catalog::{Catalog, Listed};
use super::rule::RuleSet;

/// Lists at the same time.
const CONCURRENCY: usize = 4;
/// For the resources of the cluster.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause after a list that failed.
const RETRY: Duration = Duration::from_secs(10);
/// A metric that nobody knows is reason to list again, but no more often than this.
const WANTED: Duration = Duration::from_secs(30);
/// How often the rule file is looked at.
const LOOK: Duration = Duration::from_secs(5);

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
    shared: Arc<Shared>,
    client: Client,
    pace: Pace,
    path: PathBuf,
    text: String,
    rules: RuleSet,
    listed: Listed,
    /// Complaints that were made are not repeated.
    complaints: BTreeSet<String>,
}

impl Listing {
    /// Starts with the rules of a file, which must be good.
    pub(super) fn new(shared: Arc<Shared>, client: Client, pace: Pace, path: PathBuf) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let rules = RuleSet::parse(&text).with_context(|| format!("rule file {}", path.display()))?;
        warn(&rules);
        let (listed, complaints) = (Listed::new(), BTreeSet::new());
        Ok(Self { shared, client, pace, path, text, rules, listed, complaints })
    }

    /// Goes on for ever.
    pub(super) async fn run(mut self) {
        loop {
            let began = Instant::now();
            let listed = self.list().await;
            self.shared.metrics.listed(listed.is_ok());
            let pause = match listed {
                Ok(()) => self.pace.interval,
                Err(error) => {
                    tracing::warn!(error = %format!("{error:#}"), "cannot list all metrics; those known before stay");
                    RETRY.min(self.pace.interval)
                }
            };
            self.rest(began, pause).await;
        }
    }

    /// Until it is time to list again: after the pause, when somebody wants what nobody knows, or when the rules are others.
    async fn rest(&mut self, began: Instant, pause: Duration) {
        let mut next = Instant::now() + LOOK;
        loop {
            let wanted = async {
                self.shared.wanted.notified().await;
                sleep_until(began + WANTED).await;
            };
            tokio::select! {
                () = sleep_until(began + pause) => return,
                () = wanted => return,
                () = sleep_until(next) => {}
            }
            next += LOOK;
            self.shared.answers.sweep(Timestamp::now());
            if self.reread().await {
                return;
            }
        }
    }

    /// Whether there are new rules.
    async fn reread(&mut self) -> bool {
        let text = match tokio::fs::read_to_string(&self.path).await {
            Ok(text) => text,
            Err(error) => {
                self.complain(format!("cannot read {}: {error}", self.path.display()));
                self.shared.metrics.file_is_broken(true);
                return false;
            }
        };
        if text == self.text {
            return false;
        }
        self.text = text;
        match RuleSet::parse(&self.text) {
            Ok(rules) => {
                tracing::info!(file = %self.path.display(), "there are new rules");
                warn(&rules);
                self.rules = rules;
                self.shared.metrics.file_is_broken(false);
                true
            }
            Err(error) => {
                tracing::error!(%error, file = %self.path.display(), "the rule file has an error; the rules before it stand");
                self.shared.metrics.file_is_broken(true);
                false
            }
        }
    }

    async fn list(&mut self) -> anyhow::Result<()> {
        let resources = timeout(PATIENCE, ApiResources::read(&self.client)).await;
        let resources = resources.context("the API server takes too long")?.context("list the cluster's resources")?;
        let store = self.shared.store.connect().await?;
        let rules = self.rules.custom.iter().chain(&self.rules.external);
        let queries: BTreeSet<String> = rules.map(|rule| rule.series_query.clone()).collect();
        let since = Timestamp::now().saturating_sub(self.pace.max_age).unwrap_or(Timestamp::MIN);
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
        let (catalog, complaints) = Catalog::of(&self.rules, &self.listed, resources);
        for complaint in complaints {
            self.complain(complaint.to_string());
        }
        let (custom, external) = catalog.len();
        self.shared.metrics.known(custom, external);
        tracing::debug!(custom, external, "metrics are listed");
        self.shared.publish(catalog);
        failed.map_or(Ok(()), Err)
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < 1000 && !self.complaints.contains(&complaint) {
            tracing::warn!("{complaint}");
            self.complaints.insert(complaint);
        }
    }
}

fn warn(rules: &RuleSet) {
    for warning in &rules.warnings {
        tracing::warn!("{warning}");
    }
}
