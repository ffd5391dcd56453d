//! Reads the scale subresources of custom kinds, also above workloads that no VPA targets yet.

mod controller;
mod get;
mod read_queue;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::WorkloadRef;
use tokio::sync::watch;
use view::View;

pub(crate) use controller::run;

/// Handle to the workloads whose owners' scale subresources are read.
#[derive(Debug, Clone)]
pub struct ScaleRequests(Arc<watch::Sender<View>>);

impl ScaleRequests {
    pub(crate) fn new(store: Arc<watch::Sender<View>>) -> Self {
        Self(store)
    }

    /// Replaces the requested workloads. The scales appear in the view.
    pub fn ask(&self, workloads: BTreeSet<WorkloadRef>) {
        self.0.send_if_modified(|view| {
            let is_new = view.scale_requests != workloads;
            view.scale_requests = workloads;
            is_new
        });
    }
}
