//! Parsing of paths and their authorization attributes.

use super::*;

const C: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const E: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// A summary of the route.
fn summary(path: &str) -> String {
    match Route::of(path) {
        Ok(Route::Custom {
            version,
            objects,
            metric,
        }) => match objects {
            Objects::Of {
                namespace,
                resource,
                name,
            } => {
                let namespace = namespace.unwrap_or_else(|| "-".to_owned());
                format!(
                    "{} {namespace} {}|{} {name} {metric}",
                    version.version(),
                    resource.resource,
                    resource.group
                )
            }
            Objects::Namespace(namespace) => {
                format!("{} namespace {namespace} {metric}", version.version())
            }
        },
        Ok(Route::External { namespace, metric }) => format!("external {namespace} {metric}"),
        Ok(other) => format!("{other:?}"),
        Err(StatusError::NotFound(_)) => "404".to_owned(),
        Err(StatusError::BadRequest(_)) => "400".to_owned(),
        Err(other) => format!("{other:?}"),
    }
}

fn check(path: &str, expected: &str) {
    assert_eq!(summary(path), expected, "{path}");
}

#[test]
fn paths_of_pods_objects_and_namespaces_are_parsed() {
    check(
        &format!("{C}/namespaces/shop/pods/%2A/rps"),
        "v1beta2 shop pods| * rps",
    );
    check(
        &format!("{C}/namespaces/shop/pods/*/rps"),
        "v1beta2 shop pods| * rps",
    );
    check(
        &format!("{C}/namespaces/shop/deployments.apps/web/queue%20len"),
        "v1beta2 shop deployments|apps web queue len",
    );
    let ingress = "ingresses.networking.k8s.io";
    check(
        &format!("{C}/namespaces/shop/{ingress}/in/r"),
        "v1beta2 shop ingresses|networking.k8s.io in r",
    );
    check(
        &format!("{C}/namespaces/shop/metrics/rps"),
        "v1beta2 namespace shop rps",
    );
    check(
        &format!("{C}/namespaces/shop/nodes/n-1/load"),
        "v1beta2 shop nodes| n-1 load",
    );
    check(&format!("{C}/nodes/n-1/load"), "v1beta2 - nodes| n-1 load");
    check(&format!("{C}/nodes/%2a/load"), "v1beta2 - nodes| * load");
    check(
        "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/web-1/rps",
        "v1beta1 shop pods| web-1 rps",
    );
}

#[test]
fn paths_of_external_metrics_are_parsed() {
    check(
        &format!("{E}/namespaces/shop/queue_depth"),
        "external shop queue_depth",
    );
    check(
        &format!("{E}/namespaces/shop/datadogmetric@a:b"),
        "external shop datadogmetric@a:b",
    );
    check(
        &format!("{E}/namespaces/shop/a%7Cb+c"),
        "external shop a|b+c",
    );
    check(
        &format!("{E}/namespaces/shop/a%252Fb"),
        "external shop a%2Fb",
    );
    check(
        &format!("{E}/namespaces/shop/gr%C3%B6%C3%9Fe"),
        "external shop größe",
    );
}

#[test]
fn other_paths_are_not_found() {
    for rest in [
        "/nodes/n-1",
        "/namespaces/shop",
        "/namespaces/shop/pods",
        "/namespaces/shop/metrics",
        "/a/b/c/d",
    ] {
        check(&format!("{C}{rest}"), "404");
    }
    for rest in [
        "/namespaces/shop/pods//rps",
        "/namespaces//pods/*/rps",
        "//n/m",
        "/namespaces/shop/pods/a/b/c",
    ] {
        check(&format!("{C}{rest}"), "404");
    }
    for rest in [
        "/namespaces",
        "/namespaces/shop",
        "/namespaces/shop/",
        "/namespaces/shop/a/b",
        "/metric",
        "/shop/a",
    ] {
        check(&format!("{E}{rest}"), "404");
    }
    for path in [
        "",
        "*",
        "/",
        "//",
        "/api",
        "/apis/",
        "/apisx",
        "/apis//v1beta1",
        "/metrics",
        "/healthz/",
        "/readyz/x",
    ] {
        let expected = if path == "/apis/" {
            "Discovery(Groups)"
        } else {
            "404"
        };
        check(path, expected);
    }
    check(
        "/apis/custom.metrics.k8s.io/v1/namespaces/shop/pods/*/rps",
        "404",
    );
    check(
        "/apis/external.metrics.k8s.io/v1beta2/namespaces/shop/rps",
        "404",
    );
    check("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods", "404");
}

