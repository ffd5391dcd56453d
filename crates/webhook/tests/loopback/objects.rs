//! The part of the API server that keeps Secrets and configurations. Like the real one it numbers
//! versions, refuses changes to an old version, and lets only whoever made an object apply it
//! again.

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

/// Objects by their paths.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    kept: Arc<Mutex<BTreeMap<String, Kept>>>,
    /// How often each path was read.
    reads: Arc<Mutex<BTreeMap<String, u32>>>,
    refusal: Arc<Mutex<Refusal>>,
}

/// Which writes are refused: those to paths that have this in them; and how many were.
#[derive(Default)]
struct Refusal {
    part: Option<&'static str>,
    refused: u32,
}

/// How an object is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Apply,
    Merge,
    Replace,
}

struct Kept {
    object: Value,
    version: u64,
    made_by: String,
    /// As it was before, from the first version on.
    earlier: Vec<Value>,
}

impl Objects {
    pub(crate) fn client(&self) -> kube::Client {
        self.client_with(&ApiServerClock::default(), || None)
    }

    /// A client that sets `clock` by the dates of the answers.
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
                    let date = DateTimePrinter::new()
                        .timestamp_to_rfc9110_string(&date)
                        .unwrap();
                    response
                        .headers_mut()
                        .insert(header::DATE, date.parse().unwrap());
                }
                Ok::<_, Infallible>(response)
            }
        });
        kube::Client::new(clock.layer().layer(service), "suite")
    }

    /// Puts an object at a path, whatever is there.
    pub(crate) fn put(&self, path: &str, object: &Value) {
        self.write(path, Write::Replace, "", object).unwrap();
    }

    /// How often objects were read whose paths end so.
    pub(crate) fn reads(&self, name: &str) -> u32 {
        let reads = self.reads.lock().unwrap();
        reads
            .iter()
            .filter(|(path, _)| path.ends_with(name))
            .map(|(_, count)| count)
            .sum()
    }

    /// The object whose path ends so.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let kept = self.kept.lock().unwrap();
        kept.iter()
            .find(|(path, _)| path.ends_with(name))
            .map(|(_, kept)| kept.object.clone())
    }

    /// The objects whose paths have this in them.
    pub(crate) fn among(&self, part: &str) -> Vec<Value> {
        let kept = self.kept.lock().unwrap();
        kept.iter()
            .filter(|(path, _)| path.contains(part))
            .map(|(_, kept)| kept.object.clone())
            .collect()
    }

    /// All versions of the object whose path ends so, from the first one on.
    pub(crate) fn versions(&self, name: &str) -> Vec<Value> {
        let kept = self.kept.lock().unwrap();
        let kept = kept
            .iter()
            .find(|(path, _)| path.ends_with(name))
            .map(|(_, kept)| kept);
        kept.into_iter()
            .flat_map(|kept| kept.earlier.iter().chain([&kept.object]))
            .cloned()
            .collect()
    }

    /// Deletes the objects whose paths end so.
    pub(crate) fn delete(&self, name: &str) {
        self.kept
            .lock()
            .unwrap()
            .retain(|path, _| !path.ends_with(name));
    }

    /// Refuses writes to paths that have this in them; none lets all in again.
    pub(crate) fn refuse(&self, part: Option<&'static str>) {
        *self.refusal.lock().unwrap() = Refusal { part, refused: 0 };
    }

    /// How many writes were refused.
    pub(crate) fn refused(&self) -> u32 {
        self.refusal.lock().unwrap().refused
    }

    fn write(&self, path: &str, how: Write, by: &str, change: &Value) -> Result<Value, StatusCode> {
        let mut refusal = self.refusal.lock().unwrap();
        if refusal.part.is_some_and(|part| path.contains(part)) {
            refusal.refused += 1;
            return Err(StatusCode::FORBIDDEN);
        }
        let mut objects = self.kept.lock().unwrap();
        let (mut object, version, made_by, earlier) = match objects.get(path) {
            None if how != Write::Merge => (change.clone(), 0, by.to_owned(), Vec::new()),
            None => return Err(StatusCode::NOT_FOUND),
            Some(kept) if how == Write::Apply && kept.made_by != by => {
                return Err(StatusCode::CONFLICT);
            }
            Some(kept) => {
                let based_on = &change["metadata"]["resourceVersion"];
                if based_on.is_string() && *based_on != kept.object["metadata"]["resourceVersion"] {
                    return Err(StatusCode::CONFLICT);
                }
                let mut object = if how == Write::Replace {
                    json!({})
                } else {
                    kept.object.clone()
                };
                json_patch::merge(&mut object, change);
                let earlier =
                    [kept.earlier.as_slice(), std::slice::from_ref(&kept.object)].concat();
                (object, kept.version, kept.made_by.clone(), earlier)
            }
        };
        let version = version + 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        objects.insert(
            path.to_owned(),
            Kept {
                object: object.clone(),
                version,
                made_by,
                earlier,
            },
        );
        Ok(object)
    }
}

async fn serve(
    State(objects): State<Objects>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let path = uri.path();
    let found = match method {
        Method::GET => {
            *objects
                .reads
                .lock()
                .unwrap()
                .entry(path.to_owned())
                .or_default() += 1;
            objects.get(path).ok_or(StatusCode::NOT_FOUND)
        }
        Method::PUT => objects.write(
            path,
            Write::Replace,
            "",
            &serde_json::from_str(&body).unwrap(),
        ),
        Method::PATCH => {
            let is_apply = headers["content-type"].to_str().unwrap().contains("apply");
            let by = query.get("fieldManager").map_or("", String::as_str);
            let how = if is_apply { Write::Apply } else { Write::Merge };
            objects.write(path, how, by, &serde_json::from_str(&body).unwrap())
        }
        Method::POST => {
            let object: Value = serde_json::from_str(&body).unwrap();
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
