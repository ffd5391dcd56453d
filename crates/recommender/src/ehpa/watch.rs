//! Watches EHPAs and what they own as soon as they can be read: in a cluster of upstream's there are none, and a recommender without the
//! component `horizontal` has no right to them.

use api::effective_hpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use cluster::Watches;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::Client;

use crate::installed::readable;

/// Runs until a watch ends, which none does by itself. `namespace`: the only one to look at.
pub(crate) async fn watch(client: Client, namespace: Option<String>, watches: Watches, sees_namespaces: bool) {
    let namespace = namespace.as_deref();
    readable::<EffectiveHorizontalPodAutoscaler>(&client, namespace).await;
    readable::<TimeSeriesPrediction>(&client, namespace).await;
    readable::<HorizontalPodAutoscaler>(&client, namespace).await;
    let watches = watches.horizontal();
    let mut watches = if sees_namespaces { watches.namespaces() } else { watches };
    watches.ended().await;
}
