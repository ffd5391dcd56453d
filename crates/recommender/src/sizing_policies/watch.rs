//! Watches policies as soon as they can be read.

use api::sizing_policy::SizingPolicy;
use cluster::Watches;
use kube::Client;

use crate::installed::readable;

/// Runs until a watch ends, which none does by itself. `namespace`: the only one to look at.
pub(crate) async fn watch(client: Client, namespace: Option<String>, watches: Watches) {
    readable::<SizingPolicy>(&client, namespace.as_deref()).await;
    watches.policies().ended().await;
}
