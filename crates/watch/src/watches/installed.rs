//! Watches that start once their objects can be listed. In a cluster of upstream some kinds are not
//! installed, and upstream's roles, as any without a component of deploy/components, have no right to
//! list others. Programs do without objects that only sharpen decisions: they say so once, and show it
//! in the metric `MissingRights`.
//!
//! Objects that could be listed before and cannot any more are stale, as with any other failure.

use std::sync::Arc;
use std::time::Duration;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::substitute::Substitute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Error, Resource as KubeResource};
use prometheus::IntGaugeVec;
use tokio::time::sleep;
use view::{Entry, HpaTargets, Resource};

use super::Watches;
use crate::excluded_fields;
use crate::parse::within;
use crate::reflector::{Source, follow};
use crate::splitter::Item;
use crate::table_writer::{Reading, TableWriter};

/// Interval of the attempts.
const RETRY: Duration = Duration::from_secs(15);
/// Time from the first refusal to the attempt that confirms it: an API server that has just started
/// may not have read the rules yet.
const CONFIRM: Duration = Duration::from_secs(5);

/// Reason why objects of a kind cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    NotInstalled,
    NoRight,
    /// A transient failure.
    WatchError,
}

impl Watches {
    /// Watches HPAs by their utilization targets. The view waits for them, unless there is no right
    /// to list them; then it has none until there is.
    pub fn hpa_targets(self) -> Self {
        let writer = self.writer(Resource::HpaTargets, |view| &mut view.hpa_targets);
        let source = self.source::<HorizontalPodAutoscaler>(excluded_fields::HPA_TARGETS);
        let read = within(self.scope.clone(), HpaTargets::from_k8s);
        self.followed_once_readable(source, writer, read)
    }

    /// Watches the objects of a source into a table as soon as they can be listed. The view waits for
    /// them, unless the API server answers that they cannot.
    pub(super) fn followed_once_readable<T>(
        mut self,
        source: Source,
        writer: TableWriter<T>,
        read: impl Fn(&Item<'_>) -> Reading<T> + Send + Sync + 'static,
    ) -> Self
    where
        T: Entry + Send + Sync + 'static,
        T::Key: Send,
    {
        let (store, rights) = (Arc::clone(&self.store), self.missing_rights.clone());
        let resource = writer.resource;
        self.tasks.spawn(async move {
            let show = |is_missing| {
                if let Some(rights) = &rights {
                    rights.set(resource, is_missing);
                }
            };
            let do_without = |obstacle| {
                show(obstacle == Obstacle::NoRight);
                store.send_modify(|view| {
                    view.freshness.remove(&resource);
                });
            };
            readable(&source, do_without).await;
            show(false);
            follow(source, read, writer).await;
        });
        self
    }

    /// Watches EHPAs and the objects that they own as soon as all of these kinds can be listed, with
    /// `sees_namespaces` also namespaces. Runs until a watch ends, which none does by itself.
    pub async fn run_horizontal(self, sees_namespaces: bool) {
        self.readable::<EffectiveHorizontalPodAutoscaler>().await;
        self.readable::<TimeSeriesPrediction>().await;
        self.readable::<HorizontalPodAutoscaler>().await;
        self.readable::<Substitute>().await;
        if sees_namespaces {
            self.readable_everywhere::<Namespace>().await;
        }
        let mut watches = self.horizontal();
        if sees_namespaces {
            watches = watches.namespaces();
        }
        watches.ended().await;
    }

    /// Watches sizing policies, and the namespaces that they select by, as soon as all of these
    /// kinds can be listed. Runs until a watch ends, which none does by itself.
    pub async fn run_policies(self) {
        self.readable::<SizingPolicy>().await;
        if self.scope.namespace.is_none() {
            self.readable_everywhere::<ClusterSizingPolicy>().await;
            self.readable_everywhere::<Namespace>().await;
        }
        self.policies().ended().await;
    }

    /// Returns once objects of this kind can be listed in the scope.
    async fn readable<K>(&self)
    where
        K: KubeResource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        readable(&self.source::<K>(excluded_fields::PLAIN), |_| ()).await;
    }

