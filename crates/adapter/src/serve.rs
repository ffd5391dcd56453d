//! The HTTPS endpoint of the two APIs. Every answer but those about the process's health is JSON,
//! and every refusal a `Status`.
//!
//! The order: what is asked, whether this can be asked at all, whether this caller may, who
//! answers. Descriptions need no leave: those who fetch them are nobody in particular.

mod discovery;
mod encode;
mod openapi;
mod path;
mod query;
mod status;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderValue, Method, StatusCode, Version, header};
use axum::response::Response;
use futures::FutureExt as _;
use jiff::Timestamp;
use runtime::endpoints::Endpoints;
use serving::serve::{Limits, Peer};
use serving::tls::PeerCertificates;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::api_version::ApiVersion;
use crate::ask::{Ask, CustomAsk, ExternalAsk, GroupResource, Subject};
use crate::decide::{Caller, Providers};
use crate::flow::{Flow, FlowLimiter, PriorityLevel};
use crate::metrics::{Api, Metrics};
use crate::refusal::Refusal;
use crate::routes::Hops;
use delegated_auth::{Attributes, AuthorizedScope, DelegatedAuth, User};
use path::{ALL, Discovery, Objects, Route};
use query::Selectors;
use status::{json_response, refused};

/// What the endpoint gives its clients at most. There is one client, the API server; everybody else
/// in the cluster can knock.
pub const LIMITS: Limits = Limits {
    connections: 2048,
    // Probes, and whoever has not yet shown that it is the API server.
    unauthenticated: 1024,
    streams: 100,
    header_timeout: Duration::from_secs(10),
    // The API server closes connections that were idle for 90 s.
    idle_timeout: Duration::from_mins(3),
    // Above the two limits below, so that their answers come first.
    request_timeout: Duration::from_secs(15),
    // So that the API server's connections spread over the replicas again.
    connection_age: Duration::from_mins(5),
    // The API server sends a line for each group of the user, and a directory may have put somebody
    // into a thousand.
    headers: 2048,
    // No body is read.
    body_bytes: 0,
};

/// Questions for metrics that are answered at the same time. More of a flow than its share are
/// refused.
const AT_ONCE: usize = 400;
/// For the API server's word on whether a caller may ask.
const ADMISSION: Duration = Duration::from_secs(10);
/// For an answer to a question that may be asked. The autoscaler has five workers for all of a
/// cluster.
const ANSWER: Duration = Duration::from_secs(2);

/// What requests are answered from.
#[derive(Debug)]
pub struct Surface {
    /// Who may ask.
    pub auth: DelegatedAuth,
    /// Whoever knows metrics.
    pub providers: Providers,
    /// What is measured.
    pub metrics: Metrics,
    /// What is said of the process's health.
    pub health: Endpoints,
    /// Cancelled when this replica is about to end: clients are asked to take their next request
    /// elsewhere.
    pub leaving: CancellationToken,
}

struct Serving {
    surface: Surface,
    health: Router,
    limiter: FlowLimiter,
}

impl Surface {
    /// The routes: one handler for every path and method, so that nothing is ever answered by
    /// anybody else.
    pub fn router(self) -> Router {
        let health = self.health.clone().router();
        let serving = Serving {
            surface: self,
            health,
            limiter: FlowLimiter::new(AT_ONCE),
        };
        Router::new().fallback(answer).with_state(Arc::new(serving))
    }
}

