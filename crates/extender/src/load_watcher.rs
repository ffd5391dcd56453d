//! Measured load of nodes in windows of 15, 10 and 5 minutes.

use std::sync::Arc;

use placement::LoadSnapshot;
use tokio::sync::watch;

/// The newest measured load. The sender replaces the whole snapshot after each collection.
pub type Snapshots = watch::Receiver<Arc<LoadSnapshot>>;
