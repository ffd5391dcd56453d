//! Watches policies as soon as their kinds are there.

use api::sizing_policy::API_VERSION;
use cluster::Watches;
use kube::Client;

use crate::installed::installed;

/// Runs until a watch ends, which none does by itself.
pub(crate) async fn watch(client: Client, watches: Watches) {
    installed(&client, API_VERSION).await;
    watches.policies().ended().await;
}
