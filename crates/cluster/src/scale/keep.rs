//! Keeps the scale subresources that target resolution asks for current, and forgets those that it no longer does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use model::Workload;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::read::Reader;
use super::{Scale, ScaleKey};
use crate::controller::WellKnown;
use crate::owner::Owner;
use crate::target;
use crate::view::View;

/// How often an answer is asked for again; up to twice as long, so that the questions spread out.
const REFRESH: Duration = Duration::from_mins(10);
/// How soon a question that found the API server away is asked again.
const RETRY: Duration = Duration::from_secs(15);
/// How soon an answer is asked for again that contradicts the live pods; twice as long each time that it still does.
const FIRST_DOUBT: Duration = Duration::from_secs(1);
/// The shortest time between two looks at what is needed.
const PACE: Duration = Duration::from_millis(500);
/// The longest time between two looks at what is needed.
const IDLE: Duration = Duration::from_mins(1);

/// Runs until it is dropped.
pub(crate) async fn keep(client: Client, store: Arc<watch::Sender<View>>) {
    let mut view = store.subscribe();
    let mut reader = Reader::new(client);
    let mut due: BTreeMap<ScaleKey, Due> = BTreeMap::new();
    loop {
        let (needed, contradicted) = {
            let view = view.borrow_and_update();
            (needed(&view), contradicted(&view))
        };
        forget(&store, &mut due, &needed);
        let now = Instant::now();
        for key in needed {
            // Where the next answer is another one, the view changes, and this is looked at again.
            let in_doubt = contradicted.contains(&key);
            let doubt = due.get_mut(&key).map_or(FIRST_DOUBT, |due| due.doubt(in_doubt));
            if due.get(&key).is_none_or(|due| due.next() <= now) {
                let scale = reader.read(&key).await;
                due.insert(key.clone(), Due { read_at: now, expires: now + lifetime(&scale), doubt, in_doubt });
                store.send_if_modified(|view| put(view, key, scale));
            }
        }
        sleep(PACE).await;
        let next = due.values().map(Due::next).min().unwrap_or(now + IDLE).min(now + IDLE);
        match timeout_at(next, view.changed()).await {
            Ok(Ok(())) | Err(_) => {}
            // Nobody holds the view any more, and this task is about to be dropped as well.
            Ok(Err(_)) => sleep_until(now + IDLE).await,
        }
    }
}

/// When a scale subresource is read again.
struct Due {
    read_at: Instant,
    expires: Instant,
    /// The time after which it is read again while the pods contradict it.
    doubt: Duration,
    in_doubt: bool,
}

impl Due {
    fn next(&self) -> Instant {
        if self.in_doubt { self.expires.min(self.read_at + self.doubt) } else { self.expires }
    }

    /// Notes whether the pods contradict the answer. Returns for how long the next answer is believed if they still do.
    fn doubt(&mut self, is_contradicted: bool) -> Duration {
        self.in_doubt = is_contradicted;
        if !is_contradicted {
            self.doubt = FIRST_DOUBT;
            return FIRST_DOUBT;
        }
        self.doubt.saturating_mul(2).min(REFRESH)
    }
}

/// The subresources whose number of replicas is not the number of live pods, where these are kept: the answer may be out of date.
fn contradicted(view: &View) -> BTreeSet<ScaleKey> {
    if view.scales.is_empty() {
        return BTreeSet::new();
    }
    let mut live: BTreeMap<ScaleKey, usize> = BTreeMap::new();
    for pod in view.pods.iter() {
        let is_live = pod.running.as_ref().is_some_and(|running| running.node.is_some() && !running.is_terminating);
        let Some(Owner { api_version, kind, name, uid: _ }) = pod.owner.as_ref().filter(|_| is_live) else { continue };
        if pod.is_finished() || WellKnown::of_kind(kind).is_some() {
            continue;
        }
        if let Ok(key) = ScaleKey::of(Workload { api_version, kind, namespace: &pod.key.namespace, name }) {
            *live.entry(key).or_default() += 1;
        }
    }
    live.retain(|key, live| match view.scale(key) {
        Some(Scale::Found { replicas: Some(replicas), .. }) => usize::try_from(*replicas) != Ok(*live),
        _ => false,
    });
    live.into_keys().collect()
}

/// The subresources that decide what the targets of all autoscalers are and what else was asked, as far as that is known
/// already.
fn needed(view: &View) -> BTreeSet<ScaleKey> {
    let targets = view.autoscalers.iter().flat_map(|autoscaler| target::scales(view, &autoscaler.target()));
    let questioned = view.questioned.iter().flat_map(|workload| target::scales(view, workload));
    targets.chain(questioned).collect()
}

fn forget(store: &watch::Sender<View>, due: &mut BTreeMap<ScaleKey, Due>, needed: &BTreeSet<ScaleKey>) {
    let gone: Vec<ScaleKey> = due.keys().filter(|key| !needed.contains(*key)).cloned().collect();
    for key in gone {
        due.remove(&key);
        store.send_if_modified(|view| view.scales.delete(&key).is_some());
    }
}

/// A failure that may pass does not take the place of an answer that was good.
fn put(view: &mut View, key: ScaleKey, scale: Scale) -> bool {
    let had_answer = matches!(view.scale(&key), Some(Scale::Found { .. } | Scale::NotFound { .. }));
    let may_pass = matches!(scale, Scale::Failed { transient: true, .. });
    !(had_answer && may_pass) && view.apply_scale(key, scale)
}

fn lifetime(scale: &Scale) -> Duration {
    match scale {
        Scale::Failed { transient: true, .. } => RETRY,
        _ => REFRESH.mul_f64(1.0 + rand::random::<f64>()),
    }
}

#[cfg(test)]
mod tests;
