//! Pieces of requests, and how they are put together.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Parts of paths that mean something somewhere.
const PARTS: &[&str] = &[
    "apis",
    "custom.metrics.k8s.io",
    "external.metrics.k8s.io",
    "v1beta1",
    "v1beta2",
    "namespaces",
    "shop",
    "pods",
    "deployments.apps",
    "metrics",
    "*",
    "%2A",
    "%2a",
    "rps",
    "crane_pod_cpu_usage",
    "crane_autoscaling_prediction",
    "crane_autoscaling_cron",
    "openapi",
    "v2",
    "v3",
    "healthz",
    "readyz",
    "",
    ".",
    "..",
    "%2e%2e",
    "a%2Fb",
    "%00",
    "%",
    "%f",
    "%ff",
    "%C3%B6",
    ".apps",
    "a.b.c.d",
    "watch",
    "proxy",
];

/// Beginnings of paths that lead somewhere.
const BEGINNINGS: &[&str] = &[
    "",
    "/apis",
    "/apis/custom.metrics.k8s.io/v1beta2",
    "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop",
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*",
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop",
    "/openapi/v3/apis",
];

const QUERIES: &[&str] = &[
    "labelSelector=",
    "metricLabelSelector=",
    "app%3Dcart",
    "app+in+%28a%2Cb%29",
    "!a,b",
    "n%3E1",
    "a%3D%3D%3Db",
    "%28",
    ")",
    ",",
    "&",
    "=",
    "%",
    "%zz",
    "%ff",
    "%00",
    "notin+(",
    "watch=true",
    "limit=1",
    "9999999999999999999999",
];

const METHODS: &[&str] = &[
    "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT",
    "ODD",
];

const HEADERS: &[&str] = &[
    "accept",
    "authorization",
    "x-remote-user",
    "x-remote-group",
    "x-remote-extra-scopes%2f",
    "x-remote-uid",
    "if-none-match",
    "content-type",
    "content-length",
    "impersonate-user",
    "x-forwarded-for",
];

const VALUES: &[&str] = &[
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/vnd.kubernetes.protobuf, */*",
    "Bearer token",
    "Bearer ",
    "Bearer a b",
    "Basic YTpi",
    "system:masters",
    "",
    "\"\"",
    ";;;,,,",
    "-1",
];

/// A request as it is put together; not each can be sent.
#[derive(Debug, Clone)]
pub(crate) struct Hostile {
    method: &'static str,
    path: Vec<u8>,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

impl Hostile {
    /// The request, if no connection would refuse it before anything is looked at.
    pub(crate) fn request(self) -> Option<Request<Body>> {
        let Self {
            method,
            path,
            headers,
            body,
        } = self;
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).ok()?);
        request = request.uri(Uri::try_from(path).ok()?);
        for (name, value) in headers {
            request = request.header(
                HeaderName::from_static(name),
                HeaderValue::from_bytes(&value).ok()?,
            );
        }
        request.body(Body::from(body)).ok()
    }
}

/// Requests of all sorts.
pub(crate) fn hostile() -> impl Strategy<Value = Hostile> {
    let part = prop_oneof![6 => select(PARTS).prop_map(str::to_owned), 1 => "[!-~]{0,40}", 1 => "\\PC{0,8}"];
    let query = prop_oneof![5 => select(QUERIES).prop_map(str::to_owned), 1 => "[!-~]{0,60}"];
    let path = (select(BEGINNINGS), vec(part, 0..6), vec(query, 0..6)).prop_map(
        |(beginning, parts, query)| {
            let parts: String = parts.iter().flat_map(|part| ["/", part.as_str()]).collect();
            let query = if query.is_empty() {
                String::new()
            } else {
                format!("?{}", query.concat())
            };
            format!("{beginning}{parts}{query}").into_bytes()
        },
    );
    let changed = (path, vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)).prop_map(
        |(mut path, changes)| {
            for (at, byte) in changes {
                if !path.is_empty() && byte % 4 == 0 {
                    let at = at.index(path.len());
                    path[at] = byte;
                }
            }
            path
        },
    );
    let value = prop_oneof![4 => select(VALUES).prop_map(|text| text.as_bytes().to_vec()), 1 => vec(any::<u8>(), 0..40)];
    let headers = vec((select(HEADERS), value), 0..5);
    (select(METHODS), changed, headers, vec(any::<u8>(), 0..64)).prop_map(
        |(method, path, headers, body)| Hostile {
            method,
            path,
            headers,
            body,
        },
    )
}
