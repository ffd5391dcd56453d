//! Which APIs there are, as Kubernetes asks: a list for each version, and one document with everything (aggregated discovery).
//!
//! No metric is named: the autoscaler looks none up here, and there may be many thousands. A list that is empty would have
//! clients warn about it, so it shows one resource in place of all.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use super::path::Discovery;
use super::status::json_response;
use super::version::ApiVersion;

/// What a client accepts, and gets, that wants everything in one document.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers what is asked, in the form that the headers ask for.
pub(super) fn answer(asked: &Discovery, headers: &HeaderMap) -> Response {
    match asked {
        Discovery::Groups if wants_aggregated(headers) => aggregated(headers),
        Discovery::Groups => json_response(StatusCode::OK, &groups()),
        Discovery::Group(name) => json_response(StatusCode::OK, &group(name, true)),
        Discovery::Version(version) => json_response(StatusCode::OK, &resources(*version)),
    }
}

fn groups() -> Value {
    let groups: Vec<_> = group_names().map(|name| group(name, false)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// One group; where it stands alone it says what it is.
fn group(name: &str, is_alone: bool) -> Value {
    let versions: Vec<_> = versions_of(name)
        .map(|version| json!({"groupVersion": version.name(), "version": version.version()}))
        .collect();
    let mut group = json!({"name": name, "versions": versions, "preferredVersion": versions.first()});
    if is_alone {
        group["kind"] = json!("APIGroup");
        group["apiVersion"] = json!("v1");
    }
    group
}

fn resources(version: ApiVersion) -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": version.name(),
        "resources": [{
            "name": version.placeholder(),
            "singularName": "",
            "namespaced": true,
            "kind": version.list_kind(),
            "verbs": ["get"],
        }],
    })
}

/// Everything in one document. A version that is missing from it would be taken to have no resources.
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
    let tag = format!("\"{:X}\"", Sha512::digest(&body));
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { body.into_response() };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Whether any of the forms that the client takes is the one document, in the version that is spoken here.
fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|text| text.split(',')).any(|form| {
        let mut parts = form.split(';').map(str::trim);
        let is_json = parts.next() == Some("application/json");
        let parameters: Vec<&str> = parts.collect();
        is_json && AGGREGATED.split(';').skip(1).all(|wanted| parameters.contains(&wanted))
    })
}

fn group_names() -> impl Iterator<Item = &'static str> {
    [ApiVersion::CustomV1Beta2, ApiVersion::External].into_iter().map(ApiVersion::group)
}

fn versions_of(group: &str) -> impl Iterator<Item = ApiVersion> {
    ApiVersion::ALL.into_iter().filter(move |version| version.group() == group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &Value, expected: &str) {
        let expected: Value = serde_json::from_str(expected).expect("a document");
        assert_eq!(*document, expected);
    }

    #[test]
    fn documents_are_those_that_kubernetes_expects() {
        check(&resources(ApiVersion::External), include_str!("../../tests/golden/resources-external.json"));
        check(&resources(ApiVersion::CustomV1Beta2), include_str!("../../tests/golden/resources-custom.json"));
        check(&group("custom.metrics.k8s.io", true), include_str!("../../tests/golden/group-custom.json"));
        check(&groups(), include_str!("../../tests/golden/groups.json"));
        check(&everything(), include_str!("../../tests/golden/aggregated.json"));
    }

    fn accepting(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (header::ACCEPT, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_one_document_is_for_those_who_ask_for_it() {
        let wanted = |values: &[&'static str]| wants_aggregated(&accepting(values));
        assert!(wanted(&[AGGREGATED]));
        assert!(wanted(&["application/json", AGGREGATED]));
        assert!(wanted(&[
            "application/vnd.kubernetes.protobuf, application/json; v=v2; as=APIGroupDiscoveryList; g=apidiscovery.k8s.io"
        ]));
        assert!(!wanted(&[]));
        assert!(!wanted(&["application/json", "*/*"]));
        assert!(!wanted(&["application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"]));
        assert!(!wanted(&["application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"]));
    }

    #[test]
    fn whoever_has_the_document_does_not_get_it_again() {
        let mut headers = accepting(&[AGGREGATED]);
        let first = answer(&Discovery::Groups, &headers);
        assert_eq!(
            (first.status(), &first.headers()[header::CONTENT_TYPE]),
            (StatusCode::OK, &HeaderValue::from_static(AGGREGATED))
        );
        headers.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        let second = answer(&Discovery::Groups, &headers);
        assert_eq!(
            (second.status(), &second.headers()[header::ETAG]),
            (StatusCode::NOT_MODIFIED, &headers[header::IF_NONE_MATCH])
        );
    }
}
