//! Slow clients, many clients, and clients during shutdown.

use std::net::Ipv4Addr;

use axum::Extension;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
}

impl Running {
    async fn start(router: Router, limits: Limits) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(serve(listener, router, None, limits, shutdown.clone()));
        Self {
            address,
            shutdown,
            server,
        }
    }

    async fn send(&self, text: &str) -> TcpStream {
        self.send_from(Ipv4Addr::LOCALHOST, text).await
    }

    /// Every address that begins with 127 is this machine's.
    async fn send_from(&self, from: Ipv4Addr, text: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let mut stream = socket.connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }
}

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
/// A request after which the connection is kept.
const KEPT: &str = "GET / HTTP/1.1\r\nhost: test\r\n\r\n";

async fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

fn limits() -> Limits {
    let short = Duration::from_millis(300);
    Limits {
        header_timeout: short,
        idle_timeout: short,
        ..Limits::default()
    }
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

#[tokio::test]
async fn parts_of_a_response_do_not_wait_for_each_other() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let limiter = ConnectionLimiter::new(1, 1);
    let (client, accepted) = tokio::join!(client, accept(&listener, &limiter));
    assert!(client.is_ok() && accepted.unwrap().0.nodelay().unwrap());
}

#[tokio::test]
async fn a_client_that_is_slow_to_send_its_headers_is_disconnected() {
    let running = Running::start(hello(), limits()).await;
    for beginning in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: te"] {
        let slow = running.send(beginning).await;
        assert!(!answer(slow).await.contains("hello"), "{beginning:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let running = Running::start(hello(), limits()).await;
    let idle = running.send(KEPT).await;
    // Reading to the end means that the server closed.
    assert!(answer(idle).await.ends_with("hello"));
}

#[tokio::test]
async fn a_handler_that_exceeds_its_time_limit_is_answered_with_504() {
    let stuck = Router::new().route("/", get(|| async { std::future::pending::<&str>().await }));
    let short = Limits {
        request_timeout: Duration::from_millis(50),
        ..limits()
    };
    let running = Running::start(stuck, short).await;
    let text = answer(running.send(REQUEST).await).await;
    assert!(text.starts_with("HTTP/1.1 504"), "{text}");
}

#[tokio::test]
async fn a_request_with_too_many_headers_is_refused() {
    for (lines, expected) in [(99, 200), (101, 431), (300, 431)] {
        check_headers(limits(), lines, expected).await;
    }
    let more = Limits {
        headers: 2000,
        ..limits()
    };
    for (lines, expected) in [(2000, 200), (2001, 431)] {
        check_headers(more, lines, expected).await;
    }
}

async fn check_headers(limits: Limits, lines: usize, expected: u16) {
    let running = Running::start(hello(), limits).await;
    let groups = "x-group: a\r\n".repeat(lines - 1);
    let text = format!("GET / HTTP/1.1\r\nconnection: close\r\n{groups}\r\n");
    let text = answer(running.send(&text).await).await;
    let expected = format!("HTTP/1.1 {expected}");
    assert!(text.starts_with(&expected), "{lines}: {text}");
}

#[tokio::test]
async fn an_idle_connection_may_stay_longer_than_one_without_a_request() {
    let patient = Limits {
        idle_timeout: Duration::from_mins(5),
        ..limits()
    };
    let running = Running::start(hello(), patient).await;
    let mut kept = running.send(KEPT).await;
    for beginning in ["", "GET / HTTP/1.1\r\nhost: te"] {
        let text = answer(running.send(beginning).await).await;
        assert!(!text.contains("hello"), "{beginning:?}");
    }
    kept.write_all(REQUEST.as_bytes()).await.unwrap();
    assert_eq!(answer(kept).await.matches("hello").count(), 2);
}

#[tokio::test]
async fn the_first_response_on_an_expired_connection_is_its_last() {
    let age = Duration::from_millis(50);
    let ages = Limits {
        connection_age: age,
        idle_timeout: Duration::from_mins(5),
        ..limits()
    };
    let running = Running::start(hello(), ages).await;
    let mut kept = running.send(KEPT).await;
    let mut text = Vec::new();
    loop {
        let mut bytes = [0; 1024];
        // A request that crosses the server's close may be answered with a reset.
        match kept.read(&mut bytes).await {
            Ok(0) | Err(_) => break,
            Ok(read) => text.extend_from_slice(&bytes[..read]),
        }
        if kept.write_all(KEPT.as_bytes()).await.is_err() {
            break;
        }
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("connection: close"));
}

/// No client is disconnected for being slow.
const PATIENT: Limits = {
    let long = Duration::from_hours(1);
    Limits {
        connections: 40,
        unauthenticated: 20,
        streams: 1,
        header_timeout: long,
        idle_timeout: long,
        request_timeout: long,
        connection_age: long,
        headers: 100,
        body_bytes: 0,
    }
};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_holds_all_slots_keeps_no_other_out() {
    let running = Running::start(hello(), PATIENT).await;
    let mut held = Vec::new();
    for number in 0..200 {
        held.push(running.send(if number % 2 == 0 { "" } else { KEPT }).await);
        if number % 20 == 19 {
            for from in [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::LOCALHOST] {
                let text = answer(running.send_from(from, REQUEST).await).await;
                assert!(text.ends_with("hello"), "{from}");
            }
        }
    }
    // Its first connections are evicted.
    answer(held.swap_remove(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_connection_outlasts_a_crowd_from_its_own_address() {
    let trusting = get(|Extension(peer): Extension<Peer>| async move {
        peer.mark_trusted();
        "trusted"
    });
    let running = Running::start(hello().route("/trusted", trusting), PATIENT).await;
    let request = "GET /trusted HTTP/1.1\r\nhost: test\r\n\r\n";
    let mut trusted = running.send(request).await;
    let mut read = [0; 1024];
    let length = trusted.read(&mut read).await.unwrap();
    assert!(String::from_utf8_lossy(&read[..length]).ends_with("trusted"));
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(running.send("").await);
    }
    answer(held.swap_remove(0)).await;
    trusted.write_all(REQUEST.as_bytes()).await.unwrap();
    assert!(answer(trusted).await.ends_with("hello"));
}

#[test]
fn fewer_connections_keep_the_share_of_unauthenticated_ones() {
    let limits = Limits {
        connections: 2048,
        unauthenticated: 1024,
        ..Limits::default()
    };
    for (allowed, expected) in [(4096, (2048, 1024)), (500, (500, 250)), (1, (1, 1))] {
        let found = limits.within(allowed);
        assert_eq!((found.connections, found.unauthenticated), expected);
    }
}

#[tokio::test]
async fn shutdown_lets_a_request_finish_and_takes_no_more() {
    let (started, mut starts) = mpsc::channel(1);
    let (finish, finished) = tokio::sync::watch::channel(false);
    let handler = move || {
        let (started, mut finished) = (started.clone(), finished.clone());
        async move {
            started.send(()).await.unwrap();
            finished.wait_for(|finished| *finished).await.unwrap();
            "finished"
        }
    };
    let running = Running::start(Router::new().route("/", get(handler)), Limits::default()).await;
    let stream = running.send(KEPT).await;
    starts.recv().await.unwrap();
    running.shutdown.cancel();
    while TcpStream::connect(running.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    finish.send(true).unwrap();
    assert!(answer(stream).await.ends_with("finished"));
    running.server.await.unwrap();
}