    /// Returns once objects of this kind can be listed in the cluster.
    async fn readable_everywhere<K: KubeResource<DynamicType = ()>>(&self) {
        readable(&self.cluster_source::<K>(excluded_fields::PLAIN), |_| ()).await;
    }
}

/// Returns once objects of a source can be listed. Calls `on_refused` when the API server has answered
/// twice that they cannot.
async fn readable(source: &Source, mut on_refused: impl FnMut(Obstacle)) {
    let (mut before, mut said) = (None, None);
    while let Err(obstacle) = attempt(source).await {
        let is_first = before.replace(obstacle) != Some(obstacle);
        let is_answer = obstacle != Obstacle::WatchError;
        if is_answer && !is_first && said.replace(obstacle) != Some(obstacle) {
            on_refused(obstacle);
            let path = source.path();
            if obstacle == Obstacle::NotInstalled {
                tracing::info!(path, "the kind is not installed; doing without its objects");
            } else {
                // The API server also refuses a kind that is not installed.
                tracing::warn!(
                    path,
                    "no right to list these objects, as in a mode without them; doing without them"
                );
            }
        }
        sleep(if is_first { CONFIRM } else { RETRY }).await;
    }
}

async fn attempt(source: &Source) -> Result<(), Obstacle> {
    match source.probe().await {
        Ok(()) => Ok(()),
        Err(Error::Api(status)) if status.code == 404 => Err(Obstacle::NotInstalled),
        Err(Error::Api(status)) if status.code == 403 => Err(Obstacle::NoRight),
        Err(error) => {
            tracing::debug!(path = source.path(), %error, "cannot list objects");
            Err(Obstacle::WatchError)
        }
    }
}

runtime::metrics! {
    /// The kinds of object without a right, as a metric. Clones share it.
    pub struct MissingRights {
        missing: IntGaugeVec { resource } = "plimsoll_missing_rights",
            "1 for objects that the program has no right to list, and does without; 0 once it has.";
    }
}

