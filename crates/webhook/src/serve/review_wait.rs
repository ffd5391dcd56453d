//! Wait for a node that the watch has not delivered yet. The pods of a `DaemonSet` are created
//! within milliseconds after their node, and a pod never gets the label of its node later.

use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use view::View;

/// Maximum time that a review waits. Most nodes arrive within a few milliseconds.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of reviews that wait. Others are decided without the node.
const MAX_WAITING: usize = 64;
/// Maximum size of a review that waits, since it is held in memory: that of several usual pods.
const MAX_BYTES: usize = 64 << 10;

/// The reviews that wait for a node.
#[derive(Debug)]
pub(super) struct NodeWait(Semaphore);

impl Default for NodeWait {
    fn default() -> Self {
        Self(Semaphore::new(MAX_WAITING))
    }
}

impl NodeWait {
    /// Waits until the view has a node, for a review of this size. Returns whether it has.
    pub(super) async fn has_node(
        &self,
        mut view: watch::Receiver<View>,
        node: &str,
        review_bytes: usize,
    ) -> bool {
        if review_bytes > MAX_BYTES {
            return false;
        }
        let Ok(_permit) = self.0.try_acquire() else {
            return false;
        };
        let arrives = view.wait_for(|view| view.nodes.get(node).is_some());
        matches!(timeout(MAX_WAIT, arrives).await, Ok(Ok(_)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::join_all;
    use serde_json::json;
    use tokio::time::{Instant, sleep};
    use view::Node;

    use super::*;

    fn apply(sender: &watch::Sender<View>, node: &str) {
        let node = json!({"metadata": {"name": node}});
        let node = Node::from_k8s(serde_json::from_value(node).expect("a node"));
        sender.send_modify(|view| drop(view.nodes.apply(Arc::new(node))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_waits_for_its_node_but_not_for_long() {
        let (sender, view) = watch::channel(View::default());
        let wait = NodeWait::default();
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
                let found = wait.has_node(view.clone(), &node, bytes).await;
                (found, begun.elapsed().as_millis())
            };
            let (found, ()) = tokio::join!(waiting, arrival);
            assert_eq!(found, (expected, waited_ms), "{node}");
            let known = wait.has_node(view.clone(), &node, 1).await;
            assert!(known, "it has arrived");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_waiting_reviews_is_limited() {
        let (_sender, view) = watch::channel(View::default());
        let wait = NodeWait::default();
        let full = join_all((0..MAX_WAITING).map(|_| wait.has_node(view.clone(), "n", 1)));
        let one_more = async {
            tokio::task::yield_now().await;
            let begun = Instant::now();
            let found = wait.has_node(view.clone(), "n", 1).await;
            (found, begun.elapsed().as_millis())
        };
        let (full, one_more) = tokio::join!(full, one_more);
        assert_eq!(one_more, (false, 0));
        assert!(full.iter().all(|found| !found));
    }
}
