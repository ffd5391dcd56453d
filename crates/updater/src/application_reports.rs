//! Reports to the recommender whether the pods of each VPA object have the recommended requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use feed::ApplicationReport;
use feed::client::Reports;
use jiff::Timestamp;
use rollout::{APPLIED, Application, Applications, PauseReason, Plan};
use tokio::sync::watch;
use view::{ObjectKey, View};

pub(crate) struct ApplicationReports {
    states: Applications,
    reported: BTreeMap<ObjectKey, (Arc<Application>, String)>,
    /// `None` without a feed.
    reports: Option<watch::Sender<Reports>>,
}

impl ApplicationReports {
    pub(crate) fn new(reports: Option<watch::Sender<Reports>>) -> Self {
        Self {
            states: Applications::default(),
            reported: BTreeMap::new(),
            reports,
        }
    }

    /// Reports the states that a pass has changed.
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
        let mut before = std::mem::take(&mut self.reported);
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        for (key, state) in self.states.iter() {
            let Some(vpa) = view.vpas.get(key) else {
                continue;
            };
            let entry = match before.remove(key) {
                Some((old, uid)) if Arc::ptr_eq(&old, state) && uid == vpa.uid() => (old, uid),
                old => {
                    // A recreated object has another UID.
                    gone.extend(old.map(|(_, uid)| uid).filter(|uid| uid != vpa.uid()));
                    changed.push(Arc::new(report(key, vpa.uid(), state)));
                    (Arc::clone(state), vpa.uid().to_owned())
                }
            };
            self.reported.insert(key.clone(), entry);
        }
        gone.extend(before.into_values().map(|(_, uid)| uid));
        if !changed.is_empty() || !gone.is_empty() {
            reports.send_modify(|reports| {
                for uid in &gone {
                    reports.remove(uid);
                }
                reports.extend(changed.into_iter().map(|one| (one.uid.clone(), one)));
            });
        }
    }
}

fn report(key: &ObjectKey, uid: &str, state: &Application) -> ApplicationReport {
    ApplicationReport {
        uid: uid.to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        applied: state.reason == APPLIED,
        reason: state.reason.to_owned(),
        message: format!("{} (since {:.0})", state.message, state.since),
    }
}
