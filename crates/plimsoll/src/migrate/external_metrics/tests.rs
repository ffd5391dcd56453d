//! The command `release` against an API server with one object.

use std::sync::{Arc, Mutex};

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;
use serde_json::{Value, json};
use testing::refusal;

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
    let client = testing::api_server(move |request| {
        let path = request.uri().path();
        let is_well = authority == Authority::SameAsBefore;
        let mut known = known.lock().expect("whole");
        std::future::ready(match request.method().as_str() {
            "GET" if path.ends_with(EXTERNAL) => (200, known.clone()),
            "PUT" if path.ends_with(EXTERNAL) => {
                *known = serde_json::from_slice(request.body()).expect("an object");
                let status = if is_well { "True" } else { "False" };
                known["status"] = json!({"conditions": [{"type": "Available", "status": status}]});
                (200, known.clone())
            }
            "GET" if path == "/api/v1/namespaces/keda/services/metrics" => {
                let metadata = json!({"name": "metrics", "namespace": "keda"});
                (200, json!({"metadata": metadata}))
            }
            "GET" if is_well && path == "/apis/external.metrics.k8s.io/v1beta1" => {
                (200, json!({"kind": "APIResourceList", "resources": []}))
            }
            _ => {
                let message = format!("{path}: x509: certificate signed by unknown authority");
                refusal(503, &message)
            }
        })
    });
    (client, object)
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
    let present = services.get_opt(EXTERNAL).await.expect("the object");
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
