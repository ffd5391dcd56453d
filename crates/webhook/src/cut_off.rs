//! Readiness of a replica whose watches do not work. Its view gets old, and it keeps a certificate that
//! the other replica has replaced, so reviews go to the other one.

use std::time::Duration;

use runtime::Condition;
use tokio::sync::watch;
use tokio::time::timeout;
use view::View;

/// The time without a watch after which the replica is not ready. An outage of the API server itself,
/// during which no review comes, is mostly shorter.
const LIMIT: Duration = Duration::from_mins(10);

/// Makes the condition missing while no watch has worked for ten minutes. Ends with the view.
pub(crate) async fn follow(mut view: watch::Receiver<View>, synced: Condition) {
    while view.wait_for(View::is_cut_off).await.is_ok() {
        let works = |view: &View| !view.is_cut_off();
        if timeout(LIMIT, view.wait_for(works)).await.is_ok() {
            continue;
        }
        tracing::error!("not ready: no watch of the API server has worked for ten minutes");
        synced.missing("no watch of the API server has worked for ten minutes");
        if view.wait_for(works).await.is_err() {
            return;
        }
        tracing::info!("ready again: watches of the API server work");
        synced.ready();
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use runtime::Readiness;
    use view::{Freshness, Resource};

    use super::*;

    fn interrupt(view: &watch::Sender<View>, are_stale: [bool; 2]) {
        view.send_modify(|view| {
            for (resource, is_stale) in [Resource::Vpas, Resource::LimitRanges]
                .into_iter()
                .zip(are_stale)
            {
                view.freshness.insert(
                    resource,
                    Freshness {
                        synced: true,
                        stale_since: is_stale.then_some(Timestamp::UNIX_EPOCH),
                        ..Freshness::default()
                    },
                );
            }
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_without_any_watch_for_ten_minutes_is_not_ready() {
        let (view, readiness) = (watch::Sender::new(View::default()), Readiness::default());
        let synced = readiness.condition("watches");
        synced.ready();
        let following = tokio::spawn(follow(view.subscribe(), synced));
        for (are_stale, minutes, is_ready) in [
            ([false, false], 20, true),
            ([true, false], 20, true),
            ([true, true], 9, true),
            ([false, true], 1, true),
            ([true, true], 11, false),
            ([true, false], 1, true),
        ] {
            interrupt(&view, are_stale);
            tokio::time::sleep(Duration::from_mins(minutes)).await;
            assert_eq!(
                readiness.missing().is_empty(),
                is_ready,
                "{are_stale:?} for {minutes} min"
            );
        }
        drop(view);
        following.await.expect("it ends with the view");
    }
}
