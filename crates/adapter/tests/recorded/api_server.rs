//! An API server of the recorded cluster: its API resources, and the names and labels of its
//! objects.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use futures::stream;
use model::Selector;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(crate) struct Cluster {
    /// The discovery document of the core group.
    core: Value,
    /// The discovery document of all other groups.
    groups: Value,
    /// Names and labels by the path that lists them in all namespaces.
    objects: BTreeMap<String, Vec<Object>>,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
}

/// The rights of every caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    Everywhere,
    /// All rights in namespaces, none at the cluster scope.
    InNamespaces,
}

pub(crate) fn client(cluster: Cluster, rights: Rights) -> kube::Client {
    let cluster = Arc::new(cluster);
    let answer = move |request: Request<kube::client::Body>| {
        let cluster = Arc::clone(&cluster);
        async move {
            if request.uri().path() == "/apis/authorization.k8s.io/v1/subjectaccessreviews" {
                let body = request.into_body().collect_bytes().await.expect("a body");
                return Ok::<_, Infallible>(reviewed(&body, rights));
            }
            Ok(cluster.answer(&request))
        }
    };
    kube::Client::new(tower::service_fn(answer), "suite")
}

fn reviewed(review: &[u8], rights: Rights) -> Response<Body> {
    let mut review: Value = serde_json::from_slice(review).expect("a review");
    let resource = &review["spec"]["resourceAttributes"];
    let is_of_cluster = resource.is_object() && !resource["namespace"].is_string();
    review["status"] = json!({"allowed": rights == Rights::Everywhere || !is_of_cluster});
    Response::new(Body::from(review.to_string()))
}

impl Cluster {
    fn answer(&self, request: &Request<kube::client::Body>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let query: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        if query.get("watch").is_some_and(|watch| watch == "true") {
            // No events.
            return Response::new(Body::from_stream(stream::pending::<
                Result<Vec<u8>, Infallible>,
            >()));
        }
        let body = match request.uri().path() {
            "/api" => self.core.clone(),
            "/apis" => self.groups.clone(),
            path => self.list(path, query.get("labelSelector").map_or("", String::as_str)),
        };
        Response::new(Body::from(body.to_string()))
    }

    fn list(&self, path: &str, selector: &str) -> Value {
        let (all, namespace) = match path.split_once("/namespaces/").and_then(|(start, rest)| {
            let (namespace, plural) = rest.split_once('/')?;
            Some((format!("{start}/{plural}"), namespace))
        }) {
            Some((all, namespace)) => (all, Some(namespace)),
            None => (path.to_owned(), None),
        };
        let selector: Selector = selector.parse().expect("a selector");
        let objects = self
            .objects
            .get(&all)
            .unwrap_or_else(|| panic!("{path} was not recorded"));
        let found = objects.iter().filter(|object| {
            let labels = object
                .labels
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()));
            namespace.is_none_or(|namespace| object.namespace == namespace)
                && selector.matches(&labels.collect())
        });
        let items = found.map(
            |Object {
                 namespace,
                 name,
                 labels,
             }| {
                // Items of a list may have no kind; pods are parsed with one.
                json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}})
            },
        );
        json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "1"}, "items": items.collect::<Vec<_>>(),
        })
    }
}