#[test]
fn ambiguous_segments_are_rejected() {
    for part in [
        "a%2Fb",
        "%2e%2e",
        "..",
        ".",
        "%00",
        "a%0Ab",
        "%",
        "%2",
        "%zz",
        "%ff%fe",
        &"x".repeat(513),
    ] {
        check(&format!("{E}/namespaces/shop/{part}"), "400");
        check(&format!("{C}/namespaces/shop/pods/{part}/rps"), "400");
    }
    check(&format!("{E}/namespaces/*/rps"), "400");
    check(&format!("{C}/namespaces/%2A/pods/*/rps"), "400");
}

#[test]
fn paths_of_health_discovery_and_openapi_are_parsed() {
    for path in ["/healthz", "/livez", "/readyz"] {
        check(path, "Health");
    }
    check("/apis", "Discovery(Groups)");
    check(
        "/apis/custom.metrics.k8s.io/",
        "Discovery(Group(\"custom.metrics.k8s.io\"))",
    );
    check(E, "Discovery(Version(External))");
    check(&format!("{C}/"), "Discovery(Version(CustomV1Beta2))");
    check("/openapi/v3", "OpenApi(Index)");
    check(
        "/openapi/v3/apis/custom.metrics.k8s.io/v1beta1",
        "OpenApi(Version(CustomV1Beta1))",
    );
    check("/openapi/v2", "404");
    check("/openapi/v3/apis/apps/v1", "404");
}

/// Namespace, verb, group, resource, subresource, name.
fn check_wants(path: &str, expected: [&str; 6]) {
    let attributes = Route::of(path).expect(path).attributes(path);
    let Some(Attributes::Resource {
        namespace,
        verb,
        group,
        resource,
        subresource,
        name,
        ..
    }) = attributes
    else {
        panic!("{path}: {attributes:?}")
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let found = [
        or_dash(namespace),
        verb.to_owned(),
        group,
        resource,
        or_dash(subresource),
        or_dash(name),
    ];
    assert_eq!(found, expected, "{path}");
}

#[test]
fn attributes_are_those_of_the_api_server() {
    let custom = "custom.metrics.k8s.io";
    check_wants(
        &format!("{C}/namespaces/ns/pods/*/m"),
        ["ns", "get", custom, "pods", "m", "*"],
    );
    check_wants(
        &format!("{C}/namespaces/ns/deployments.apps/d/m"),
        ["ns", "get", custom, "deployments.apps", "m", "d"],
    );
    check_wants(
        &format!("{C}/namespaces/ns/metrics/m"),
        ["ns", "get", custom, "metrics", "-", "m"],
    );
    check_wants(
        &format!("{C}/nodes/n/m"),
        ["-", "get", custom, "nodes", "m", "n"],
    );
    check_wants(
        &format!("{E}/namespaces/ns/m"),
        ["ns", "list", "external.metrics.k8s.io", "m", "-", "-"],
    );
    let path = |path: &str| Route::of(path).expect(path).attributes(path);
    assert_eq!(
        path("/apis/"),
        Some(Attributes::Path {
            verb: "get",
            path: "/apis".to_owned()
        })
    );
    assert_eq!(
        path("/readyz"),
        Some(Attributes::Path {
            verb: "get",
            path: "/readyz".to_owned()
        })
    );
    assert_eq!(path("/openapi/v3"), None);
}
