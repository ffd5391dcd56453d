//! Wait for a controller or a node that the watch has not delivered yet. Pods are created within
//! milliseconds after them, and a pod that is admitted unchanged is not changed later.

use std::collections::BTreeMap;
use std::time::Duration;

use admission::Awaited;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use view::View;

/// Maximum time that a review waits. Most objects arrive within a few milliseconds.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of reviews that wait. Others are decided at once.
const MAX_WAITING: usize = 64;
/// Maximum number of those of one namespace.
const MAX_WAITING_OF_NAMESPACE: usize = 16;
/// Maximum size of a review that waits, since it is held in memory: that of several usual pods.
const MAX_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct ReviewWait(Mutex<BTreeMap<String, usize>>);

/// One review that waits, until it is dropped.
struct Waiting<'a> {
    wait: &'a ReviewWait,
    namespace: String,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.wait.0.lock();
        if let Some(count) = waiting.get_mut(&self.namespace) {
            *count -= 1;
        }
        waiting.retain(|_, count| *count > 0);
    }
}

impl ReviewWait {
    /// Waits until the view has what a decision awaits, and decides again, for a review of this size.
    /// `decide` returns a decision and what that one awaits. The last decision is returned.
    pub(super) async fn until_final<D>(
        &self,
        mut view: watch::Receiver<View>,
        review_bytes: usize,
        decide: impl Fn() -> (D, Option<Awaited>),
    ) -> D {
        let (mut decision, mut awaits) = decide();
        let waiting = awaits
            .as_ref()
            .filter(|_| review_bytes <= MAX_BYTES)
            .and_then(|awaited| self.begin(awaited.namespace()));
        if waiting.is_none() {
            return decision;
        }
        let deadline = Instant::now() + MAX_WAIT;
        while let Some(awaited) = awaits {
            let arrives = view.wait_for(|view| awaited.is_in(view));
            if !matches!(timeout_at(deadline, arrives).await, Ok(Ok(_))) {
                break;
            }
            (decision, awaits) = decide();
        }
        decision
    }

    /// A place for a review of this namespace, if there is one.
    fn begin(&self, namespace: &str) -> Option<Waiting<'_>> {
        let mut waiting = self.0.lock();
        let of_namespace = waiting.get(namespace).copied().unwrap_or_default();
        let is_free = waiting.values().sum::<usize>() < MAX_WAITING
            && of_namespace < MAX_WAITING_OF_NAMESPACE;
        is_free.then(|| {
            waiting.insert(namespace.to_owned(), of_namespace + 1);
            Waiting {
                wait: self,
                namespace: namespace.to_owned(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use futures::future::join_all;
    use serde_json::json;
    use tokio::time::sleep;
    use view::Node;

    use super::*;

    fn apply(sender: &watch::Sender<View>, node: &str) {
        let node = json!({"metadata": {"name": node}});
        let node = Node::from_k8s(serde_json::from_value(node).expect("a node"));
        sender.send_modify(|view| drop(view.nodes.apply(Arc::new(node))));
    }

    fn awaited(namespace: &str, node: &str) -> Awaited {
        let [namespace, name] = [namespace, node].map(str::to_owned);
        Awaited::Node { namespace, name }
    }

    /// A decision that is final once the view has a node: whether it has.
    async fn decided(
        wait: &ReviewWait,
        view: &watch::Receiver<View>,
        (namespace, node): (&str, &str),
        bytes: usize,
    ) -> bool {
        let awaited = awaited(namespace, node);
        let decide = || {
            let has_node = awaited.is_in(&view.borrow());
            (has_node, (!has_node).then(|| awaited.clone()))
        };
        wait.until_final(view.clone(), bytes, decide).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_waits_for_its_node_but_not_for_long() {
        let (sender, view) = watch::channel(View::default());
        let wait = ReviewWait::default();
        for (after_ms, bytes, expected, waited_ms) in [
            (100, MAX_BYTES, true, 100),
            (2000, MAX_BYTES, false, 500),
            (100, MAX_BYTES + 1, false, 0),
        ] {
            let node = format!("n{after_ms}-{bytes}");
            let begun = Instant::now();
            let arrival = async {
                sleep(Duration::from_millis(after_ms)).await;
                apply(&sender, &node);
            };
            let waiting = async {
                let found = decided(&wait, &view, ("shop", &node), bytes).await;
                (found, begun.elapsed().as_millis())
            };
            let (found, ()) = tokio::join!(waiting, arrival);
            assert_eq!(found, (expected, waited_ms), "{node}");
            assert!(
                decided(&wait, &view, ("shop", &node), 1).await,
                "it has arrived"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_waits_for_one_object_after_the_other() {
        let (sender, view) = watch::channel(View::default());
        let wait = ReviewWait::default();
        let decisions = Cell::new(0);
        let decide = || {
            decisions.set(decisions.get() + 1);
            let awaited = ["a", "b"].map(|node| awaited("shop", node));
            let view = view.borrow();
            let missing = awaited.into_iter().find(|awaited| !awaited.is_in(&view));
            (missing.is_none(), missing)
        };
        let arrivals = async {
            for node in ["a", "b"] {
                sleep(Duration::from_millis(200)).await;
                apply(&sender, node);
            }
        };
        let (is_final, ()) = tokio::join!(wait.until_final(view.clone(), 1, decide), arrivals);
        assert_eq!((is_final, decisions.get()), (true, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_waiting_reviews_is_limited() {
        let (_sender, view) = watch::channel(View::default());
        let wait = ReviewWait::default();
        let of = |number: usize| ["a", "b", "c", "d", "e"][number / MAX_WAITING_OF_NAMESPACE];
        let full = join_all((0..MAX_WAITING).map(|number| {
            let namespace = of(number);
            decided(&wait, &view, (namespace, "n"), 1)
        }));
        let one_more = async {
            tokio::task::yield_now().await;
            let begun = Instant::now();
            let found = decided(&wait, &view, ("e", "n"), 1).await;
            (found, begun.elapsed().as_millis())
        };
        let (full, one_more) = tokio::join!(full, one_more);
        assert_eq!(one_more, (false, 0));
        assert!(full.iter().all(|found| !found));
        assert!(wait.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_has_a_part_of_the_places() {
        let (_sender, view) = watch::channel(View::default());
        let wait = ReviewWait::default();
        let many = join_all((0..MAX_WAITING).map(|_| async {
            let begun = Instant::now();
            decided(&wait, &view, ("a", "n"), 1).await;
            begun.elapsed().as_millis()
        }));
        let other = async {
            tokio::task::yield_now().await;
            let begun = Instant::now();
            decided(&wait, &view, ("b", "n"), 1).await;
            begun.elapsed().as_millis()
        };
        let (many, other) = tokio::join!(many, other);
        let waited = many.iter().filter(|waited| **waited == 500).count();
        assert_eq!((waited, other), (MAX_WAITING_OF_NAMESPACE, 500));
    }
}
