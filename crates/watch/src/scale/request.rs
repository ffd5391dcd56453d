//! Asks for the scale subresources above workloads that no autoscaler points at yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::WorkloadRef;
use tokio::sync::watch;
use view::View;

/// Says of which workloads the view should know what is above them.
#[derive(Debug, Clone)]
pub struct ScaleRequests(Arc<watch::Sender<View>>);

impl ScaleRequests {
    pub(crate) fn new(store: Arc<watch::Sender<View>>) -> Self {
        Self(store)
    }

    /// From now on these, and no others. The answers come with the view.
    pub fn ask(&self, workloads: BTreeSet<WorkloadRef>) {
        self.0.send_if_modified(|view| {
            let is_new = view.scale_requests != workloads;
            view.scale_requests = workloads;
            is_new
        });
    }
}
