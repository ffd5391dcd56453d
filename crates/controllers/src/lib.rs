//! Controllers of the recommender, for one term of leadership: watched objects in, writes out. The
//! decisions are in [`vertical::sizing_policies`] and [`horizontal`].
//!
//! * [`ehpa`]: EHPAs to native HPAs, predictions and Crane's metrics.
//! * [`predictions`]: histories to forecasts, in statuses and on the feed.
//! * [`sizing_policies`]: sizing policies to VPA objects.

pub mod ehpa;
pub mod predictions;
pub mod sizing_policies;
mod status_writer;

use kube::runtime::events::EventType;
use tokio::sync::watch;
use view::View;

/// Whether a view has all objects, and none of its watches is down.
fn is_current(view: &View) -> bool {
    view.is_synced() && view.stale_since().is_none()
}

async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn event_type(is_bad: bool) -> EventType {
    if is_bad {
        EventType::Warning
    } else {
        EventType::Normal
    }
}