impl MissingRights {
    /// Sets whether the right to list is missing.
    fn set(&self, resource: Resource, is_missing: bool) {
        let gauge = self.missing.with_label_values(&[resource.name()]);
        gauge.set(i64::from(is_missing));
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::Request;
    use kube::Client;
    use serde_json::json;
    use testing::{api_server, refusal};
    use view::Scope;

    use super::*;

    /// An API server whose answers this function makes.
    fn client(answer: impl Fn(Request<Vec<u8>>) -> u16 + Clone + Send + 'static) -> Client {
        api_server(move |request| {
            ready(match answer(request) {
                200 => (200, json!({"metadata": {}, "items": []})),
                code => refusal(code, "no"),
            })
        })
    }

    /// Checks whether a watch begins at an API server that grants every list but that of one
    /// resource.
    async fn check<F: Future<Output = ()>>(
        refused: &str,
        namespace: Option<&str>,
        run: impl FnOnce(Watches) -> F,
        expected: bool,
    ) {
        let path = format!("/{refused}");
        let begun = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&begun);
        let client = client(move |request| {
            let mut pairs = request.uri().query().unwrap_or_default().split('&');
            let is_attempt = pairs.any(|pair| pair == "limit=1");
            state.fetch_or(!is_attempt, Ordering::Relaxed);
            match (is_attempt, request.uri().path().ends_with(&path)) {
                (true, false) => 200,
                (true, true) => 403,
                (false, _) => 503,
            }
        });
        let scope = Scope {
            namespace: namespace.map(str::to_owned),
            ..Scope::default()
        };
        let watching = tokio::time::timeout(RETRY * 4, run(Watches::new(client, scope)));
        assert!(watching.await.is_err(), "a watch never ends");
        assert_eq!(begun.load(Ordering::Relaxed), expected, "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_object_of_ehpas_is_watched_before_everything_can_be_listed() {
        for (refused, sees_namespaces, expected) in [
            ("pods", true, true),
            ("effectivehorizontalpodautoscalers", true, false),
            ("timeseriespredictions", true, false),
            ("horizontalpodautoscalers", true, false),
            ("substitutes", true, false),
            ("namespaces", true, false),
            ("namespaces", false, true),
        ] {
            let run = |watches: Watches| watches.run_horizontal(sees_namespaces);
            check(refused, None, run, expected).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_policy_is_watched_before_everything_can_be_listed() {
        for (refused, namespace, expected) in [
            ("pods", None, true),
            ("sizingpolicies", None, false),
            ("clustersizingpolicies", None, false),
            ("namespaces", None, false),
            ("clustersizingpolicies", Some("shop"), true),
            ("sizingpolicies", Some("shop"), false),
        ] {
            check(refused, namespace, Watches::run_policies, expected).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_view_waits_for_hpas_unless_they_cannot_be_listed() {
        for (code, expected) in [(403, true), (404, true), (503, false)] {
            let watches = Watches::new(client(move |_| code), Scope::default()).hpa_targets();
            let mut view = watches.view();
            assert!(!view.borrow().is_synced());
            let synced = tokio::time::timeout(RETRY * 4, view.wait_for(view::View::is_synced));
            assert_eq!(synced.await.is_ok(), expected, "{code}");
        }
        let granted = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&granted);
        let answer = move |_| {
            if state.load(Ordering::Relaxed) {
                200
            } else {
                403
            }
        };
        let watches = Watches::new(client(answer), Scope::default()).hpa_targets();
        let mut view = watches.view();
        let synced = view.wait_for(view::View::is_synced).await;
        drop(synced.expect("the watch runs"));
        granted.store(true, Ordering::Relaxed);
        let is_listed = |view: &view::View| view.freshness.contains_key(&Resource::HpaTargets);
        let listed = tokio::time::timeout(RETRY * 4, view.wait_for(is_listed));
        assert!(
            listed.await.is_ok(),
            "HPAs are watched once there is a right"
        );
    }

    /// An API server that has just started may refuse what it grants a moment later.
    #[tokio::test(start_paused = true)]
    async fn one_refusal_alone_switches_no_stop_switch_off() {
        let asked = Arc::new(AtomicBool::new(false));
        let answer = move |_| {
            if asked.swap(true, Ordering::Relaxed) {
                503
            } else {
                403
            }
        };
        let key = view::ObjectKey::new("kube-system", "plimsoll-stop");
        let watches = Watches::new(client(answer), Scope::default()).stop_switch(&key);
        let mut view = watches.view();
        let synced = tokio::time::timeout(RETRY * 4, view.wait_for(view::View::is_synced));
        assert!(synced.await.is_err());
    }

    #[tokio::test]
    async fn a_kind_is_read_where_it_is_installed_and_there_is_a_right_to() {
        for (namespace, code, expected) in [
            (None, 200, Ok(())),
            (Some("shop"), 200, Ok(())),
            (None, 404, Err(Obstacle::NotInstalled)),
            (None, 403, Err(Obstacle::NoRight)),
            (None, 503, Err(Obstacle::WatchError)),
        ] {
            let within = namespace.map_or_else(String::new, |name| format!("/namespaces/{name}"));
            let path = format!(
                "/apis/autoscaling.crane.io/v1alpha1{within}/effectivehorizontalpodautoscalers"
            );
            let client = client(move |request| {
                assert_eq!(request.uri().path(), path);
                code
            });
            let source = Source::new::<EffectiveHorizontalPodAutoscaler>(
                client,
                namespace,
                excluded_fields::PLAIN,
            );
            assert_eq!(attempt(&source).await, expected, "{code}");
        }
    }
}
