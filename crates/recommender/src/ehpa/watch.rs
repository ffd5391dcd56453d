//! Watches of EHPAs and the objects that they own, started once all of their kinds can be listed.
//! Upstream's clusters do not have them, and without the component `horizontal` there is no
//! permission.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use watch::Watches;

use crate::installed::readable;

/// Runs until a watch ends, which none does by itself. `namespace` restricts the watches to one.
pub(crate) async fn watch(
    client: Client,
    namespace: Option<String>,
    watches: Watches,
    sees_namespaces: bool,
) {
    let namespace = namespace.as_deref();
    readable::<EffectiveHorizontalPodAutoscaler>(&client, namespace).await;
    readable::<TimeSeriesPrediction>(&client, namespace).await;
    readable::<HorizontalPodAutoscaler>(&client, namespace).await;
    readable::<Substitute>(&client, namespace).await;
    if sees_namespaces {
        readable::<Namespace>(&client, None).await;
    }
    let watches = watches.horizontal();
    let mut watches = if sees_namespaces {
        watches.namespaces()
    } else {
        watches
    };
    watches.ended().await;
}

#[cfg(test)]
mod tests {
    use view::Scope;

    use super::*;
    use crate::installed::tests::begins;

    async fn check(refused: &str, sees_namespaces: bool, expected: bool) {
        let begun = begins(refused, |client| {
            let watches = Watches::new(client.clone(), Scope::default());
            watch(client, None, watches, sees_namespaces)
        });
        assert_eq!(begun.await, expected, "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_watched_before_everything_can_be_listed() {
        check("pods", true, true).await;
        let kinds = [
            "effectivehorizontalpodautoscalers",
            "timeseriespredictions",
            "horizontalpodautoscalers",
        ];
        for refused in kinds.into_iter().chain(["substitutes", "namespaces"]) {
            check(refused, true, false).await;
        }
        check("namespaces", false, true).await;
    }
}
