//! Watches effective autoscalers as soon as their kinds are there: in a cluster of upstream's they are not, and nothing is scaled.

use api::effective_hpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use cluster::Watches;
use kube::{Client, Resource as _};

use crate::installed::installed;

/// Runs until a watch ends, which none does by itself.
pub(crate) async fn watch(client: Client, watches: Watches, sees_namespaces: bool) {
    installed(&client, &EffectiveHorizontalPodAutoscaler::api_version(&())).await;
    installed(&client, &TimeSeriesPrediction::api_version(&())).await;
    let watches = watches.horizontal();
    let mut watches = if sees_namespaces { watches.namespaces() } else { watches };
    watches.ended().await;
}
