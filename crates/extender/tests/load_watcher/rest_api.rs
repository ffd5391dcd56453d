//! Requests of clients, usual and hostile, over a loopback connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use extender::load_watcher::LIMITS;
use serving::http_server::serve;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Cluster, Watcher};

fn steady(number: i64) -> (i64, i64) {
    (1000 + number, 1 << 30)
}

/// A watcher with load, and the address of its API.
async fn serving() -> (Watcher, SocketAddr) {
    let cluster = Cluster::new();
    cluster.set_usage(Some(&[("n1", steady)]));
    let mut watcher = cluster.start(None, None, u32::MAX);
    watcher.snapshots.changed().await.expect("load");
    watcher
        .wait_for_metric("plimsoll_load_watcher_nodes", "2")
        .await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let router = watcher.router.clone();
    tokio::spawn(serve(
        listener,
        router,
        None,
        LIMITS,
        CancellationToken::new(),
    ));
    (watcher, address)
}

/// Sends bytes and returns the whole answer.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut connection = TcpStream::connect(address).await.expect("a connection");
    // The server may answer and close before it has read everything.
    let _ = connection.write_all(request).await;
    let mut answer = Vec::new();
    let reading = connection.read_to_end(&mut answer);
    let read = tokio::time::timeout(Duration::from_secs(20), reading).await;
    let _ = read.expect("an end in time");
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(line: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn requests_are_answered_or_refused_clearly() {
    let (watcher, address) = serving().await;
    let long = "a".repeat(253);
    let too_long = "a".repeat(254);
    for (line, status, text) in [
        (
            "GET /watcher",
            200,
            r#""source":"KubernetesMetricsServer","data":{"NodeMetricsMap":{"n1":{"metrics":[{"#,
        ),
        ("GET /watcher?host=n1", 200, r#"{"n1":{"#),
        ("GET /watcher/n1", 200, r#"{"n1":{"#),
        ("GET /watcher/n1?window=10m", 200, r#""duration":"10m""#),
        (
            "GET /watcher?window=15m&unknown=1",
            200,
            r#""duration":"15m""#,
        ),
        ("HEAD /watcher", 200, ""),
        ("GET /watcher/health", 200, ""),
        (
            "GET /watcher?host=deadbeef",
            404,
            "No metrics found for host deadbeef",
        ),
        (
            "GET /watcher/deadbeef",
            404,
            "No metrics found for host deadbeef",
        ),
        ("GET /watcher/n2", 404, "No metrics found for host n2"),
        (
            &format!("GET /watcher/{long}"),
            404,
            "No metrics found for host a",
        ),
        (&format!("GET /watcher/{too_long}"), 400, "host must be"),
        (
            &format!("GET /watcher?host={too_long}"),
            400,
            "host must be",
        ),
        ("GET /watcher?host=", 400, "host must be"),
        ("GET /watcher?host=n1&host=n2", 400, "duplicate field"),
        ("GET /watcher/n1?host=n2", 400, "host is given twice"),
        ("GET /watcher/N1", 400, "host must be"),
        ("GET /watcher/n1%00", 400, "host must be"),
        ("GET /watcher/%ff%fe", 400, "UTF-8"),
        ("GET /watcher?host=%3Cscript%3E", 400, "host must be"),
        ("GET /watcher/..%2f..%2fetc", 400, "host must be"),
        (
            "GET /watcher?window=1h",
            400,
            "window must be 15m, 10m or 5m",
        ),
        ("GET /watcher?window=", 400, "window must be 15m, 10m or 5m"),
        ("GET /watcher/n1/n2", 404, ""),
        ("GET /", 404, ""),
        ("POST /watcher", 405, "allow: GET,HEAD"),
        ("DELETE /watcher/n1", 405, "allow: GET,HEAD"),
        ("PUT /watcher/health", 405, ""),
        ("BREW /watcher", 405, ""),
    ] {
        let answer = exchange(address, request(line).as_bytes()).await;
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{line}: {answer}");
        assert!(answer.contains(text), "{line}: {answer}");
    }
    let requests = "plimsoll_load_watcher_requests_total{code=\"405\"}";
    assert_eq!(watcher.metric(requests).as_deref(), Some("4"));
}

#[tokio::test]
async fn bytes_that_are_no_request_do_no_harm() {
    let (_watcher, address) = serving().await;
    let long_path = request(&format!("GET /watcher/{}", "a".repeat(1 << 20)));
    let many_headers = format!(
        "GET /watcher HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "x: y\r\n".repeat(1000)
    );
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01".to_vec(),
        [&[0xff; 1000][..], b"\r\n\r\n"].concat(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET /watcher HTTP/9.9\r\n\r\n".to_vec(),
        b"GET /wat\xffcher HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        long_path.into_bytes(),
        many_headers.into_bytes(),
    ] {
        let answer = exchange(address, &bytes).await;
        let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(is_refused, "{answer}");
    }
    let answer = exchange(address, request("GET /watcher").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
