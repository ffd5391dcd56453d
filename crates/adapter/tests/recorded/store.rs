//! A Prometheus with the recorded series and responses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::recording::Recording;

/// The recorded data and the received queries.
#[derive(Default)]
pub(crate) struct Store {
    series: BTreeMap<String, Value>,
    answers: BTreeMap<String, Value>,
    asked: Mutex<BTreeSet<String>>,
}

impl Store {
    /// Serves until the runtime ends; returns the address.
    pub(crate) async fn start(recording: &Recording) -> (Arc<Self>, String) {
        let store = Arc::new(Self {
            series: recording.series(),
            answers: recording.answers(),
            asked: Mutex::default(),
        });
        let router = Router::new()
            .route("/api/v1/series", get(series))
            .route("/api/v1/query", get(query))
            .with_state(Arc::clone(&store));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (store, address)
    }

    /// Returns the received queries.
    pub(crate) fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn series(
    State(store): State<Arc<Store>>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Response {
    said(store.series.get(&asked["match[]"]))
}

async fn query(
    State(store): State<Arc<Store>>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Response {
    let query = &asked["query"];
    store.asked.lock().expect("no panic").insert(query.clone());
    said(store.answers.get(query))
}

/// A query without a recorded response is rejected.
fn said(data: Option<&Value>) -> Response {
    if let Some(data) = data {
        return Json(json!({"status": "success", "data": data})).into_response();
    }
    let error = json!({"status": "error", "errorType": "bad_data", "error": "it was refused"});
    (StatusCode::BAD_REQUEST, Json(error)).into_response()
}
