//! Keeps the scale subresources that target resolution needs current, and deletes the others.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::Client;
use model::Workload;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use view::{PodSet, Scale, ScaleKey, View, target};

use super::get::Reader;
use super::read_queue::ReadQueue;

/// Minimum interval between two computations of the needed keys.
const PACE: Duration = Duration::from_millis(500);
/// Maximum interval between two computations of the needed keys.
const IDLE: Duration = Duration::from_mins(1);

/// Runs until it is dropped.
pub(crate) async fn run(client: Client, store: Arc<watch::Sender<View>>) {
    let mut view = store.subscribe();
    let reader = Reader::new(client);
    let mut queue = ReadQueue::default();
    let mut reads = FuturesUnordered::new();
    loop {
        let needed = needed(&view.borrow_and_update());
        for key in queue.update(&needed) {
            store.send_if_modified(|view| view.scales.delete(&key).is_some());
        }
        let looked_at = Instant::now();
        loop {
            for (key, pods) in queue.begin(Instant::now()) {
                let reader = &reader;
                reads.push(async move {
                    let scale = reader.read(&key).await;
                    (key, pods, scale)
                });
            }
            let next_due = queue.next_due().unwrap_or(looked_at + IDLE);
            let changed = async {
                sleep_until(looked_at + PACE).await;
                view.changed().await
            };
            tokio::select! {
                Some((key, pods, scale)) = reads.next() => {
                    if queue.end(&key, &scale, Instant::now(), rand::random()) {
                        store.send_if_modified(|view| put(view, key, scale, pods));
                    }
                }
                () = sleep_until(next_due) => {}
                // This task owns the sender, so the channel does not close.
                _ = changed => break,
                () = sleep_until(looked_at + IDLE) => break,
            }
        }
    }
}

/// The scale subresources that VPA targets and requests depend on, as far as they are known yet,
/// with the live pods of their owners.
fn needed(view: &View) -> BTreeMap<ScaleKey, PodSet> {
    let targets = view.vpas.iter().map(|vpa| vpa.points_at());
    let requests = view.scale_requests.iter().map(Workload::from);
    // Each workload once: a tenant may make thousands of objects for one of many owners.
    let workloads: HashSet<Workload<'_>> = targets.chain(requests).collect();
    let scales = workloads
        .into_iter()
        .flat_map(|workload| target::scales(view, workload));
    let live = view.live_pods_by_scale();
    let pods = |key: &ScaleKey| live.get(key).copied().unwrap_or_default();
    scales.map(|key| (key.clone(), pods(&key))).collect()
}

/// Stores a scale, unless it is a transient failure and the previous read succeeded.
fn put(view: &mut View, key: ScaleKey, scale: Scale, pods: PodSet) -> bool {
    let had_answer = matches!(
        view.scale(&key),
        Some(Scale::Found { .. } | Scale::NotFound { .. })
    );
    !(had_answer && scale.is_transient()) && view.apply_scale(key, scale, pods)
}

#[cfg(test)]
mod tests;
