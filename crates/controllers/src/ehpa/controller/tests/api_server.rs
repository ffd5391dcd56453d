//! An API server that keeps objects by their paths, and the requests that it got.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ehpa::{self, EffectiveHorizontalPodAutoscaler};
use http::Method;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde_json::{Value, json};
use view::{ObjectKey, Stripped, View};

/// Collections of the namespace `shop`.
pub(super) const EFFECTIVE: &str =
    "/apis/autoscaling.crane.io/v1alpha1/namespaces/shop/effectivehorizontalpodautoscalers";
pub(super) const NATIVE: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers";

#[derive(Clone, Default)]
pub(super) struct ApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    requests: Vec<String>,
    /// The reason of each event; `again` for one that counts a repetition.
    events: Vec<String>,
    /// Paths to which no object may be written.
    refused: Vec<String>,
    /// Whether written statuses become part of their objects.
    keeps_statuses: bool,
    version: u32,
}

impl ApiServer {
    pub(super) fn client(&self) -> Client {
        let state = Arc::clone(&self.0);
        testing::api_server(move |request| {
            let state = Arc::clone(&state);
            async move {
                let path = request.uri().path();
                if path.contains("/hung") && path.ends_with("/scale") {
                    std::future::pending::<()>().await;
                }
                let body = serde_json::from_slice(request.body()).unwrap_or_default();
                state.lock().answer(request.method(), path, body)
            }
        })
    }

    pub(super) fn put(&self, collection: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        self.0
            .lock()
            .put(format!("{collection}/{name}"), object.clone());
    }

    /// Makes or replaces what is at a path.
    pub(super) fn put_at(&self, path: &str, object: &Value) {
        self.0.lock().put(path.to_owned(), object.clone());
    }

    /// Makes the scale subresource of a workload in the namespace `shop`.
    pub(super) fn scale(&self, version: &str, plural: &str, name: &str, replicas: i32) {
        let scale = json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"replicas": replicas},
            "status": {"replicas": replicas, "selector": "run=php-apache"},
        });
        self.put_at(
            &format!("/{version}/namespaces/shop/{plural}/{name}/scale"),
            &scale,
        );
    }

    pub(super) fn get(&self, collection: &str, name: &str) -> Value {
        self.find(collection, name)
            .unwrap_or_else(|| panic!("{collection} has no {name}"))
    }

    pub(super) fn find(&self, collection: &str, name: &str) -> Option<Value> {
        self.0
            .lock()
            .objects
            .get(&format!("{collection}/{name}"))
            .cloned()
    }

    pub(super) fn delete(&self, collection: &str, name: &str) {
        self.0
            .lock()
            .objects
            .remove(&format!("{collection}/{name}"))
            .expect("it was there");
    }

    /// Method and path of each request, without those for events.
    pub(super) fn requests(&self) -> Vec<String> {
        let requests = self.0.lock().requests.clone();
        requests
            .into_iter()
            .filter(|request| !request.contains("/events"))
            .collect()
    }

    /// The reason of each event that was written; `again` for one that counts a repetition.
    pub(super) fn events(&self) -> Vec<String> {
        self.0.lock().events.clone()
    }

    pub(super) fn forget_requests(&self) {
        let mut state = self.0.lock();
        state.requests.clear();
        state.events.clear();
    }

    /// Makes each status that is written part of its object from now on.
    pub(super) fn keep_statuses(&self) {
        self.0.lock().keeps_statuses = true;
    }

    /// Answers each change of this object with 422 from now on.
    pub(super) fn refuse(&self, collection: &str, name: &str) {
        self.0.lock().refused.push(format!("{collection}/{name}"));
    }

    /// The objects as the watches keep them.
    pub(super) fn view(&self) -> View {
        let mut view = View::default();
        for (path, object) in &self.0.lock().objects {
            if path.starts_with(EFFECTIVE) {
                let object = ehpa::parse(object.clone()).expect("an EHPA");
                view.ehpas
                    .apply(Arc::new(kept::<EffectiveHorizontalPodAutoscaler>(object)));
            } else if path.starts_with(NATIVE) {
                let object = serde_json::from_value(object.clone()).expect("an autoscaler");
                view.hpas
                    .apply(Arc::new(kept::<HorizontalPodAutoscaler>(object)));
            }
        }
        view
    }
}

fn kept<K: Resource>(mut object: K) -> Stripped<K> {
    let metadata = std::mem::take(object.meta_mut());
    let key = ObjectKey::new("shop", metadata.name.clone().expect("a name"));
    *object.meta_mut() = ObjectMeta {
        resource_version: None,
        managed_fields: None,
        ..metadata
    };
    Stripped { key, object }
}

impl State {
    fn put(&mut self, path: String, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path, object);
    }

    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        self.requests.push(format!("{method} {path}"));
        let failure = |code: u16, reason: &str| {
            let status = json!({"kind": "Status", "status": "Failure", "message": path, "reason": reason, "code": code});
            (code, status)
        };
        if path.contains("/events") {
            self.events
                .push(body["reason"].as_str().unwrap_or("again").to_owned());
        }
        if method == Method::PUT && self.refused.iter().any(|refused| refused == path) {
            return failure(422, "Invalid");
        }
        let there = self.objects.get(path).cloned();
        match (method.as_str(), there) {
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().unwrap_or("generated");
                let path = format!("{path}/{name}");
                self.put(path.clone(), body);
                (201, self.objects[&path].clone())
            }
            ("PATCH", None) if path.ends_with("/status") => {
                let object = self.objects.get_mut(path.trim_end_matches("/status"));
                let put = body
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|operation| operation["path"] == "/status");
                if let (true, Some(object), Some(put)) = (self.keeps_statuses, object, put) {
                    object["status"] = put["value"].clone();
                }
                (200, json!({"metadata": {}}))
            }
            (_, None) => failure(404, "NotFound"),
            ("GET" | "PATCH", Some(there)) => (200, there),
            ("PUT", Some(there)) => {
                if body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"] {
                    return failure(409, "Conflict");
                }
                self.put(path.to_owned(), body);
                (200, self.objects[path].clone())
            }
            ("DELETE", Some(_)) => {
                self.objects.remove(path);
                (200, json!({"kind": "Status", "status": "Success"}))
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }
}
