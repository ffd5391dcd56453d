//! The HTTPS endpoint of the two APIs. Responses are JSON, except those of health checks, and
//! errors are `Status` objects.
//!
//! A request is parsed, authorized, then handled. `OpenAPI` documents need no authorization: their
//! clients are anonymous.

mod discovery;
mod encode;
mod openapi;
mod path;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderValue, Method, StatusCode, Version, header};
use axum::response::Response;
use futures::FutureExt as _;
use jiff::Timestamp;
use runtime::http_endpoints::Endpoints;
use serving::http_server::{Limits, Peer};
use serving::tls::PeerCertificates;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::request::{
    ApiVersion, CustomMetricRequest, ExternalMetricRequest, GroupResource, MetricRequest,
    ObjectSelector, StatusError,
};
use crate::flow_limiter::{Flow, FlowLimiter, PriorityLevel};
use crate::metrics::Metrics;
use crate::providers::{Caller, Providers};
use crate::routes::Via;
use delegated_auth::{Attributes, AuthorizedScope, DelegatedAuth, User};
use encode::{failure, json_response};
use model::Selector;
use path::{ALL, Objects, Route};

/// The limits of the endpoint. Its client is the API server, but every pod can connect.
pub const LIMITS: Limits = Limits {
    connections: 2048,
    // Probes, and connections that have not been authenticated as the API server's. Each may hold
    // half a MiB of headers.
    unauthenticated: 256,
    streams: 100,
    header_timeout: Duration::from_secs(10),
    // The API server closes a connection after 90 s without a request.
    idle_timeout: Duration::from_mins(3),
    // Longer than the two timeouts below, so that their responses come first.
    request_timeout: Duration::from_secs(15),
    // Spreads the API server's connections over new replicas.
    connection_age: Duration::from_mins(5),
    // The API server sends a header for each group of the user; a directory may have a thousand.
    headers: 2048,
    // No request has a body.
    body_bytes: 0,
};

/// The largest number of metric requests in flight. A flow beyond its share is rejected.
const MAX_IN_FLIGHT: usize = 400;
const AUTHORIZATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of an authorized request. The HPA controller has five workers for the whole cluster.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

pub struct AdapterServer {
    pub auth: DelegatedAuth,
    pub providers: Providers,
    pub metrics: Metrics,
    /// Health checks. After their shutdown, clients are asked to close their connections.
    pub health: Endpoints,
}

struct Handler {
    server: AdapterServer,
    health: Router,
    limiter: FlowLimiter,
}

impl AdapterServer {
    /// Returns a router with one handler for every path and method, so that no request bypasses it.
    pub fn router(self) -> Router {
        let health = self.health.clone().router();
        let handler = Handler {
            server: self,
            health,
            limiter: FlowLimiter::new(MAX_IN_FLIGHT),
        };
        Router::new().fallback(handle).with_state(Arc::new(handler))
    }
}

