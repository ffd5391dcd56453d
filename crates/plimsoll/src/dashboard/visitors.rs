//! The dashboard in the cluster. Each visitor sees what the rights of the visitor's own token allow.
//!
//! A visitor brings the token in the form of the first page, or an authenticating proxy in the header
//! `Authorization`. All reads are made with it, so the program needs no rights: to impersonate visitors, it
//! would need the right to act as each of them. A token is never in an address, a page or the log.
//!
//! Namespaces that administrators open are shown without a token, with the rights of the program's own
//! service account.

mod sessions;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use maud::{Markup, html};
use runtime::address::{ListenAddress, listen_ip_from_environment};
use runtime::config_file::ConfigArgs;
use serde::Deserialize;
use serving::http_server::{Limits, serve};
use serving::tls::{RELOAD_PERIOD, ServingTls, TlsFiles};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::pages::{Pages, READ_TIMEOUT, SCRIPT_PATH, Turns, Visitor, script};
use super::{DashboardArgs, headers};
use crate::cluster::Cluster;
use crate::failure::Outcome;
use crate::output::page;
use crate::prices::Prices;
use sessions::{MAX_AGE, Session, Sessions, owner};

/// Tokens that the API server is asked about at a time.
const LOGINS: usize = 4;
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the last responses once the program is told to end. Pages that follow changes have theirs for longer.
const LAST_RESPONSES: Duration = Duration::from_secs(5);
/// Maximum size of the form with the token. The header lines of a request have less.
const MAX_FORM_BYTES: usize = 16 << 10;
/// Browsers send it to this host alone, over HTTPS.
const COOKIE: &str = "__Host-plimsoll";
const LIMITS: Limits = Limits {
    connections: 256,
    unauthenticated: 256,
    streams: 20,
    header_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_mins(1),
    // A page has a minute.
    request_timeout: READ_TIMEOUT.saturating_add(Duration::from_secs(5)),
    connection_age: Duration::from_mins(10),
    headers: 100,
    body_bytes: MAX_FORM_BYTES,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// Name, with a port other than 443, under which browsers reach the dashboard by HTTPS.
    host: String,
    port: u16,
    /// Certificate chain and private key. Without them the port has no TLS: something in front of it must.
    tls_cert_file: Option<PathBuf>,
    tls_private_key_file: Option<PathBuf>,
    /// Namespaces that are shown without a token.
    public_namespaces: Vec<String>,
}

const DEFAULTS: &str = "{port: 8443, publicNamespaces: []}";

impl Config {
    fn read(args: &ConfigArgs) -> anyhow::Result<Self> {
        let config: Self = args.read(DEFAULTS)?;
        let name = config.host.split(':').next().unwrap_or_default();
        let is_local = matches!(name, "" | "localhost") || name.starts_with("127.");
        let is_sent = config.host.to_lowercase() == config.host && !config.host.ends_with(":443");
        // A browser sends a cookie to all ports of a host.
        ensure!(
            !is_local,
            "--config: host: a name of the dashboard alone is needed; on this computer, run \
             plimsoll dashboard without --config"
        );
        ensure!(
            is_sent,
            "--config: host: browsers send it in small letters, and without port 443"
        );
        ensure!(
            config.tls_cert_file.is_some() == config.tls_private_key_file.is_some(),
            "--config: tlsCertFile and tlsPrivateKeyFile need each other"
        );
        Ok(config)
    }

    async fn tls(&self) -> anyhow::Result<Option<ServingTls>> {
        let files = self
            .tls_cert_file
            .clone()
            .zip(self.tls_private_key_file.clone());
        let Some((certificate, private_key)) = files else {
            return Ok(None);
        };
        let authorities = None;
        let loaded = ServingTls::load(TlsFiles {
            certificate,
            private_key,
            authorities,
        });
        loaded.await.map(Some)
    }
}

pub(super) async fn run(args: &DashboardArgs, prices: Prices) -> anyhow::Result<Outcome> {
    let config = Config::read(&args.config)?;
    let own = args.installation.cluster.connect().await?;
    let address: ListenAddress = format!(":{}", config.port).parse()?;
    let listener = address.or_host(listen_ip_from_environment()?).bind().await;
    let listener =
        listener.with_context(|| format!("--config: port: cannot listen on {}", config.port))?;
    let tls = config.tls().await?;
    if let Some(tls) = tls.clone() {
        tokio::spawn(tls.follow_files(RELOAD_PERIOD));
    }
    eprintln!(
        "https://{}/ is served at {}",
        config.host,
        listener.local_addr()?
    );
    let public = config.public_namespaces.iter();
    let visitors = Arc::new(Visitors {
        public: public
            .map(|namespace| {
                let visitor = (Visitor::Anonymous, Turns::new());
                let pages = Pages::new(own.clone(), args, &prices, "", visitor);
                (namespace.clone(), pages.router())
            })
            .collect(),
        origin: format!("https://{}", config.host),
        host: config.host,
        args: args.clone(),
        prices,
        logins: Semaphore::new(LOGINS),
        sessions: Mutex::default(),
    });
    let router = Router::new().fallback(respond).with_state(visitors);
    let shutdown = CancellationToken::new();
    runtime::shutdown::on_signal(shutdown.clone())?;
    let tls = tls.map(|tls| tls.current());
    let serving = serve(listener, router, tls, LIMITS, shutdown.clone());
    let late = async {
        shutdown.cancelled().await;
        tokio::time::sleep(LAST_RESPONSES).await;
    };
    tokio::select! {
        () = serving => {}
        () = late => {}
    }
    Ok(Outcome::Done)
}

