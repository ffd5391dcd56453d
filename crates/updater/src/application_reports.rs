//! Reports to the recommender whether the pods of each VPA object have the recommended requests.

use std::sync::Arc;

use feed::ApplicationReport;
use feed::client::Reports;
use jiff::Timestamp;
use rollout::{APPLIED, Applications, PauseReason, Plan};
use tokio::sync::watch;
use view::View;

/// The states of all objects, and their reports.
pub(crate) struct ApplicationReports {
    states: Applications,
    /// `None` without a feed.
    reports: Option<watch::Sender<Reports>>,
}

impl ApplicationReports {
    pub(crate) fn new(reports: Option<watch::Sender<Reports>>) -> Self {
        Self {
            states: Applications::default(),
            reports,
        }
    }

    /// Reports a pass.
    pub(crate) fn passed(
        &mut self,
        plan: &Plan,
        pause: Option<PauseReason>,
        view: &View,
        now: Timestamp,
    ) {
        let Some(reports) = &self.reports else {
            return;
        };
        self.states.update(plan, pause, now);
        let states = &self.states;
        reports.send_if_modified(|reports| update(reports, states, view));
    }
}

/// Replaces reports that differ. Returns whether there are any.
fn update(reports: &mut Reports, states: &Applications, view: &View) -> bool {
    let mut before = std::mem::take(reports);
    let count = before.len();
    let mut is_change = false;
    for (key, state) in states.iter() {
        let Some(vpa) = view.vpas.get(key) else {
            continue;
        };
        let report = ApplicationReport {
            uid: vpa.uid().to_owned(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            applied: state.reason == APPLIED,
            reason: state.reason.to_owned(),
            message: format!("{} (since {:.0})", state.message, state.since),
        };
        let report = match before.remove(vpa.uid()) {
            Some(same) if *same == report => same,
            _ => {
                is_change = true;
                Arc::new(report)
            }
        };
        reports.insert(vpa.uid().to_owned(), report);
    }
    is_change || reports.len() != count
}
