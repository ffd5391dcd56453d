//! VPAs that ask for the present scale point, followed in the view of pods and VPAs.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use horizontal::ehpa::{ask_the_same, scale_point_vpas};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use view::{View, Vpa};

/// Minimum interval between two looks at the view, which changes with each pod.
const INTERVAL: Duration = Duration::from_secs(1);

/// The VPAs of the last look.
#[derive(Default)]
pub(super) struct ScalePointVpas {
    vpas: Vec<Arc<Vpa>>,
    next: Option<Instant>,
}

impl ScalePointVpas {
    pub(super) fn read(&mut self, view: &View) -> Option<&[Arc<Vpa>]> {
        if !view.is_synced() {
            return None;
        }
        self.vpas = scale_point_vpas(view);
        Some(&self.vpas)
    }

    /// Returns when the VPAs differ from those of the last look, or the view is newly synced.
    /// Dropping it loses nothing.
    pub(super) async fn changed(&mut self, view: &mut watch::Receiver<View>) {
        loop {
            if let Some(next) = self.next {
                sleep_until(next).await;
            } else if view.wait_for(View::is_synced).await.is_err() {
                return pending().await;
            }
            let is_first = self.next.is_none();
            self.next = Some(Instant::now() + INTERVAL);
            let is_same = {
                let view = view.borrow_and_update();
                ask_the_same(&self.vpas, &scale_point_vpas(&view))
            };
            if is_first || !is_same {
                return;
            }
            if view.changed().await.is_err() {
                return pending().await;
            }
        }
    }
}