async fn handle(State(handler): State<Arc<Handler>>, request: Request) -> Response {
    let (began, protocol) = (Instant::now(), request.version());
    let AdapterServer {
        metrics, health, ..
    } = &handler.server;
    let route = Route::of(request.uri().path());
    let api = route.as_ref().map_or("none", api);
    let result = AssertUnwindSafe(handler.respond(route, request))
        .catch_unwind()
        .await;
    let mut response = match result {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => failure(&error),
        Err(_) => failure(&StatusError::InternalError(
            "internal error of the metrics adapter; see its log".to_owned(),
        )),
    };
    metrics.answered(api, response.status(), began.elapsed());
    if health.shutdown.is_cancelled() && protocol < Version::HTTP_2 {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The label of a route in metrics.
fn api(route: &Route) -> &'static str {
    match route {
        Route::Health => "none",
        Route::OpenApi(_) | Route::Discovery(_) => "discovery",
        Route::Custom { .. } => "custom",
        Route::External { .. } => "external",
    }
}

impl Handler {
    async fn respond(
        &self,
        route: Result<Route, StatusError>,
        request: Request,
    ) -> Result<Response, StatusError> {
        self.mark_trusted(request.extensions());
        let route = route?;
        if request.method() != Method::GET {
            return Err(StatusError::MethodNotAllowed);
        }
        if let Route::OpenApi(document) = route {
            return Ok(openapi::respond(document));
        }
        let Some(attributes) = route.attributes(request.uri().path()) else {
            return Err(StatusError::Unauthorized);
        };
        let metric = metric_request(&route, request.uri().query().unwrap_or_default())?;
        let (mut parts, body) = request.into_parts();
        let peer = parts.extensions.remove::<PeerCertificates>();
        let (user, level) = self
            .authorize(peer.as_ref(), &mut parts.headers, &attributes)
            .await?;
        let Some((version, request)) = metric else {
            if let Route::Discovery(document) = route {
                let names = self.server.providers.names();
                return Ok(discovery::respond(&document, &parts.headers, &names));
            }
            let request = Request::from_parts(parts, body);
            let Ok(response) = self.health.clone().oneshot(request).await;
            return Ok(response);
        };
        let flow = Flow {
            level,
            namespace: request.namespace().unwrap_or_default().into(),
        };
        // After authorization, so that rejected callers take no place.
        let _permit = self
            .limiter
            .try_acquire(&flow)
            .ok_or(StatusError::TooManyRequests)?;
        let caller = Caller {
            user: &user,
            attributes: &attributes,
            via: Via::from_headers(&parts.headers),
            auth: &self.server.auth,
            flow,
        };
        let values = self.values(version, &request, &caller);
        let late = |_| {
            StatusError::Timeout(format!(
                "the metrics adapter has no response within {RESPONSE_TIMEOUT:?}"
            ))
        };
        timeout(RESPONSE_TIMEOUT, values).await.map_err(late)?
    }

    /// Marks a connection of the API server as trusted, so that it is never evicted.
    fn mark_trusted(&self, of: &Extensions) {
        if let (Some(peer), Some(certificates)) = (of.get::<Peer>(), of.get::<PeerCertificates>())
            && !peer.is_trusted()
            && self.server.auth.is_front_proxy(certificates)
        {
            peer.mark_trusted();
        }
    }

    async fn authorize(
        &self,
        peer: Option<&PeerCertificates>,
        headers: &mut http::HeaderMap,
        attributes: &Attributes,
    ) -> Result<(User, PriorityLevel), StatusError> {
        let late = |_| {
            StatusError::Timeout(format!(
                "the API server did not authorize the caller within {AUTHORIZATION_TIMEOUT:?}"
            ))
        };
        let authorized = self.server.auth.authorize(peer, headers, attributes);
        let authorized = timeout(AUTHORIZATION_TIMEOUT, authorized).await;
        let (user, scope) = authorized.map_err(late)??;
        let level = match scope {
            AuthorizedScope::Cluster => PriorityLevel::ClusterWide,
            AuthorizedScope::Request => PriorityLevel::Namespaced,
        };
        Ok((user, level))
    }

    async fn values(
        &self,
        version: ApiVersion,
        request: &MetricRequest,
        caller: &Caller<'_>,
    ) -> Result<Response, StatusError> {
        let AdapterServer {
            providers, metrics, ..
        } = &self.server;
        let now = Timestamp::now();
        let body = match request {
            MetricRequest::Custom(request) => {
                let values = providers.custom(request, caller, now).await?;
                metrics.served(version, values.iter().map(|value| value.at), now);
                encode::custom(version, &values)
            }
            MetricRequest::External(request) => {
                let values = providers.external(request, caller, now).await?;
                metrics.served(version, values.iter().map(|value| value.at), now);
                encode::external(&values)
            }
        };
        Ok(json_response(StatusCode::OK, &body))
    }
}

/// Returns the request for a metric; `None` for other routes.
fn metric_request(
    route: &Route,
    query: &str,
) -> Result<Option<(ApiVersion, MetricRequest)>, StatusError> {
    match route {
        Route::OpenApi(_) | Route::Health | Route::Discovery(_) => Ok(None),
        Route::Custom {
            version,
            objects,
            metric,
        } => {
            let selectors = Selectors::parse(query)?;
            let (namespace, resource, name) = match objects.clone() {
                Objects::Of {
                    namespace,
                    resource,
                    name,
                } => (namespace, resource, Some(name).filter(|name| name != ALL)),
                Objects::Namespace(name) => {
                    let namespaces = GroupResource {
                        group: String::new(),
                        resource: "namespaces".to_owned(),
                    };
                    (None, namespaces, Some(name))
                }
            };
            let selected = ObjectSelector::Labels(selectors.labels);
            let request = CustomMetricRequest {
                namespace,
                resource,
                objects: name.map_or(selected, ObjectSelector::Name),
                metric: metric.clone(),
                metric_selector: selectors.metric,
            };
            Ok(Some((*version, MetricRequest::Custom(request))))
        }
        Route::External { namespace, metric } => {
            let request = ExternalMetricRequest {
                namespace: namespace.clone(),
                metric: metric.clone(),
                selector: Selectors::parse(query)?.labels,
            };
            let request = MetricRequest::External(request);
            Ok(Some((ApiVersion::External, request)))
        }
    }
}

/// The largest length of a selector, which becomes part of a cached query.
const MAX_BYTES: usize = 8 << 10;

/// The selectors of a query. Without a parameter, a selector matches everything.
/// Unknown parameters are ignored, and of repeated ones the first counts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Selectors {
    /// The parameter `labelSelector`.
    labels: Selector,
    /// The parameter `metricLabelSelector`.
    metric: Selector,
}

