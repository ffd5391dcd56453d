//! What the parts of one hosted pod share.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use super::Hosting;
use super::address::PodAddress;
use super::report::{Report, Reports, Slot};

/// The pod that containers belong to.
pub(super) struct PodContext {
    /// What all pods share.
    pub(super) hosting: Arc<Hosting>,
    /// The latest version of the pod.
    pub(super) pods: watch::Receiver<Option<Arc<Pod>>>,
    /// Its address.
    pub(super) address: PodAddress,
    /// Everything of this pod on disk.
    pub(super) folder: PathBuf,
    /// What its containers report.
    pub(super) reports: watch::Sender<Reports>,
}

impl PodContext {
    /// The pod as it is now, or an empty one when it is gone.
    pub(super) fn pod(&self) -> Arc<Pod> {
        self.pods.borrow().clone().unwrap_or_default()
    }

    /// Its volumes, one folder each.
    pub(super) fn volumes(&self) -> PathBuf {
        self.folder.join("volumes")
    }

    /// A container's log folder.
    pub(super) fn logs(&self, container: &str) -> PathBuf {
        self.folder.join("logs").join(container)
    }

    /// The kubeconfig for its `ServiceAccount`.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Changes what a container reports.
    pub(super) fn report(&self, slot: Slot, change: impl FnOnce(&mut Report)) {
        self.reports.send_if_modified(|reports| {
            let Some(report) = reports.get_mut(slot) else {
                return false;
            };
            let before = report.clone();
            change(report);
            *report != before
        });
    }
}
