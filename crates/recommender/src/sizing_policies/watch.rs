//! Watches policies, and what they select by, as soon as all of it can be read.

use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use watch::Watches;

use crate::installed::readable;

/// Runs until a watch ends, which none does by itself. `namespace`: the only one to look at.
pub(crate) async fn watch(client: Client, namespace: Option<String>, watches: Watches) {
    readable::<SizingPolicy>(&client, namespace.as_deref()).await;
    if namespace.is_none() {
        readable::<ClusterSizingPolicy>(&client, None).await;
        readable::<Namespace>(&client, None).await;
    }
    watches.policies().ended().await;
}

#[cfg(test)]
mod tests {
    use view::Scope;

    use super::*;
    use crate::installed::tests::begins;

    async fn check(refused: &str, namespace: Option<&str>, expected: bool) {
        let namespace = namespace.map(str::to_owned);
        let begun = begins(refused, |client| {
            let scope = Scope {
                namespace: namespace.clone(),
                ..Scope::default()
            };
            let watches = Watches::new(client.clone(), scope);
            watch(client, namespace, watches)
        });
        assert_eq!(begun.await, expected, "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_watched_before_everything_can_be_listed() {
        check("pods", None, true).await;
        for refused in ["sizingpolicies", "clustersizingpolicies", "namespaces"] {
            check(refused, None, false).await;
        }
        check("clustersizingpolicies", Some("shop"), true).await;
        check("sizingpolicies", Some("shop"), false).await;
    }
}