struct Visitors {
    host: String,
    origin: String,
    args: DashboardArgs,
    prices: Prices,
    /// Pages of each namespace that is shown without a token.
    public: BTreeMap<String, Router>,
    logins: Semaphore,
    sessions: Mutex<Sessions>,
}

/// A response in place of a page.
type Refusal = (StatusCode, &'static str);

async fn respond(State(visitors): State<Arc<Visitors>>, request: Request) -> Response {
    let mut response = visitors.answer(request).await;
    for (name, value) in headers("same-origin") {
        response.headers_mut().insert(name, value);
    }
    response
}

impl Visitors {
    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        // Kubelets ask by the address of the pod.
        if path == "/healthz" {
            return "ok\n".into_response();
        }
        if host(&parts) != Some(&self.host) {
            let problem = "the Host of the request is not this dashboard\n";
            return (StatusCode::MISDIRECTED_REQUEST, problem).into_response();
        }
        if parts.method == Method::POST {
            // No other page may log a visitor in or out.
            if text(&parts.headers, &header::ORIGIN) != Some(&self.origin) {
                return (StatusCode::FORBIDDEN, "the form is not of this dashboard\n")
                    .into_response();
            }
            return match path {
                "/login" => self.log_in(body).await,
                "/logout" => self.log_out(&parts.headers),
                _ => StatusCode::NOT_FOUND.into_response(),
            };
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return (StatusCode::METHOD_NOT_ALLOWED, "only GET is served\n").into_response();
        }
        if path == SCRIPT_PATH {
            return script().await.into_response();
        }
        match self.pages(&parts).await {
            Ok(Some(pages)) => match pages.oneshot(Request::from_parts(parts, body)).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Ok(None) => self.first_page(StatusCode::UNAUTHORIZED, None),
            Err(refusal) => refusal.into_response(),
        }
    }

    /// The pages of a visitor: of the session, of a token from a proxy, or those of a public namespace.
    async fn pages(&self, request: &Parts) -> Result<Option<Router>, Refusal> {
        // The proxy knows who comes, also where someone else has left a session in the browser.
        if let Some(token) = bearer_token(&request.headers) {
            let id = format!("bearer {token}");
            let known = self.sessions().find(&id, Instant::now());
            return match known {
                Some(router) => Ok(Some(router)),
                None => self.begin(id, token, Visitor::OfProxy).await.map(Some),
            };
        }
        if let Some(id) = cookie(&request.headers)
            && let Some(router) = self.sessions().find(&id, Instant::now())
        {
            return Ok(Some(router));
        }
        let namespace = namespace_of(&request.uri);
        Ok(namespace.and_then(|namespace| self.public.get(&namespace).cloned()))
    }

    /// Begins the session of a token that the API server accepts.
    async fn begin(
        &self,
        id: String,
        token: String,
        visitor: fn(String) -> Visitor,
    ) -> Result<Router, Refusal> {
        let busy = (
            StatusCode::TOO_MANY_REQUESTS,
            "too many visitors log in at this time: try again\n",
        );
        let turn = tokio::time::timeout(LOGIN_TIMEOUT, self.logins.acquire()).await;
        let _turn = turn.map_err(|_| busy)?;
        let cluster = self.args.installation.cluster.connect_with(token).await;
        let unreachable = (StatusCode::BAD_GATEWAY, "the API server does not answer\n");
        let cluster = cluster.map_err(|_| unreachable)?;
        let asked = tokio::time::timeout(LOGIN_TIMEOUT, user(&cluster)).await;
        let user = match asked {
            Ok(Ok(user)) => user,
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                return Err((
                    StatusCode::UNAUTHORIZED,
                    "the API server does not accept the token\n",
                ));
            }
            Ok(Err(_)) | Err(_) => return Err(unreachable),
        };
        eprintln!("a session of the user {user:?} begins");
        let owner = owner(&user);
        let visitor = (visitor(user), self.sessions().turns(&owner));
        let router = Pages::new(cluster, &self.args, &self.prices, "", visitor).router();
        let session = Session::new(owner, router.clone(), Instant::now());
        self.sessions().add(id, session);
        Ok(router)
    }

    async fn log_in(&self, form: Body) -> Response {
        let Ok(form) = to_bytes(form, MAX_FORM_BYTES).await else {
            return StatusCode::PAYLOAD_TOO_LARGE.into_response();
        };
        let mut fields = form_urlencoded::parse(&form);
        let token = fields
            .find(|(name, _)| name == "token")
            .map(|(_, token)| token.trim().to_owned());
        let Some(token) = token.filter(|token| is_token(token)) else {
            return self.first_page(StatusCode::BAD_REQUEST, Some("this is not a token"));
        };
        let id = format!("{:032x}", rand::random::<u128>());
        match self.begin(id.clone(), token, Visitor::User).await {
            Ok(_) => {
                let age = MAX_AGE.as_secs();
                let cookie =
                    format!("{COOKIE}={id}; Path=/; Max-Age={age}; Secure; HttpOnly; SameSite=Lax");
                ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
            }
            Err((status, problem)) => self.first_page(status, Some(problem.trim())),
        }
    }

    fn log_out(&self, headers: &HeaderMap) -> Response {
        if let Some(id) = cookie(headers) {
            self.sessions().end(&id);
        }
        let over = format!("{COOKIE}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Lax");
        ([(header::SET_COOKIE, over)], Redirect::to("/")).into_response()
    }

    /// The page of a visitor without a session.
    fn first_page(&self, status: StatusCode, problem: Option<&str>) -> Response {
        let main = html! {
            h1 { "Plimsoll" }
            @if let Some(problem) = problem { p role="alert" { "No session: " (problem) "." } }
            form action="/login" method="post" {
                label { "Your token " input name="token" type="password" autocomplete="off" required; } " "
                button { "Log in" }
            }
            p.note { "You see what the rights of the token allow. " code { "kubectl create token NAME -n NAMESPACE" }
                " makes one of a service account." }
            @if !self.public.is_empty() {
                h2 { "Namespaces without a token" }
                ul { @for namespace in self.public.keys() {
                    li { a href={ "/?namespace=" (namespace) } { (namespace) } }
                } }
            }
        };
        let html = page("Plimsoll", &Markup::default(), &main);
        (status, Html(html)).into_response()
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user of the credentials, as the API server knows it.
async fn user(cluster: &Cluster) -> kube::Result<String> {
    let reviews: Api<SelfSubjectReview> = cluster.all();
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).unwrap_or_default())
}

