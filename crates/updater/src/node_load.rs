//! The load of the nodes, read from a load-watcher while this replica leads.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use placement::MeasuredLoad;
use sources::error_chain::with_causes;
use sources::load_watcher;
use sources::prometheus::Connection;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;

use crate::metrics::Metrics;

/// Time between two reads, that of upstream's collector.
const INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct NodeLoad {
    /// `None` without a load-watcher.
    receiver: Option<watch::Receiver<Option<Arc<MeasuredLoad>>>>,
    is_new: bool,
}

/// The load as it is read, and the future that reads it.
pub(crate) fn follow(
    connection: Option<Connection>,
    metrics: Metrics,
) -> (NodeLoad, impl Future<Output = ()> + Send) {
    let (sender, receiver) = watch::channel(None);
    let node_load = NodeLoad {
        receiver: connection.is_some().then_some(receiver),
        is_new: false,
    };
    let reading = async move {
        let Some(connection) = connection else {
            return pending().await;
        };
        loop {
            // On the heap: the future of a request is large.
            let read = Box::pin(load_watcher::read(&connection)).await;
            metrics.load_read(read.is_ok());
            match read {
                Ok(load) => {
                    let (nodes, end) = (load.load.nodes.len(), load.load.end);
                    tracing::debug!(nodes, %end, "read node load");
                    sender.send_replace(Some(Arc::new(load)));
                }
                Err(error) => tracing::warn!(
                    address = connection.address,
                    error = with_causes(&error),
                    "cannot read node load; no pod is moved"
                ),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    (node_load, reading)
}

impl NodeLoad {
    /// Waits for a new load; forever without a load-watcher.
    pub(crate) async fn changed(&mut self) -> Result<(), RecvError> {
        let Some(receiver) = &mut self.receiver else {
            return pending().await;
        };
        receiver.changed().await?;
        self.is_new = true;
        Ok(())
    }

    /// The load, if no earlier call returned it.
    pub(crate) fn take_new(&mut self) -> Option<Arc<MeasuredLoad>> {
        let receiver = self.receiver.as_ref()?;
        std::mem::take(&mut self.is_new)
            .then(|| receiver.borrow().clone())
            .flatten()
    }
}