impl Selectors {
    fn parse(query: &str) -> Result<Self, StatusError> {
        let named = |parameter: &str| {
            let found =
                form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == parameter);
            let Some((_, text)) = found else {
                return Ok(Selector::everything());
            };
            if text.len() > MAX_BYTES {
                return Err(StatusError::BadRequest(format!(
                    "{parameter}: it has {} bytes, at most {MAX_BYTES} are allowed",
                    text.len()
                )));
            }
            text.parse()
                .map_err(|error| StatusError::BadRequest(format!("{parameter}: {error}")))
        };
        Ok(Self {
            labels: named("labelSelector")?,
            metric: named("metricLabelSelector")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: Result<(&str, &str), &str>) {
        let found = Selectors::parse(query)
            .map(|found| (found.labels.to_string(), found.metric.to_string()))
            .map_err(|error| error.to_string());
        let expected = expected
            .map(|(labels, metric)| (labels.to_owned(), metric.to_owned()))
            .map_err(str::to_owned);
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn selectors_arrive_as_the_api_server_encodes_them() {
        check("", Ok(("", "")));
        check("labelSelector=&metricLabelSelector", Ok(("", "")));
        check(
            "labelSelector=app%3Dcart%2Ctier+in+%28a%2Cb%29&metricLabelSelector=verb%3DGET",
            Ok(("app=cart,tier in (a,b)", "verb=GET")),
        );
        check("labelSelector=tier%20in%20(a,b)", Ok(("tier in (a,b)", "")));
        check(
            "timeout=1s&foo=1&labelSelector=a%3D1&labelSelector=b%3D2&pretty",
            Ok(("a=1", "")),
        );
        check(
            "labelSelector=a%3D%253D",
            Err("labelSelector: unable to parse selector requirement \"a=%3D\""),
        );
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        check(
            "labelSelector=a%3D%3D%3Db",
            Err("labelSelector: unable to parse selector requirement \"a===b\""),
        );
        check(
            "metricLabelSelector=,",
            Err("metricLabelSelector: unable to parse selector requirement \"\""),
        );
        for (parameter, bytes) in [("labelSelector", 8193), ("metricLabelSelector", 60_000)] {
            let why = format!("{parameter}: it has {bytes} bytes, at most 8192 are allowed");
            let query = format!("{parameter}=a%3D{}", "x".repeat(bytes - 2));
            check(&query, Err(&why));
        }
        let longest = format!("a in ({})", vec!["x".repeat(63); 127].join(","));
        assert!(Selectors::parse(&format!("labelSelector={longest}")).is_ok());
        check(
            "labelSelector=%ff",
            Err("labelSelector: unable to parse selector requirement \"\u{fffd}\""),
        );
    }
}
