//! Keeps the scale subresources that target resolution asks for current, and forgets those that it no longer does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::read::Reader;
use super::{PodSet, Scale, ScaleKey};
use crate::target;
use crate::view::View;

/// How often an answer is asked for again; up to twice as long, so that the questions spread out.
const REFRESH: Duration = Duration::from_mins(10);
/// How soon a question that found the API server away is asked again.
const RETRY: Duration = Duration::from_secs(15);
/// The shortest time between two looks at what is needed.
const PACE: Duration = Duration::from_millis(500);
/// The longest time between two looks at what is needed.
const IDLE: Duration = Duration::from_mins(1);

/// The last question about a scale subresource: when it is repeated at the latest, and the live pods that its owner had. It is repeated
/// at once when these change: pods are moved only by an answer that is not older than what is seen of them.
struct Asked {
    due: Instant,
    pods: PodSet,
}

/// Runs until it is dropped.
pub(crate) async fn keep(client: Client, store: Arc<watch::Sender<View>>) {
    let mut view = store.subscribe();
    let mut reader = Reader::new(client);
    let mut asked: BTreeMap<ScaleKey, Asked> = BTreeMap::new();
    loop {
        let (needed, live) = {
            let view = view.borrow_and_update();
            (needed(&view), view.live_pods_by_scale())
        };
        forget(&store, &mut asked, &needed);
        let now = Instant::now();
        for key in needed {
            let pods = live.get(&key).copied().unwrap_or_default();
            if asked.get(&key).is_none_or(|asked| asked.due <= now || asked.pods != pods) {
                let scale = reader.read(&key).await;
                asked.insert(key.clone(), Asked { due: now + lifetime(&scale), pods });
                store.send_if_modified(|view| put(view, key, scale, pods));
            }
        }
        sleep(PACE).await;
        let next = asked.values().map(|asked| asked.due).min().unwrap_or(now + IDLE).min(now + IDLE);
        match timeout_at(next, view.changed()).await {
            Ok(Ok(())) | Err(_) => {}
            // Nobody holds the view any more, and this task is about to be dropped as well.
            Ok(Err(_)) => sleep_until(now + IDLE).await,
        }
    }
}

/// The subresources that decide what the targets of all autoscalers are and what else was asked, as far as that is known
/// already.
fn needed(view: &View) -> BTreeSet<ScaleKey> {
    let targets = view.autoscalers.iter().flat_map(|autoscaler| target::scales(view, &autoscaler.target()));
    let questioned = view.questioned.iter().flat_map(|workload| target::scales(view, workload));
    targets.chain(questioned).collect()
}

fn forget(store: &watch::Sender<View>, asked: &mut BTreeMap<ScaleKey, Asked>, needed: &BTreeSet<ScaleKey>) {
    let gone: Vec<ScaleKey> = asked.keys().filter(|key| !needed.contains(*key)).cloned().collect();
    for key in gone {
        asked.remove(&key);
        store.send_if_modified(|view| view.scales.delete(&key).is_some());
    }
}

/// A failure that may pass does not take the place of an answer that was good.
fn put(view: &mut View, key: ScaleKey, scale: Scale, pods: PodSet) -> bool {
    let had_answer = matches!(view.scale(&key), Some(Scale::Found { .. } | Scale::NotFound { .. }));
    let may_pass = matches!(scale, Scale::Failed { transient: true, .. });
    !(had_answer && may_pass) && view.apply_scale(key, scale, pods)
}

fn lifetime(scale: &Scale) -> Duration {
    match scale {
        Scale::Failed { transient: true, .. } => RETRY,
        _ => REFRESH.mul_f64(1.0 + rand::random::<f64>()),
    }
}

#[cfg(test)]
mod tests;
