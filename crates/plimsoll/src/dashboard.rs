//! The dashboard: pages about VPA objects, EHPAs, HPAs and the installation, read from the API server
//! with the rights of the user, and recorded usage from Prometheus. It writes nothing. The pages are
//! on this computer, below a secret path, or in the cluster, see [`visitors`].
//!
//! | path | page |
//! |---|---|
//! | `/` | sums, what waits and why, waves and reverts, what was done |
//! | `/vertical` | VPA objects with requested, recommended and used amounts |
//! | `/vpa/NAMESPACE/NAME`, `/ehpa/NAMESPACE/NAME` | explanation of one object, with the usage of its workload |
//! | `/horizontal` | EHPAs and HPAs |
//! | `/nodes` | requested and used shares of each node |
//! | `/changes` | changes of objects, as server-sent events |
//! | `/health` | programs, leaders, owners of the metrics APIs, findings of `check` |

mod changes;
mod fleet;
mod horizontal;
mod nodes;
mod overview;
mod pages;
mod query;
mod recorded;
mod requests;
mod timeline;
mod visitors;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use clap::Args;
use runtime::config_file::ConfigArgs;
use tokio::net::TcpListener;

use crate::cluster::block_on;
use crate::failure::Outcome;
use crate::installation::InstallationArgs;
use crate::prices::{PriceArgs, Prices};
use crate::usage::ConnectionArgs;
use pages::{Pages, Turns, Visitor};

#[derive(Clone, Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Port on 127.0.0.1; 0 is a free one.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) prices: PriceArgs,
    #[command(flatten)]
    pub(crate) prometheus: ConnectionArgs,
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
}

pub(crate) fn run(args: &DashboardArgs) -> anyhow::Result<Outcome> {
    let prices = Prices::read(&args.prices)?;
    block_on(async {
        if !args.config.config.is_empty() {
            return visitors::run(args, prices).await;
        }
        let cluster = args.installation.cluster.connect().await?;
        cluster.version().await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
        let listener =
            listener.with_context(|| format!("cannot listen on --port={}", args.port))?;
        let access = Arc::new(Access::new(listener.local_addr()?));
        println!("{}", access.url());
        let pages = Pages::new(
            cluster,
            args,
            &prices,
            &access.folder(),
            (Visitor::OwnComputer, Turns::new()),
        );
        let router = pages.router().layer(from_fn_with_state(access, guard));
        let serving = axum::serve(listener, router);
        // Without waiting for connections: browsers keep them open.
        tokio::select! {
            ended = serving => ended?,
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
        Ok(Outcome::Done)
    })
}

/// Pages load nothing but their script, and no other page frames them.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Access only for a browser on this computer that knows the token, the first part of each path. A
/// cookie would go to all servers of this computer. The header `Host` must name this computer, so
/// that no page of another site reads the dashboard under a name that it points here.
#[derive(Debug)]
struct Access {
    token: String,
    hosts: [String; 2],
}

type Refusal = (StatusCode, &'static str);

impl Access {
    fn new(address: SocketAddr) -> Self {
        let port = address.port();
        Self {
            token: format!("{:032x}", rand::random::<u128>()),
            hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        }
    }

    /// The folder of all pages, such as `/TOKEN`.
    fn folder(&self) -> String {
        format!("/{}", self.token)
    }

    /// The address of the first page.
    fn url(&self) -> String {
        format!("http://{}{}/", self.hosts[0], self.folder())
    }

    fn check(&self, method: &Method, headers: &HeaderMap, path: &str) -> Result<(), Refusal> {
        if method != Method::GET && method != Method::HEAD {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET is served"));
        }
        let host = headers.get(header::HOST).and_then(|it| it.to_str().ok());
        if !host.is_some_and(|host| self.hosts.iter().any(|own| own == host)) {
            let text = "the Host of the request is not this dashboard";
            return Err((StatusCode::MISDIRECTED_REQUEST, text));
        }
        if path.split('/').nth(1).is_some_and(|it| self.is_token(it)) {
            return Ok(());
        }
        let text = "open the address that plimsoll dashboard has printed, with its token";
        Err((StatusCode::FORBIDDEN, text))
    }

    /// Compares in a time that does not depend on the first difference.
    fn is_token(&self, given: &str) -> bool {
        let pairs = given.bytes().zip(self.token.bytes());
        let difference = pairs.fold(0, |found, (a, b)| found | (a ^ b));
        given.len() == self.token.len() && difference == 0
    }
}

/// Lets requests with the token through, and sets the headers of all responses.
async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let mut response = match access.check(request.method(), request.headers(), path) {
        Ok(()) => next.run(request).await,
        Err((status, text)) => (status, format!("{text}\n")).into_response(),
    };
    for (name, value) in headers("no-referrer") {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The headers of all responses, with a `Referrer-Policy`.
fn headers(referrer: &'static str) -> [(HeaderName, HeaderValue); 5] {
    [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, referrer),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    fn access() -> Access {
        Access {
            token: "0123456789abcdef".to_owned(),
            hosts: ["127.0.0.1:8000".to_owned(), "localhost:8000".to_owned()],
        }
    }

    fn check(method: &Method, host: &str, path: &str, expected: Result<(), u16>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a value"));
        let found = access().check(method, &headers, path);
        let found = found.map_err(|(status, _)| status.as_u16());
        assert_eq!(found, expected, "{method} {host} {path}");
    }

    #[test]
    fn only_requests_with_the_token_and_our_host_are_served() {
        let (get, host) = (&Method::GET, "127.0.0.1:8000");
        let path = "/0123456789abcdef/vpa/shop/web";
        check(get, host, path, Ok(()));
        check(get, host, "/0123456789abcdef/", Ok(()));
        check(&Method::HEAD, "localhost:8000", path, Ok(()));
        check(get, host, "/", Err(403));
        check(get, host, "/0123456789abcdeF/", Err(403));
        check(get, host, "/0123456789abcde/", Err(403));
        check(get, host, "/vpa/0123456789abcdef", Err(403));
        check(&Method::POST, host, path, Err(405));
        check(get, "example.com", path, Err(421));
        check(get, "127.0.0.1:8001", path, Err(421));
    }

    #[tokio::test]
    async fn the_printed_address_is_served_without_a_cookie() {
        let access = Arc::new(access());
        let (folder, url) = (access.folder(), access.url());
        let page = get(async || "page");
        let router = Router::new().route(&format!("{folder}/"), page);
        let router = router.layer(from_fn_with_state(access, guard));
        let uri: http::Uri = url.parse().expect("a URL");
        let request = Request::get(uri.path()).header(header::HOST, "127.0.0.1:8000");
        let request = request.body(Body::empty()).expect("a request");
        let response = router.oneshot(request).await.expect("a response");
        assert_eq!(response.status(), StatusCode::OK);
        let headers = response.headers();
        assert!(!headers.contains_key(header::SET_COOKIE), "{headers:?}");
    }

    #[test]
    fn tokens_are_random() {
        let address = "127.0.0.1:8000".parse().expect("an address");
        let [a, b] = [Access::new(address), Access::new(address)];
        assert_eq!(a.token.len(), 32);
        assert_ne!(a.token, b.token);
        assert_eq!(a.url(), format!("http://127.0.0.1:8000/{}/", a.token));
    }
}
