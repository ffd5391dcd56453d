//! The command `release` against an API server with one object.

use std::sync::{Arc, Mutex};

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::cluster::ClusterArgs;

/// The CA of the previous provider's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Authority {
    /// The CA in the previous spec.
    SameAsBefore,
    /// A new CA.
    Another,
}

fn spec(service: &str) -> Value {
    let (namespace, name) = service.split_once('/').expect("a namespace and a name");
    json!({
        "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": {"namespace": namespace, "name": name, "port": 443}, "caBundle": "b2xk",
    })
}

/// The object after the adoption from `keda/metrics`.
fn adopted() -> Value {
    let before: APIServiceSpec = serde_json::from_value(spec("keda/metrics")).expect("a spec");
    let before = serde_json::to_string(&before).expect("text");
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": EXTERNAL, "resourceVersion": "1", "annotations": {ADOPTED_FROM: before}},
        "spec": spec("plimsoll-system/plimsoll-adapter"),
        "status": {"conditions": [{"type": "Available", "status": "True"}]},
    })
}

/// An API server with the object and the Service `keda/metrics`, which gets requests for metrics if
/// the object points at it.
fn api_server(authority: Authority) -> (Client, Arc<Mutex<Value>>) {
    let object = Arc::new(Mutex::new(adopted()));
    let known = Arc::clone(&object);
    let answer = move |request: http::Request<Body>| {
        let known = Arc::clone(&known);
        async move {
            let (parts, body) = request.into_parts();
            let (code, answer) = match (parts.method.as_str(), parts.uri.path()) {
                ("GET", path) if path.ends_with(EXTERNAL) => {
                    (200, known.lock().expect("whole").clone())
                }
                ("PUT", path) if path.ends_with(EXTERNAL) => {
                    let mut put: Value =
                        serde_json::from_slice(&body.collect_bytes().await?).expect("an object");
                    let is_well = authority == Authority::SameAsBefore;
                    let status = if is_well { "True" } else { "False" };
                    put["status"] =
                        json!({"conditions": [{"type": "Available", "status": status}]});
                    *known.lock().expect("whole") = put.clone();
                    (200, put)
                }
                ("GET", "/api/v1/namespaces/keda/services/metrics") => (
                    200,
                    json!({"metadata": {"name": "metrics", "namespace": "keda"}}),
                ),
                ("GET", "/apis/external.metrics.k8s.io/v1beta1")
                    if authority == Authority::SameAsBefore =>
                {
                    (200, json!({"kind": "APIResourceList", "resources": []}))
                }
                (_, path) => {
                    let message = format!("{path}: x509: certificate signed by unknown authority");
                    (
                        503,
                        json!({"kind": "Status", "status": "Failure", "message": message, "code": 503}),
                    )
                }
            };
            let response = http::Response::builder().status(code);
            let response = response.body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, kube::Error>(response.expect("a response"))
        }
    };
    (Client::new(tower::service_fn(answer), "default"), object)
}

/// Runs `release`; checks that the object is restored.
async fn given_back(authority: Authority) -> Result<(), String> {
    let (client, object) = api_server(authority);
    let target = TargetArgs {
        installation: InstallationArgs {
            cluster: ClusterArgs::default(),
            system_namespace: "plimsoll-system".to_owned(),
        },
        service_name: "plimsoll-adapter".to_owned(),
        force: false,
    };
    let services: Api<APIService> = Api::all(client.clone());
    let present = read(&services, EXTERNAL).await.expect("the object");
    let result = release(&target, &client, present).await;
    let result = result.map_err(|error| format!("{error:#}"));
    assert_eq!(object.lock().expect("whole")["spec"], spec("keda/metrics"));
    result
}

#[tokio::test(start_paused = true)]
async fn release_waits_until_the_previous_provider_is_available() {
    assert_eq!(given_back(Authority::SameAsBefore).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_outdated_ca_bundle_says_what_to_do() {
    let result = given_back(Authority::Another).await;
    let error = result.expect_err("it does not answer");
    for part in [
        "points at keda/metrics again, with its caBundle of before `adopt`",
        "--enable-apiservice-patching=true",
        "x509: certificate signed by unknown authority",
    ] {
        assert!(error.contains(part), "{error}");
    }
}
