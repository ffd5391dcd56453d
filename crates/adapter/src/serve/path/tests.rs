//! Parsing of paths and their authorization attributes.

use super::*;

const C: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const E: &str = "/apis/external.metrics.k8s.io/v1beta1";

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

fn check_below(base: &str, cases: &[(&str, &str)]) {
    for (path, expected) in cases {
        check(&format!("{base}/{path}"), expected);
    }
}

#[test]
fn paths_of_pods_objects_and_namespaces_are_parsed() {
    check_below(
        &format!("{C}/namespaces/shop"),
        &[
            ("pods/%2A/rps", "v1beta2 shop pods| * rps"),
            ("pods/*/rps", "v1beta2 shop pods| * rps"),
            (
                "deployments.apps/a/b%20c",
                "v1beta2 shop deployments|apps a b c",
            ),
            (
                "a.networking.k8s.io/in/r",
                "v1beta2 shop a|networking.k8s.io in r",
            ),
            ("metrics/rps", "v1beta2 namespace shop rps"),
            ("nodes/n-1/load", "v1beta2 shop nodes| n-1 load"),
        ],
    );
    check(&format!("{C}/nodes/n-1/load"), "v1beta2 - nodes| n-1 load");
    check(&format!("{C}/nodes/%2a/load"), "v1beta2 - nodes| * load");
    let older = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/web-1/rps";
    check(older, "v1beta1 shop pods| web-1 rps");
}

#[test]
fn paths_of_external_metrics_are_parsed() {
    check_below(
        &format!("{E}/namespaces/shop"),
        &[
            ("queue_depth", "external shop queue_depth"),
            ("datadogmetric@a:b", "external shop datadogmetric@a:b"),
            ("a%7Cb+c", "external shop a|b+c"),
            ("a%252Fb", "external shop a%2Fb"),
            ("gr%C3%B6%C3%9Fe", "external shop größe"),
        ],
    );
}

#[test]
fn other_paths_are_not_found() {
    let custom = "nodes/n-1 namespaces/shop namespaces/shop/pods namespaces/shop/metrics a/b/c/d \
                  namespaces/shop/pods//rps namespaces//pods/*/rps /n/m namespaces/shop/pods/a/b/c";
    let external = "namespaces namespaces/shop namespaces/shop/ namespaces/shop/a/b metric shop/a";
    for (base, paths) in [(C, custom), (E, external)] {
        for path in paths.split(' ') {
            check(&format!("{base}/{path}"), "404");
        }
    }
    let others = "* / // /api /apisx /apis//v1beta1 /metrics /healthz/ /readyz/x";
    for path in others.split(' ').chain([
        "",
        "/apis/custom.metrics.k8s.io/v1/namespaces/shop/pods/*/rps",
        "/apis/external.metrics.k8s.io/v1beta2/namespaces/shop/rps",
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
    ]) {
        check(path, "404");
    }
}

#[test]
fn ambiguous_segments_are_rejected() {
    let parts = "a%2Fb %2e%2e .. . %00 a%0Ab % %2 %zz %ff%fe";
    for part in parts.split(' ').chain([&*"x".repeat(513)]) {
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
    check("/apis/", "Discovery(Groups)");
    let group = "Discovery(Group(\"custom.metrics.k8s.io\"))";
    check("/apis/custom.metrics.k8s.io/", group);
    check(E, "Discovery(Version(External))");
    check(&format!("{C}/"), "Discovery(Version(CustomV1Beta2))");
    check("/openapi/v3", "OpenApi(Index)");
    let document = "/openapi/v3/apis/custom.metrics.k8s.io/v1beta1";
    check(document, "OpenApi(Version(CustomV1Beta1))");
    check("/openapi/v2", "404");
    check("/openapi/v3/apis/apps/v1", "404");
}

/// Namespace, verb, group, resource, subresource, name.
fn check_attributes(path: &str, expected: [&str; 6]) {
    let attributes = Route::of(path).expect(path).attributes(path);
    let Some(Attributes::Resource(found)) = attributes else {
        panic!("{path}: {attributes:?}")
    };
    let found = [
        found.namespace,
        found.verb,
        found.group,
        found.resource,
        found.subresource,
        found.name,
    ];
    let found = found.map(|text| text.unwrap_or_else(|| "-".to_owned()));
    assert_eq!(found, expected, "{path}");
}

#[test]
fn attributes_are_those_of_the_api_server() {
    let (custom, external) = ("custom.metrics.k8s.io", "external.metrics.k8s.io");
    for (path, expected) in [
        ("pods/*/m", ["ns", "get", custom, "pods", "m", "*"]),
        ("a.apps/d/m", ["ns", "get", custom, "a.apps", "m", "d"]),
        ("metrics/m", ["ns", "get", custom, "metrics", "-", "m"]),
    ] {
        check_attributes(&format!("{C}/namespaces/ns/{path}"), expected);
    }
    let node = ["-", "get", custom, "nodes", "m", "n"];
    check_attributes(&format!("{C}/nodes/n/m"), node);
    let metric = ["ns", "list", external, "m", "-", "-"];
    check_attributes(&format!("{E}/namespaces/ns/m"), metric);
    for (path, expected) in [
        ("/apis/", Some("/apis")),
        ("/readyz", Some("/readyz")),
        ("/openapi/v3", None),
    ] {
        let attributes = expected.map(|path| {
            Attributes::Path(NonResourceAttributes {
                verb: Some("get".to_owned()),
                path: Some(path.to_owned()),
            })
        });
        assert_eq!(Route::of(path).expect(path).attributes(path), attributes);
    }
}
