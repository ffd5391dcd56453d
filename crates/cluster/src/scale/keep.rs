//! Keeps the scale subresources that target resolution asks for current, and forgets those that it no longer does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::read::Reader;
use super::{ReadScale, Scale, ScaleKey};
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

/// Runs until it is dropped.
pub(crate) async fn keep(client: Client, store: Arc<watch::Sender<View>>) {
    let mut view = store.subscribe();
    let mut reader = Reader::new(client);
    let mut due: BTreeMap<ScaleKey, Instant> = BTreeMap::new();
    loop {
        let needed = needed(&view.borrow_and_update());
        forget(&store, &mut due, &needed);
        let now = Instant::now();
        for key in needed {
            if due.get(&key).is_none_or(|due| *due <= now) {
                let scale = reader.read(&key).await;
                due.insert(key.clone(), now + lifetime(&scale));
                store.send_if_modified(|view| put(view, ReadScale { key, scale }));
            }
        }
        sleep(PACE).await;
        let next = due.values().min().copied().unwrap_or(now + IDLE).min(now + IDLE);
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

fn forget(store: &watch::Sender<View>, due: &mut BTreeMap<ScaleKey, Instant>, needed: &BTreeSet<ScaleKey>) {
    let gone: Vec<ScaleKey> = due.keys().filter(|key| !needed.contains(*key)).cloned().collect();
    for key in gone {
        due.remove(&key);
        store.send_if_modified(|view| view.scales.delete(&key).is_some());
    }
}

/// A failure that may pass does not take the place of an answer that was good.
fn put(view: &mut View, read: ReadScale) -> bool {
    let had_answer = matches!(view.scale(&read.key), Some(Scale::Found { .. } | Scale::NotFound { .. }));
    let may_pass = matches!(read.scale, Scale::Failed { transient: true, .. });
    !(had_answer && may_pass) && view.scales.apply(Arc::new(read)).is_some()
}

fn lifetime(scale: &Scale) -> Duration {
    match scale {
        Scale::Failed { transient: true, .. } => RETRY,
        _ => REFRESH.mul_f64(1.0 + rand::random::<f64>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: Option<Scale>, read: Scale, expected: &Scale) {
        let key = ScaleKey {
            group: "example.com".to_owned(),
            kind: "Web".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        let mut view = View::default();
        if let Some(scale) = before {
            put(&mut view, ReadScale { key: key.clone(), scale });
        }
        put(&mut view, ReadScale { key: key.clone(), scale: read });
        assert_eq!(view.scale(&key), Some(expected));
    }

    #[test]
    fn only_a_failure_that_may_pass_leaves_a_good_answer_in_place() {
        let found = Scale::Found { selector: "app=web".to_owned(), owner: None, replicas: Some(1) };
        let failed = |transient| Scale::Failed { reason: "no".to_owned(), transient };
        check(Some(found.clone()), failed(true), &found);
        check(Some(found.clone()), failed(false), &failed(false));
        check(Some(failed(false)), found.clone(), &found);
        check(None, failed(true), &failed(true));
    }
}
