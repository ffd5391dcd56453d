//! An API server for Secrets and configurations. Like the real one it has resource versions,
//! refuses writes to an old version, and lets only the manager that created an object apply it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use runtime::ApiServerClock;
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _};

/// The API server. Clones share its objects.
#[derive(Clone, Default)]
pub(crate) struct ApiServer {
    kept: Arc<Mutex<BTreeMap<String, StoredObject>>>,
    /// The number of reads of each path.
    reads: Arc<Mutex<BTreeMap<String, u32>>>,
    refusal: Arc<Mutex<Refusal>>,
}

/// Writes to paths that contain `part` are refused and counted.
#[derive(Default)]
struct Refusal {
    part: Option<&'static str>,
    refused: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Apply,
    Merge,
    Replace,
}

struct StoredObject {
    object: Value,
    version: u64,
    manager: String,
    /// The earlier versions, oldest first.
    earlier: Vec<Value>,
}

impl ApiServer {
    pub(crate) fn client(&self) -> kube::Client {
        self.client_with(&ApiServerClock::default(), || None)
    }

    /// A client that sets `clock` from the `Date` of the responses.
    pub(crate) fn client_with(
        &self,
        clock: &ApiServerClock,
        date: impl Fn() -> Option<Timestamp> + Clone + Send + 'static,
    ) -> kube::Client {
        let router = axum::Router::new().fallback(serve).with_state(self.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (router, date) = (router.clone(), date());
            async move {
                let mut response = router
                    .oneshot(request.map(Body::new))
                    .await
                    .unwrap_or_else(|never| match never {});
                if let Some(date) = date {
                    let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&date);
                    let date = date.unwrap().parse().unwrap();
                    response.headers_mut().insert(header::DATE, date);
                }
                Ok::<_, Infallible>(response)
            }
        });
        kube::Client::new(clock.layer().layer(service), "suite")
    }

    pub(crate) fn put(&self, path: &str, object: &Value) {
        self.write(path, Write::Replace, "", object).unwrap();
    }

    pub(crate) fn reads(&self, name: &str) -> u32 {
        let reads = self.reads.lock().unwrap();
        let found = reads.iter().filter(|(path, _)| path.ends_with(name));
        found.map(|(_, count)| count).sum()
    }

    /// The object whose path ends in `name`.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.versions(name).pop()
    }

    pub(crate) fn among(&self, part: &str) -> Vec<Value> {
        let kept = self.kept.lock().unwrap();
        let found = kept.iter().filter(|(path, _)| path.contains(part));
        found.map(|(_, kept)| kept.object.clone()).collect()
    }

    /// All versions of the object whose path ends in `name`, oldest first.
    pub(crate) fn versions(&self, name: &str) -> Vec<Value> {
        let kept = self.kept.lock().unwrap();
        let found = kept.iter().find(|(path, _)| path.ends_with(name));
        let versions = found.map(|(_, kept)| kept.earlier.iter().chain([&kept.object]));
        versions.into_iter().flatten().cloned().collect()
    }

    pub(crate) fn delete(&self, name: &str) {
        let mut kept = self.kept.lock().unwrap();
        kept.retain(|path, _| !path.ends_with(name));
    }

    /// Refuses writes to paths that contain `part`; `None` refuses none.
    pub(crate) fn refuse(&self, part: Option<&'static str>) {
        *self.refusal.lock().unwrap() = Refusal { part, refused: 0 };
    }

    pub(crate) fn refused(&self) -> u32 {
        self.refusal.lock().unwrap().refused
    }

    fn write(
        &self,
        path: &str,
        kind: Write,
        by: &str,
        change: &Value,
    ) -> Result<Value, StatusCode> {
        let mut refusal = self.refusal.lock().unwrap();
        if refusal.part.is_some_and(|part| path.contains(part)) {
            refusal.refused += 1;
            return Err(StatusCode::FORBIDDEN);
        }
        let mut objects = self.kept.lock().unwrap();
        let (mut object, version, manager, earlier) = match objects.get(path) {
            None if kind != Write::Merge => (change.clone(), 0, by.to_owned(), Vec::new()),
            None => return Err(StatusCode::NOT_FOUND),
            Some(kept) if kind == Write::Apply && kept.manager != by => {
                return Err(StatusCode::CONFLICT);
            }
            Some(kept) => {
                let based_on = &change["metadata"]["resourceVersion"];
                if based_on.is_string() && *based_on != kept.object["metadata"]["resourceVersion"] {
                    return Err(StatusCode::CONFLICT);
                }
                let mut object = if kind == Write::Replace {
                    json!({})
                } else {
                    kept.object.clone()
                };
                json_patch::merge(&mut object, change);
                let earlier =
                    [kept.earlier.as_slice(), std::slice::from_ref(&kept.object)].concat();
                (object, kept.version, kept.manager.clone(), earlier)
            }
        };
        let version = version + 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        objects.insert(
            path.to_owned(),
            StoredObject {
                object: object.clone(),
                version,
                manager,
                earlier,
            },
        );
        Ok(object)
    }
}

async fn serve(
    State(objects): State<ApiServer>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let path = uri.path();
    let parsed = || -> Value { serde_json::from_str(&body).unwrap() };
    let found = match method {
        Method::GET => {
            let mut reads = objects.reads.lock().unwrap();
            *reads.entry(path.to_owned()).or_default() += 1;
            objects.get(path).ok_or(StatusCode::NOT_FOUND)
        }
        Method::PUT => objects.write(path, Write::Replace, "", &parsed()),
        Method::PATCH => {
            let is_apply = headers["content-type"].to_str().unwrap().contains("apply");
            let by = query.get("fieldManager").map_or("", String::as_str);
            let kind = if is_apply { Write::Apply } else { Write::Merge };
            objects.write(path, kind, by, &parsed())
        }
        Method::POST => {
            let object = parsed();
            let name = object["metadata"]["name"].as_str().unwrap();
            objects.write(&format!("{path}/{name}"), Write::Apply, "", &object)
        }
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    };
    match found {
        Ok(object) => Json(object).into_response(),
        Err(code) => {
            let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
            let status = json!({"status": "Failure", "message": code.as_str(), "reason": reason, "code": code.as_u16()});
            (code, Json(status)).into_response()
        }
    }
}
