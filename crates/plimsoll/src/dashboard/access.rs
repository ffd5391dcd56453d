//! Access to the dashboard: only for a browser on this computer that knows the token.
//!
//! The token of the printed address becomes a cookie. The header `Host` must name this computer, so
//! that no page of another site reads the dashboard under a name that it points here.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// Name of the cookie, and of the parameter in the printed address.
const COOKIE: &str = "plimsoll-token";
const PARAMETER: &str = "token";
/// Pages load nothing but their script, and no other page frames them.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The token and the names of this server.
#[derive(Debug)]
pub(super) struct Access {
    token: String,
    hosts: [String; 2],
}

/// Decision about a request.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    /// The request has the token.
    Granted,
    /// The address has the token: the browser gets the cookie, and an address without it.
    Redirected,
    /// The request is refused, with a sentence.
    Refused(StatusCode, &'static str),
}

impl Access {
    /// A new token for a server at this address.
    pub(super) fn new(address: SocketAddr) -> Self {
        let port = address.port();
        Self {
            token: format!("{:032x}", rand::random::<u128>()),
            hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        }
    }

    /// The address with the token.
    pub(super) fn url(&self) -> String {
        format!("http://{}/?{PARAMETER}={}", self.hosts[0], self.token)
    }

    fn decide(&self, method: &Method, headers: &HeaderMap, query: Option<&str>) -> Entry {
        if method != Method::GET && method != Method::HEAD {
            return Entry::Refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is served");
        }
        let host = headers.get(header::HOST).and_then(|it| it.to_str().ok());
        if !host.is_some_and(|host| self.hosts.iter().any(|own| own == host)) {
            let text = "the Host of the request is not this dashboard";
            return Entry::Refused(StatusCode::MISDIRECTED_REQUEST, text);
        }
        let mut parameters = query.unwrap_or_default().split('&');
        let given = parameters.find_map(|one| one.strip_prefix(PARAMETER)?.strip_prefix('='));
        if given.is_some_and(|given| self.is_token(given)) {
            return Entry::Redirected;
        }
        let cookies = headers.get_all(header::COOKIE).into_iter();
        let cookies = cookies.filter_map(|it| it.to_str().ok());
        let mut cookies = cookies.flat_map(|line| line.split(';'));
        let has_cookie = cookies.any(|cookie| {
            let value = cookie.trim().strip_prefix(COOKIE);
            value
                .and_then(|value| value.strip_prefix('='))
                .is_some_and(|value| self.is_token(value))
        });
        if has_cookie {
            Entry::Granted
        } else {
            let text = "open the address that plimsoll dashboard has printed, with its token";
            Entry::Refused(StatusCode::FORBIDDEN, text)
        }
    }

    /// Compares in a time that does not depend on the first difference.
    fn is_token(&self, given: &str) -> bool {
        let pairs = given.bytes().zip(self.token.bytes());
        let difference = pairs.fold(0, |found, (a, b)| found | (a ^ b));
        given.len() == self.token.len() && difference == 0
    }
}

/// Lets requests with the token through, and sets the headers of all responses.
pub(super) async fn guard(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let uri = request.uri();
    let mut response = match access.decide(request.method(), request.headers(), uri.query()) {
        Entry::Granted => next.run(request).await,
        Entry::Redirected => {
            let cookie = format!(
                "{COOKIE}={}; HttpOnly; SameSite=Strict; Path=/",
                access.token
            );
            let headers = [
                (header::LOCATION, uri.path().to_owned()),
                (header::SET_COOKIE, cookie),
            ];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        Entry::Refused(status, text) => (status, format!("{text}\n")).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ] {
        headers.insert(name, axum::http::HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access {
            token: "0123456789abcdef".to_owned(),
            hosts: ["127.0.0.1:8000".to_owned(), "localhost:8000".to_owned()],
        }
    }

    fn check(method: &Method, host: &str, cookie: &str, query: &str, expected: Result<&str, u16>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a value"));
        headers.insert(header::COOKIE, cookie.parse().expect("a value"));
        let found = match access().decide(method, &headers, Some(query)) {
            Entry::Granted => Ok("granted"),
            Entry::Redirected => Ok("redirected"),
            Entry::Refused(status, _) => Err(status.as_u16()),
        };
        assert_eq!(found, expected, "{method} {host} {cookie:?} {query:?}");
    }

    #[test]
    fn only_requests_with_the_token_and_our_host_are_served() {
        let (get, host) = (&Method::GET, "127.0.0.1:8000");
        let cookie = "other=1; plimsoll-token=0123456789abcdef";
        check(get, host, cookie, "", Ok("granted"));
        check(&Method::HEAD, "localhost:8000", cookie, "", Ok("granted"));
        check(
            get,
            host,
            "",
            "a=b&token=0123456789abcdef",
            Ok("redirected"),
        );
        check(get, host, "", "", Err(403));
        check(get, host, "", "token=0123456789abcdeF", Err(403));
        check(get, host, "", "token=", Err(403));
        check(get, host, "plimsoll-token=0123456789abcde", "", Err(403));
        check(&Method::POST, host, cookie, "", Err(405));
        check(get, "example.com", cookie, "", Err(421));
        check(get, "127.0.0.1:8001", cookie, "", Err(421));
    }

    #[test]
    fn tokens_are_random() {
        let address = "127.0.0.1:8000".parse().expect("an address");
        let [a, b] = [Access::new(address), Access::new(address)];
        assert_eq!(a.token.len(), 32);
        assert_ne!(a.token, b.token);
        assert_eq!(a.url(), format!("http://127.0.0.1:8000/?token={}", a.token));
    }
}
