//! `OpenAPI` 3 documents, for `kubectl explain` and other tools. `OpenAPI` 2 is not served: after a
//! 404 the API server does not ask for it again.
//!
//! Source: <https://kubernetes.io/docs/concepts/overview/kubernetes-api/>,
//! `k8s.io/kube-openapi/pkg/handler3`.

use axum::http::StatusCode;
use axum::response::Response;
use model::fnv1a;
use serde_json::{Value, json};

use super::encode::json_response;
use super::path::OpenApi;
use crate::request::ApiVersion;

pub(super) fn respond(document: OpenApi) -> Response {
    let body = match document {
        OpenApi::Index => index(),
        OpenApi::Version(version) => describe(version),
    };
    json_response(StatusCode::OK, &body)
}

/// Returns the addresses of the documents. An address contains a hash of the document, so that
/// clients can cache it.
fn index() -> Value {
    let mut paths = json!({});
    for version in ApiVersion::ALL {
        let path = format!("apis/{}", version.name());
        let hash = fnv1a(describe(version).to_string().as_bytes());
        let address = format!("/openapi/v3/{path}?hash={hash:016X}");
        paths[&path] = json!({"serverRelativeURL": address});
    }
    json!({"paths": paths})
}

fn describe(version: ApiVersion) -> Value {
    let (list, item) = (
        schema_name(version, version.list_kind()),
        schema_name(version, item_kind(version)),
    );
    let mut paths = json!({});
    for (path, queries) in paths_of(version) {
        paths[format!("/apis/{}{path}", version.name())] =
            json!({"get": operation(version, &parameters(path, queries), &list)});
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": {
            &list: {
                "type": "object",
                "description": "The values of a metric.",
                "required": ["items"],
                "properties": {
                    "apiVersion": text("The group and version of the list."),
                    "kind": text("The kind of the list."),
                    "metadata": {"type": "object", "description": "Nothing."},
                    "items": {
                        "type": "array",
                        "description": "One value for each object or series.",
                        "items": reference(&item),
                    },
                },
                "x-kubernetes-group-version-kind":
                    [{"group": version.group(), "version": version.version(), "kind": version.list_kind()}],
            },
            &item: {"type": "object", "description": "One value of a metric.", "properties": properties(version)},
        }},
    })
}

fn item_kind(version: ApiVersion) -> &'static str {
    match version {
        ApiVersion::CustomV1Beta2 | ApiVersion::CustomV1Beta1 => "MetricValue",
        ApiVersion::External => "ExternalMetricValue",
    }
}

/// Returns the name of a schema, derived from its Go package.
fn schema_name(version: ApiVersion, kind: &str) -> String {
    let package = match version {
        ApiVersion::CustomV1Beta2 | ApiVersion::CustomV1Beta1 => "custom_metrics",
        ApiVersion::External => "external_metrics",
    };
    format!(
        "io.k8s.metrics.pkg.apis.{package}.{}.{kind}",
        version.version()
    )
}

/// Returns each path with its query parameters.
fn paths_of(version: ApiVersion) -> &'static [(&'static str, &'static [&'static str])] {
    const METRIC: &[&str] = &["metricLabelSelector"];
    const OBJECTS_AND_METRIC: &[&str] = &["labelSelector", "metricLabelSelector"];
    match version {
        ApiVersion::External => &[("/namespaces/{namespace}/{metric}", &["labelSelector"])],
        ApiVersion::CustomV1Beta2 | ApiVersion::CustomV1Beta1 => &[
            (
                "/namespaces/{namespace}/{resource}/{name}/{metric}",
                OBJECTS_AND_METRIC,
            ),
            ("/namespaces/{namespace}/metrics/{metric}", METRIC),
            ("/{resource}/{name}/{metric}", OBJECTS_AND_METRIC),
        ],
    }
}

fn parameters(path: &str, queries: &[&str]) -> Value {
    let schema = json!({"type": "string"});
    let named = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": schema}));
    let queries = queries.iter();
    let queries = queries.map(|name| json!({"name": name, "in": "query", "schema": schema}));
    named.chain(queries).collect()
}

fn operation(version: ApiVersion, parameters: &Value, list: &str) -> Value {
    json!({
        "description": "read the values of a metric",
        "tags": [version.name().replace(['.', '/'], "_")],
        "parameters": parameters,
        "responses": {"200": {
            "description": "OK",
            "content": {"application/json": {"schema": reference(list)}},
        }},
    })
}

fn properties(version: ApiVersion) -> Value {
    let quantity = text("The value, as a quantity.");
    let time =
        json!({"type": "string", "format": "date-time", "description": "Time of the measurement."});
    let window = json!({"type": "integer", "format": "int64", "description": "Seconds that the value covers; absent for an instant."});
    let name = text("The name of the metric.");
    let selector =
        json!({"type": "object", "nullable": true, "description": "The selector of the series."});
    let described = json!({
        "type": "object",
        "description": "Object that the value describes.",
        "properties": {
            "apiVersion": text("Its API version."),
            "kind": text("Its kind."),
            "namespace": text("Its namespace."),
            "name": text("Its name."),
        },
    });
    match version {
        ApiVersion::CustomV1Beta2 => json!({
            "describedObject": described,
            "metric": {
                "type": "object",
                "description": "Which metric.",
                "properties": {"name": name, "selector": selector},
            },
            "timestamp": time,
            "windowSeconds": window,
            "value": quantity,
        }),
        ApiVersion::CustomV1Beta1 => json!({
            "describedObject": described,
            "metricName": name,
            "timestamp": time,
            "window": window,
            "value": quantity,
            "selector": selector,
        }),
        ApiVersion::External => json!({
            "metricName": name,
            "metricLabels": {
                "type": "object",
                "description": "Labels of the series.",
                "additionalProperties": {"type": "string"},
            },
            "timestamp": time,
            "window": window,
            "value": quantity,
        }),
    }
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn references_of_documents_resolve_and_the_index_lists_all_documents() {
        let index = index();
        for version in ApiVersion::ALL {
            let document = describe(version);
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for reference in found {
                let pointer = reference.trim_start_matches('#');
                assert!(
                    document.pointer(pointer).is_some(),
                    "{reference} of {}",
                    version.name()
                );
            }
            let address =
                index["paths"][format!("apis/{}", version.name())]["serverRelativeURL"].as_str();
            let path = address
                .and_then(|address| address.split('?').next())
                .expect("an address");
            assert_eq!(
                super::super::path::Route::of(path),
                Ok(super::super::path::Route::OpenApi(OpenApi::Version(
                    version
                )))
            );
        }
    }

    #[test]
    fn documented_paths_are_served() {
        for version in ApiVersion::ALL {
            for (path, _) in paths_of(version) {
                let path = format!("/apis/{}{path}", version.name()).replace(['{', '}'], "");
                assert!(super::super::path::Route::of(&path).is_ok(), "{path}");
            }
        }
    }
}