async fn answer(State(serving): State<Arc<Serving>>, request: Request) -> Response {
    let (began, protocol) = (Instant::now(), request.version());
    let Surface {
        metrics, leaving, ..
    } = &serving.surface;
    let route = Route::of(request.uri().path());
    let api = route.as_ref().map_or(Api::None, api_of);
    let answered = AssertUnwindSafe(serving.respond(route, request))
        .catch_unwind()
        .await;
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(refusal)) => refused(&refusal),
        Err(_) => refused(&Refusal::Internal(
            "the metrics adapter has a defect; its log says more".to_owned(),
        )),
    };
    metrics.answered(api, response.status(), began.elapsed());
    if leaving.is_cancelled() && protocol < Version::HTTP_2 {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn api_of(route: &Route) -> Api {
    match route {
        Route::Health => Api::None,
        Route::OpenApi(_) | Route::Discovery(_) => Api::Discovery,
        Route::Custom { .. } => Api::Custom,
        Route::External { .. } => Api::External,
    }
}

impl Serving {
    async fn respond(
        &self,
        route: Result<Route, Refusal>,
        request: Request,
    ) -> Result<Response, Refusal> {
        self.mark_trusted(request.extensions());
        let route = route?;
        if request.method() != Method::GET {
            return Err(Refusal::MethodNotAllowed);
        }
        let question = match route {
            Route::OpenApi(asked) => return Ok(openapi::answer(asked)),
            other => other,
        };
        let Some(attributes) = question.attributes(request.uri().path()) else {
            return Err(Refusal::Unauthorized);
        };
        let asked = Question::of(question, request.uri().query().unwrap_or_default())?;
        let (mut parts, body) = request.into_parts();
        let peer = parts.extensions.remove::<PeerCertificates>();
        let (user, level) = self
            .admit(peer.as_ref(), &mut parts.headers, &attributes)
            .await?;
        match asked {
            Question::Health => self.health(Request::from_parts(parts, body)).await,
            Question::Discovery(asked) => Ok(discovery::answer(
                &asked,
                &parts.headers,
                &self.surface.providers.names(),
            )),
            Question::Metric(version, ask) => {
                let flow = Flow {
                    level,
                    namespace: ask.namespace().unwrap_or_default().into(),
                };
                // After admission: callers that are refused take no place.
                let _permit = self.limiter.try_acquire(&flow).ok_or(Refusal::TooMany)?;
                let auth = &self.surface.auth;
                let caller = Caller {
                    user: &user,
                    attributes: &attributes,
                    hops: Hops::of(&parts.headers),
                    auth,
                    flow,
                };
                let values = self.values(version, &ask, &caller);
                let late = |_| {
                    Refusal::Timeout(format!(
                        "the metrics adapter had no answer within {ANSWER:?}"
                    ))
                };
                timeout(ANSWER, values).await.map_err(late)?
            }
        }
    }

    /// Marks a connection of the API server as trusted, so that it is never evicted.
    fn mark_trusted(&self, of: &Extensions) {
        if let (Some(peer), Some(certificates)) = (of.get::<Peer>(), of.get::<PeerCertificates>())
            && !peer.is_trusted()
            && self.surface.auth.is_front_proxy(certificates)
        {
            peer.mark_trusted();
        }
    }

    async fn health(&self, request: Request) -> Result<Response, Refusal> {
        let Ok(response) = self.health.clone().oneshot(request).await;
        Ok(response)
    }

    async fn admit(
        &self,
        peer: Option<&PeerCertificates>,
        headers: &mut http::HeaderMap,
        attributes: &Attributes,
    ) -> Result<(User, PriorityLevel), Refusal> {
        let late = |_| {
            Refusal::Timeout(format!(
                "the API server had no word on this caller within {ADMISSION:?}"
            ))
        };
        let (user, scope) = timeout(
            ADMISSION,
            self.surface.auth.authorize(peer, headers, attributes),
        )
        .await
        .map_err(late)??;
        let level = match scope {
            AuthorizedScope::Cluster => PriorityLevel::ClusterWide,
            AuthorizedScope::Request => PriorityLevel::Namespaced,
        };
        Ok((user, level))
    }

    async fn values(
        &self,
        version: ApiVersion,
        ask: &Ask,
        caller: &Caller<'_>,
    ) -> Result<Response, Refusal> {
        let Surface {
            providers, metrics, ..
        } = &self.surface;
        let now = Timestamp::now();
        let body = match ask {
            Ask::Custom(ask) => {
                let values = providers.custom(ask, caller, now).await?;
                metrics.served(version, values.iter().map(|value| value.at), now);
                encode::custom(version, &values)
            }
            Ask::External(ask) => {
                let values = providers.external(ask, caller, now).await?;
                metrics.served(version, values.iter().map(|value| value.at), now);
                encode::external(&values)
            }
        };
        Ok(json_response(StatusCode::OK, &body))
    }
}

/// What needs leave.
enum Question {
    Health,
    Discovery(Discovery),
    Metric(ApiVersion, Ask),
}

impl Question {
    fn of(route: Route, query: &str) -> Result<Self, Refusal> {
        Ok(match route {
            Route::OpenApi(_) => {
                return Err(Refusal::Internal("this is answered to all".to_owned()));
            }
            Route::Health => Self::Health,
            Route::Discovery(asked) => Self::Discovery(asked),
            Route::Custom {
                version,
                objects,
                metric,
            } => {
                let Selectors {
                    labels,
                    metric: metric_selector,
                } = Selectors::of(query)?;
                let (namespace, resource, subject) = match objects {
                    Objects::Of {
                        namespace,
                        resource,
                        name,
                    } if name == ALL => (namespace, resource, Subject::Selected(labels)),
                    Objects::Of {
                        namespace,
                        resource,
                        name,
                    } => (namespace, resource, Subject::Named(name)),
                    Objects::Namespace(name) => (None, namespaces(), Subject::Named(name)),
                };
                Self::Metric(
                    version,
                    Ask::Custom(CustomAsk {
                        namespace,
                        resource,
                        subject,
                        metric,
                        metric_selector,
                    }),
                )
            }
            Route::External { namespace, metric } => {
                let Selectors {
                    labels: selector, ..
                } = Selectors::of(query)?;
                Self::Metric(
                    ApiVersion::External,
                    Ask::External(ExternalAsk {
                        namespace,
                        metric,
                        selector,
                    }),
                )
            }
        })
    }
}

fn namespaces() -> GroupResource {
    GroupResource {
        group: String::new(),
        resource: "namespaces".to_owned(),
    }
}
