//! Waits until objects of a kind can be read. In a cluster of upstream some kinds are not
//! installed, and in some modes there is no right to read others; the recommender runs without
//! them.

use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, Error, Resource};
use tokio::time::sleep;

/// Interval of the attempts.
const RETRY: Duration = Duration::from_secs(15);

/// Reason why objects of a kind cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    NotInstalled,
    NoRight,
    /// A transient failure.
    Failure,
}

/// Returns once objects of this kind can be listed, in one namespace or in all.
pub(crate) async fn readable<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
) {
    let mut before = None;
    while let Err(obstacle) = attempt::<K>(client, namespace).await {
        if before != Some(obstacle) {
            let (kind, group) = (K::kind(&()), K::group(&()));
            match obstacle {
                Obstacle::NotInstalled => {
                    tracing::info!(%kind, %group, "the kind is not installed; ignoring its objects");
                }
                Obstacle::NoRight => {
                    let message = "no right to list the kind; ignoring its objects; a component in deploy/components grants it";
                    tracing::warn!(%kind, %group, "{message}");
                }
                Obstacle::Failure => {}
            }
        }
        before = Some(obstacle);
        sleep(RETRY).await;
    }
}

async fn attempt<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<(), Obstacle> {
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.code == 404 => Err(Obstacle::NotInstalled),
        Err(Error::Api(status)) if status.code == 403 => Err(Obstacle::NoRight),
        Err(error) => {
            tracing::debug!(kind = %K::kind(&()), %error, "cannot list a kind");
            Err(Obstacle::Failure)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use api::ehpa::EffectiveHorizontalPodAutoscaler;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Whether this begins to watch anything at an API server that grants every list but that of
    /// one resource.
    pub(crate) async fn begins<F: Future<Output = ()>>(
        refused: &str,
        watch: impl FnOnce(Client) -> F,
    ) -> bool {
        let refused = format!("/{refused}");
        let begun = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&begun);
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_attempt = request
                .uri()
                .query()
                .unwrap_or_default()
                .split('&')
                .any(|pair| pair == "limit=1");
            state.fetch_or(!is_attempt, Ordering::Relaxed);
            let (code, body) = match (is_attempt, request.uri().path().ends_with(&refused)) {
                (true, false) => (200, json!({"metadata": {}, "items": []})),
                (true, true) => (
                    403,
                    json!({"kind": "Status", "status": "Failure", "code": 403}),
                ),
                (false, _) => (
                    503,
                    json!({"kind": "Status", "status": "Failure", "code": 503}),
                ),
            };
            let body = Body::from(body.to_string().into_bytes());
            async move {
                Ok::<_, Infallible>(
                    Response::builder()
                        .status(code)
                        .body(body)
                        .expect("a response"),
                )
            }
        });
        let watching = tokio::time::timeout(RETRY * 4, watch(Client::new(service, "default")));
        assert!(watching.await.is_err(), "a watch never ends");
        begun.load(Ordering::Relaxed)
    }

    async fn check(namespace: Option<&str>, code: u16, expected: Result<(), Obstacle>) {
        let path = match namespace {
            Some(namespace) => format!("/namespaces/{namespace}/effectivehorizontalpodautoscalers"),
            None => "/effectivehorizontalpodautoscalers".to_owned(),
        };
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_right =
                request.uri().path() == format!("/apis/autoscaling.crane.io/v1alpha1{path}");
            let body = match code {
                200 => json!({"metadata": {}, "items": []}),
                _ => {
                    json!({"kind": "Status", "status": "Failure", "message": "", "reason": "", "code": code})
                }
            };
            let body = Body::from(body.to_string().into_bytes());
            async move {
                assert!(is_right, "{}", request.uri());
                Ok::<_, Infallible>(
                    Response::builder()
                        .status(code)
                        .body(body)
                        .expect("a response"),
                )
            }
        });
        let client = Client::new(service, "default");
        assert_eq!(
            attempt::<EffectiveHorizontalPodAutoscaler>(&client, namespace).await,
            expected,
            "{code}"
        );
    }

    #[tokio::test]
    async fn a_kind_is_read_where_it_is_installed_and_there_is_a_right_to() {
        check(None, 200, Ok(())).await;
        check(Some("shop"), 200, Ok(())).await;
        check(None, 404, Err(Obstacle::NotInstalled)).await;
        check(None, 403, Err(Obstacle::NoRight)).await;
        check(None, 503, Err(Obstacle::Failure)).await;
    }
}
