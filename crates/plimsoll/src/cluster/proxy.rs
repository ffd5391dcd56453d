//! The proxy between this computer and the API server, as kubectl chooses it.

use std::env;
use std::net::IpAddr;

use anyhow::Context as _;
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::Kubeconfig;

/// Returns the proxy to `server`; `None` for a direct connection. `proxy-url` of the kubeconfig
/// counts always. `HTTPS_PROXY`, or `HTTP_PROXY` of a server without TLS, counts unless `NO_PROXY`
/// matches the server, or the server is on this computer.
pub(super) fn proxy(
    kubeconfig: &Kubeconfig,
    context: Option<&str>,
    server: &Uri,
) -> anyhow::Result<Option<Uri>> {
    if let Some(url) = proxy_url(kubeconfig, context) {
        return parse(url).context("proxy-url of the kubeconfig").map(Some);
    }
    let names = if server.scheme_str() == Some("http") {
        ["HTTP_PROXY", "http_proxy"]
    } else {
        ["HTTPS_PROXY", "https_proxy"]
    };
    match variable(names) {
        Some((name, url)) if !is_direct(server) => parse(&url).context(name).map(Some),
        _ => Ok(None),
    }
}

fn proxy_url<'a>(kubeconfig: &'a Kubeconfig, context: Option<&str>) -> Option<&'a str> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|it| it.name == context)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|it| it.name == context.cluster)?;
    let url = cluster.cluster.as_ref()?.proxy_url.as_deref();
    url.filter(|url| !url.is_empty())
}

fn is_direct(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = |ip: IpAddr| ip.is_loopback();
    if host == "localhost" || host.parse().is_ok_and(is_loopback) {
        return true;
    }
    let excepted = variable(["NO_PROXY", "no_proxy"]).map_or_else(String::new, |(_, list)| list);
    // Only the decision: the matcher cuts the credentials off the address of the proxy.
    let matcher = Matcher::builder().all("http://proxy").no(excepted).build();
    matcher.intercept(server).is_none()
}

fn variable(names: [&'static str; 2]) -> Option<(&'static str, String)> {
    let mut variables = names.into_iter();
    variables.find_map(|name| {
        let value = env::var(name).ok().filter(|value| !value.is_empty())?;
        Some((name, value))
    })
}

fn parse(url: &str) -> anyhow::Result<Uri> {
    // With `socks5`, too, the proxy resolves the name.
    let url = url.replacen("socks5h://", "socks5://", 1);
    let scheme = if url.contains("://") { "" } else { "http://" };
    format!("{scheme}{url}").parse().context("not a URL")
}
