//! The part of an API server that authentication uses, on the loopback interface: one `ConfigMap`
//! and the two reviews. The end-to-end tests use a real one; this one can also hang, count
//! requests, and return configured results.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream;
use k8s_openapi::ByteString;
use kube::{Client, Config};
use serde_json::{Value, json};
use serving::http_server::{Limits, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

const NAME: &str = "extension-apiserver-authentication";

/// Entries of the `ConfigMap`.
pub(crate) type Data = BTreeMap<&'static str, String>;

/// The state of the server and the requests that it received.
pub(crate) struct Known {
    /// The entries and their growing version; `None` without a `ConfigMap`.
    pub(crate) configuration: watch::Sender<(u64, Option<Data>)>,
    /// Whether access to the `ConfigMap` is denied.
    pub(crate) forbids: watch::Sender<bool>,
    /// Whether reviews time out.
    pub(crate) hangs: watch::Sender<bool>,
    /// Access reviews in the order of their arrival.
    pub(crate) reviews: Mutex<Vec<Value>>,
    /// Tokens in the order of their arrival.
    pub(crate) tokens: Mutex<Vec<String>>,
    /// Other objects by their path.
    objects: Mutex<BTreeMap<String, Value>>,
}

/// A running server. It ends when dropped.
pub(crate) struct ApiServer {
    pub(crate) client: Client,
    pub(crate) config: Config,
    pub(crate) known: Arc<Known>,
    server: AbortHandle,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ApiServer {
    pub(crate) async fn start(configuration: Option<Data>) -> Self {
        let known = Arc::new(Known {
            configuration: watch::Sender::new((1, configuration)),
            forbids: watch::Sender::new(false),
            hangs: watch::Sender::new(false),
            reviews: Mutex::default(),
            tokens: Mutex::default(),
            objects: Mutex::default(),
        });
        let maps = "/api/v1/namespaces/kube-system/configmaps";
        let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
        let access = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let router = Router::new()
            .route(maps, get(list_or_watch))
            .route(&format!("{maps}/{{name}}"), get(read))
            .route(tokens, post(token_review))
            .route(access, post(access_review))
            .fallback(read_object)
            .with_state(Arc::clone(&known));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(serve(
            listener,
            router,
            None,
            Limits::default(),
            CancellationToken::new(),
        ));
        let mut config = Config::new(address.parse().unwrap());
        config.default_retry = false;
        Self {
            client: Client::try_from(config.clone()).unwrap(),
            config,
            known,
            server: server.abort_handle(),
        }
    }

    /// Changes the `ConfigMap`.
    pub(crate) fn configure(&self, data: Data) {
        self.known.configuration.send_modify(|(version, current)| {
            *version += 1;
            *current = Some(data);
        });
    }

    /// Creates or replaces a Secret; `None` deletes it.
    pub(crate) fn set_secret(&self, namespace: &str, name: &str, data: Option<&Data>) {
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let mut objects = self.known.objects.lock().unwrap();
        let Some(data) = data else {
            objects.remove(&path);
            return;
        };
        let data = data.iter();
        let bytes = data.map(|(key, text)| (*key, ByteString(text.clone().into_bytes())));
        let data: BTreeMap<_, _> = bytes.collect();
        let metadata = json!({"namespace": namespace, "name": name});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
        objects.insert(path, secret);
    }

    /// Takes the specs of the access reviews since the last call.
    pub(crate) fn reviews(&self) -> Vec<Value> {
        std::mem::take(&mut self.known.reviews.lock().unwrap())
    }

    /// Takes the tokens reviewed since the last call.
    pub(crate) fn tokens(&self) -> Vec<String> {
        std::mem::take(&mut self.known.tokens.lock().unwrap())
    }
}

fn object(version: u64, data: &Data) -> Value {
    let metadata =
        json!({"name": NAME, "namespace": "kube-system", "resourceVersion": version.to_string()});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn status(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason,
        "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}

async fn read(State(known): State<Arc<Known>>) -> Response {
    if *known.forbids.borrow() {
        return status(StatusCode::FORBIDDEN, "Forbidden");
    }
    match &*known.configuration.borrow() {
        (version, Some(data)) => Json(object(*version, data)).into_response(),
        (_, None) => status(StatusCode::NOT_FOUND, "NotFound"),
    }
}

async fn read_object(State(known): State<Arc<Known>>, uri: Uri) -> Response {
    match known.objects.lock().unwrap().get(uri.path()) {
        Some(object) => Json(object.clone()).into_response(),
        None => status(StatusCode::NOT_FOUND, "NotFound"),
    }
}

async fn list_or_watch(
    State(known): State<Arc<Known>>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let selector = format!("metadata.name={NAME}");
    assert_eq!(
        query["fieldSelector"], selector,
        "nothing else may be listed"
    );
    if query.get("watch").is_none_or(|watch| watch != "true") {
        let (version, data) = known.configuration.borrow().clone();
        let items: Vec<_> = data.iter().map(|data| object(version, data)).collect();
        let metadata = json!({"resourceVersion": version.to_string()});
        return Json(json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items}))
            .into_response();
    }
    let seen: u64 = query["resourceVersion"].parse().unwrap();
    let events = stream::unfold(
        (known.configuration.subscribe(), seen),
        |(mut changes, seen)| async move {
            let (version, data) = changes
                .wait_for(|(version, _)| *version > seen)
                .await
                .ok()?
                .clone();
            let event =
                json!({"type": "MODIFIED", "object": object(version, &data.unwrap_or_default())});
            Some((
                Ok::<_, std::convert::Infallible>(format!("{event}\n")),
                (changes, version),
            ))
        },
    );
    Body::from_stream(events).into_response()
}

async fn token_review(
    State(known): State<Arc<Known>>,
    Json(mut review): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let token = review["spec"]["token"].as_str().unwrap().to_owned();
    known.tokens.lock().unwrap().push(token.clone());
    wait_while_it_hangs(&known).await;
    review["status"] = match token.strip_prefix("token-of-") {
        Some(name) => {
            json!({"authenticated": true, "user": {"username": name, "groups": ["of-tokens"], "uid": "7"}})
        }
        None => json!({"authenticated": false, "error": "no such token"}),
    };
    (StatusCode::CREATED, Json(review))
}

/// `hpa` may read everything, `reader` may read in the namespace `shop`, and no other user may do
/// anything.
async fn access_review(
    State(known): State<Arc<Known>>,
    Json(mut review): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let spec = &review["spec"];
    known.reviews.lock().unwrap().push(spec.clone());
    wait_while_it_hangs(&known).await;
    let allowed = match spec["user"].as_str().unwrap() {
        "hpa" => true,
        "reader" => spec["resourceAttributes"]["namespace"] == "shop",
        _ => false,
    };
    review["status"] = json!({"allowed": allowed});
    (StatusCode::CREATED, Json(review))
}

async fn wait_while_it_hangs(known: &Known) {
    let mut hangs = known.hangs.subscribe();
    hangs.wait_for(|hangs| !*hangs).await.unwrap();
}
