//! API discovery: a resource list for each version, and aggregated discovery in one document.
//!
//! A resource list contains the metrics of rules, for people who look there. The aggregated
//! document does not: the HPA controller discovers no metrics, and every client would download
//! thousands of names. Clients warn about an empty list, so one placeholder resource stands for all
//! metrics.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use model::fnv1a;
use serde_json::{Value, json};

use super::encode::json_response;
use super::path::Discovery;
use crate::request::ApiVersion;
use crate::value::MetricNames;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Responds to a discovery request, in the format of its `Accept` header.
pub(super) fn respond(document: &Discovery, headers: &HeaderMap, names: &MetricNames) -> Response {
    match document {
        Discovery::Groups if wants_aggregated(headers) => aggregated(headers),
        Discovery::Groups => json_response(StatusCode::OK, &groups()),
        Discovery::Group(name) => json_response(StatusCode::OK, &group(name, true)),
        Discovery::Version(version) => json_response(StatusCode::OK, &resources(*version, names)),
    }
}

fn groups() -> Value {
    let groups: Vec<_> = group_names().map(|name| group(name, false)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns a group, with its kind if it is the whole document.
fn group(name: &str, is_alone: bool) -> Value {
    let versions: Vec<_> = versions_of(name)
        .map(|version| json!({"groupVersion": version.name(), "version": version.version()}))
        .collect();
    let mut group =
        json!({"name": name, "versions": versions, "preferredVersion": versions.first()});
    if is_alone {
        group["kind"] = json!("APIGroup");
        group["apiVersion"] = json!("v1");
    }
    group
}

fn resources(version: ApiVersion, names: &MetricNames) -> Value {
    let resource = |name: &str, is_namespaced: bool| {
        json!({
            "name": name, "singularName": "", "namespaced": is_namespaced, "kind": version.list_kind(), "verbs": ["get"],
        })
    };
    let mut resources: Vec<Value> = if version == ApiVersion::External {
        let names = names.external.iter();
        names.map(|name| resource(name, true)).collect()
    } else {
        let names = names.of_objects.iter();
        names
            .map(|(name, is_namespaced)| resource(name, *is_namespaced))
            .collect()
    };
    if resources.is_empty() {
        resources.push(resource(version.placeholder(), true));
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version.name(), "resources": resources})
}

/// Returns the aggregated document. Clients take a missing version for one without resources.
fn everything() -> Value {
    let items: Vec<_> = group_names()
        .map(|name| {
            let versions: Vec<_> = versions_of(name).map(with_resources).collect();
            json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn with_resources(version: ApiVersion) -> Value {
    json!({
        "version": version.version(),
        "freshness": "Current",
        "resources": [{
            "resource": version.placeholder(),
            "singularResource": "",
            "scope": "Namespaced",
            "verbs": ["get"],
            "responseKind": {"group": version.group(), "version": version.version(), "kind": version.list_kind()},
        }],
    })
}

fn aggregated(headers: &HeaderMap) -> Response {
    let body = everything().to_string();
    let tag = format!("\"{:016X}\"", fnv1a(body.as_bytes()));
    let is_known = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        body.into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Whether the client accepts aggregated discovery in a supported version.
fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepted.flat_map(|text| text.split(',')).any(|form| {
        let mut parts = form.split(';').map(str::trim);
        let is_json = parts.next() == Some("application/json");
        let parameters: Vec<&str> = parts.collect();
        is_json
            && AGGREGATED
                .split(';')
                .skip(1)
                .all(|parameter| parameters.contains(&parameter))
    })
}

fn group_names() -> impl Iterator<Item = &'static str> {
    [ApiVersion::CustomV1Beta2, ApiVersion::External]
        .into_iter()
        .map(ApiVersion::group)
}

fn versions_of(group: &str) -> impl Iterator<Item = ApiVersion> {
    ApiVersion::ALL
        .into_iter()
        .filter(move |version| version.group() == group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &Value, expected: &str) {
        let expected: Value = serde_json::from_str(expected).expect("a document");
        assert_eq!(*document, expected);
    }

    #[test]
    fn documents_have_the_format_of_kubernetes() {
        let none = MetricNames::default();
        check(
            &resources(ApiVersion::External, &none),
            include_str!("../../tests/golden/resources-external.json"),
        );
        check(
            &resources(ApiVersion::CustomV1Beta2, &none),
            include_str!("../../tests/golden/resources-custom.json"),
        );
        check(
            &group("custom.metrics.k8s.io", true),
            include_str!("../../tests/golden/group-custom.json"),
        );
        check(&groups(), include_str!("../../tests/golden/groups.json"));
        check(
            &everything(),
            include_str!("../../tests/golden/aggregated.json"),
        );
    }

    #[test]
    fn metrics_of_rules_are_named() {
        let of_objects = vec![
            ("nodes/load".to_owned(), false),
            ("pods/http_requests".to_owned(), true),
        ];
        let names = MetricNames {
            of_objects,
            external: vec!["queue_depth".to_owned()],
        };
        let shown = |version| {
            let list = resources(version, &names);
            let resources = list["resources"].as_array().expect("resources").iter();
            let text = |resource: &Value, key| resource[key].to_string();
            resources
                .map(|resource| (text(resource, "name"), text(resource, "namespaced")))
                .collect::<Vec<_>>()
        };
        let name =
            |name: &str, is_namespaced: &str| (format!("\"{name}\""), is_namespaced.to_owned());
        let of_objects = [
            name("nodes/load", "false"),
            name("pods/http_requests", "true"),
        ];
        assert_eq!(shown(ApiVersion::CustomV1Beta1), of_objects);
        assert_eq!(shown(ApiVersion::CustomV1Beta2), of_objects);
        assert_eq!(shown(ApiVersion::External), [name("queue_depth", "true")]);
    }

    fn accepting(values: &[&'static str]) -> HeaderMap {
        values
            .iter()
            .map(|value| (header::ACCEPT, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn aggregated_discovery_is_served_on_request() {
        let other_order = "application/vnd.kubernetes.protobuf, application/json; v=v2; as=APIGroupDiscoveryList; g=apidiscovery.k8s.io";
        let older = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        let protobuf = "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        for (values, expected) in [
            (&[AGGREGATED][..], true),
            (&["application/json", AGGREGATED], true),
            (&[other_order], true),
            (&[], false),
            (&["application/json", "*/*"], false),
            (&[older], false),
            (&[protobuf], false),
        ] {
            assert_eq!(wants_aggregated(&accepting(values)), expected, "{values:?}");
        }
    }

    #[test]
    fn an_unchanged_document_is_not_modified() {
        let mut headers = accepting(&[AGGREGATED]);
        let names = MetricNames::default();
        let first = respond(&Discovery::Groups, &headers, &names);
        assert_eq!(
            (first.status(), &first.headers()[header::CONTENT_TYPE]),
            (StatusCode::OK, &HeaderValue::from_static(AGGREGATED))
        );
        headers.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        let second = respond(&Discovery::Groups, &headers, &names);
        assert_eq!(
            (second.status(), &second.headers()[header::ETAG]),
            (StatusCode::NOT_MODIFIED, &headers[header::IF_NONE_MATCH])
        );
    }
}
