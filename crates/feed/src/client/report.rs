//! The updater's reports to the leaders, each of which takes in those of its own objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use runtime::LogOnce;
use rustls_pki_types::ServerName;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::transport::Channel;

use super::{CONNECT_TIMEOUT, CurrentTls, NO_ANSWER, Reader, client};
use crate::application::{ApplicationReport, MAX_REPORTS, cut};
use crate::proto::ReportApplicationsRequest;
use crate::proto::feed_client::FeedClient;

/// The latest reports, by UID.
pub type Reports = BTreeMap<String, Arc<ApplicationReport>>;

/// Pace of the reports.
#[derive(Debug, Clone, Copy)]
pub struct ReportPace {
    /// Shortest time between two reports of one object.
    pub pause: Duration,
    /// Time after which all reports are sent again, because the server forgets them.
    pub refresh: Duration,
}

impl Default for ReportPace {
    fn default() -> Self {
        Self {
            pause: Duration::from_secs(10),
            refresh: Duration::from_mins(5),
        }
    }
}

impl Reader {
    /// Sends the latest reports to each leader: changed ones at most once per pause, and all to a
    /// new leader. Runs until the sender of the reports is dropped.
    pub async fn report(self, reports: watch::Receiver<Reports>, pace: ReportPace) {
        let leaders = self.leaders.into_iter().map(|leader| {
            LeaderReports {
                leader,
                tls: Arc::clone(&self.tls),
                server_name: self.server_name.clone(),
                reports: reports.clone(),
                pace,
                address: String::new(),
                connection: None,
                term: 0,
                sent: Reports::new(),
            }
            .run()
        });
        futures::future::join_all(leaders).await;
    }
}

struct LeaderReports {
    leader: watch::Receiver<Option<String>>,
    tls: CurrentTls,
    server_name: ServerName<'static>,
    reports: watch::Receiver<Reports>,
    pace: ReportPace,
    address: String,
    connection: Option<FeedClient<Channel>>,
    term: u64,
    sent: Reports,
}

impl LeaderReports {
    async fn run(mut self) {
        let mut logged = LogOnce::default();
        let mut refresh_at = Instant::now() + self.pace.refresh;
        loop {
            let next = Instant::now() + self.pace.pause;
            if Instant::now() >= refresh_at {
                self.sent.clear();
                refresh_at = Instant::now() + self.pace.refresh;
            }
            let failed = match self.send().await {
                Ok(()) => None,
                Err(error) => {
                    self.connection = None;
                    Some(error.to_string())
                }
            };
            let is_complete = failed.is_none();
            if let Some(error) = logged.update(failed) {
                tracing::warn!(error, "cannot report to the recommender; trying again");
            }
            sleep_until(next).await;
            if is_complete {
                tokio::select! {
                    changed = self.reports.changed() => if changed.is_err() { return },
                    changed = self.leader.changed() => if changed.is_err() { return },
                    () = sleep_until(refresh_at) => {}
                }
            } else if self.reports.has_changed().is_err() || self.leader.has_changed().is_err() {
                return;
            }
        }
    }

    /// Sends what the leader does not have yet. Does nothing without a leader.
    async fn send(&mut self) -> anyhow::Result<()> {
        let Some(address) = self.leader.borrow_and_update().clone() else {
            return Ok(());
        };
        if address != self.address {
            self.address = address;
            self.connection = None;
            self.sent.clear();
        }
        let reports = self.reports.borrow_and_update().clone();
        self.sent.retain(|uid, _| reports.contains_key(uid));
        loop {
            let is_new = |(uid, report): &(&String, &Arc<ApplicationReport>)| {
                self.sent.get(*uid).is_none_or(|sent| sent != *report)
            };
            let new = reports.iter().filter(is_new).take(MAX_REPORTS);
            let new: Vec<_> = new.map(|(_, report)| Arc::clone(report)).collect();
            if new.is_empty() {
                return Ok(());
            }
            let term = self.call(&new).await?;
            if term != self.term {
                // A new term has no reports of earlier ones.
                self.term = term;
                self.sent.clear();
            }
            for report in new {
                self.sent.insert(report.uid.clone(), report);
            }
        }
    }

    async fn call(&mut self, reports: &[Arc<ApplicationReport>]) -> anyhow::Result<u64> {
        let reports = reports.iter().map(|report| cut((**report).clone()));
        let request = ReportApplicationsRequest {
            reports: reports.collect(),
        };
        let calling = async {
            let mut client = match self.connection.take() {
                Some(client) => client,
                None => client(&self.address, &self.tls, &self.server_name).await?,
            };
            let response = client.report_applications(request).await?;
            self.connection = Some(client);
            Ok(response.into_inner().term)
        };
        let called = timeout(CONNECT_TIMEOUT, calling).await;
        called.context(NO_ANSWER)?
    }
}