/// Whether a text can be a value of the header `Authorization`.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The host that a request is for: with HTTP/2 a part of its address.
fn host(request: &Parts) -> Option<&str> {
    let authority = request.uri.authority().map(Authority::as_str);
    text(&request.headers, &header::HOST).or(authority)
}

fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = text(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && is_token(token)).then(|| token.to_owned())
}

/// The identifier of the session.
fn cookie(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter();
    let mut pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs.find_map(|pair| {
        let id = pair.trim().strip_prefix(COOKIE)?.strip_prefix('=')?;
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| id.to_owned())
    })
}

/// The namespace that a request names: a parameter of a list, or a part of the path of an object.
fn namespace_of(uri: &Uri) -> Option<String> {
    let mut parts = uri.path().split('/').skip(1);
    match parts.next() {
        Some("vpa" | "ehpa") => return parts.next().map(str::to_owned),
        Some("" | "vertical" | "horizontal" | "changes") => {}
        _ => return None,
    }
    let mut fields = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    fields
        .find(|(name, _)| name == "namespace")
        .map(|(_, namespace)| namespace.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_a_header_or_a_part_of_the_address() {
        for (uri, header, expected) in [
            ("/", Some("a.example.com"), Some("a.example.com")),
            ("https://a.example.com/", None, Some("a.example.com")),
            ("https://a.example.com/", Some("b"), Some("b")),
            ("/", None, None),
        ] {
            let mut request = Request::get(uri);
            if let Some(header) = header {
                request = request.header(header::HOST, header);
            }
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(host(&parts), expected, "{uri} {header:?}");
        }
    }

    #[test]
    fn settings_that_would_share_the_session_or_lack_a_key_are_refused() {
        for (config, expected) in [
            ("{}", "missing field `host`"),
            ("{host: localhost}", "host: a name of the dashboard alone"),
            ("{host: '127.0.0.1:8443'}", "host: a name of the dashboard"),
            ("{host: 'a.example.com:443'}", "without port 443"),
            ("{host: A.example.com}", "in small letters"),
            ("{host: a.example.com, port: 70000}", "port: "),
            ("{host: a.example.com, tlsCertFile: a}", "tlsPrivateKeyFile"),
            ("{host: a.example.com, public: [shop]}", "public"),
        ] {
            let args = ConfigArgs {
                config: vec![config.to_owned()],
            };
            let error = Config::read(&args).expect_err(config);
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{config}: {error}");
        }
    }
}
