//! Clients of API servers whose answers a test makes.

use std::io::Error;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A client of an API server that answers each request with a status code and an object.
pub fn api_server<F>(answer: impl Fn(Request<Vec<u8>>) -> F + Clone + Send + 'static) -> Client
where
    F: Future<Output = (u16, Value)> + Send,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(Error::other)?.to_vec();
            let (code, object) = answer(Request::from_parts(parts, body)).await;
            let body = Body::from(object.to_string().into_bytes());
            let response = Response::builder().status(code).body(body);
            response.map_err(Error::other)
        }
    });
    Client::new(service, "default")
}

/// A client whose requests all fail.
pub fn no_api_server() -> Client {
    let service = tower::service_fn(async |_: Request<Body>| {
        Err::<Response<Body>, _>(Error::other("no server"))
    });
    Client::new(service, "default")
}

/// The answer of an API server that refuses a request.
pub fn refusal(code: u16, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "status": "Failure", "message": message, "code": code});
    (code, status)
}
