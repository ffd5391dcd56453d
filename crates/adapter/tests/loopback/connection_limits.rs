//! A client that opens as many connections as it can blocks neither the API server nor probes.

use std::net::Ipv4Addr;
use std::time::Duration;

use adapter::serve::LIMITS;
use serving::http_server::{Limits, raise_connection_limit};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::fixture::{Connection, Fixture, usual};

/// More connections than the adapter accepts.
const CROWD: usize = 3000;
/// More authenticated handshakes than the adapter has unauthenticated connections.
const GREETED: usize = 1100;

const HPA: &str = "X-Remote-User: hpa";

/// Timeouts so long that a request succeeds only if idle connections are evicted.
const PATIENT: Limits = {
    let long = Duration::from_hours(1);
    Limits {
        header_timeout: long,
        idle_timeout: long,
        connection_age: long,
        ..LIMITS
    }
};

/// Checks that the API server and probes get responses.
async fn check_answers(fixture: &Fixture) {
    let proxy = fixture.proxies.client("front-proxy-client");
    for number in 0..20 {
        // Both may share an address.
        for from in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 1, number)] {
            let mut trusted = fixture.connect_from(from, Some(&proxy)).await;
            assert_eq!(trusted.queue(&[HPA]).await, 404, "{from}");
            let mut probe = fixture.connect_from(from, None).await;
            assert_eq!(probe.get("/livez", &[]).await.0, 200, "{from}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_thousand_connections_of_one_client_block_no_other() {
    // Both ends of each connection are in this process.
    raise_connection_limit(2 * (CROWD + GREETED)).unwrap();
    let fixture = Fixture::within(PATIENT, &[], |proxies, clients| {
        Some(usual(proxies, clients))
    })
    .await;
    let mut before = fixture.proxy().await;
    assert_eq!(before.queue(&[HPA]).await, 404);

    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(TcpStream::connect(fixture.address).await.unwrap());
    }
    check_answers(&fixture).await;

    let mut greeted: Vec<Connection> = Vec::new();
    for _ in 0..GREETED {
        let mut connection = fixture.connect(None).await;
        assert_eq!(connection.get("/livez", &[]).await.0, 200);
        greeted.push(connection);
    }
    check_answers(&fixture).await;

    let code = before.queue(&[HPA]).await;
    assert_eq!(code, 404, "the API server's connection is still there");
    let mut first = crowd.swap_remove(0);
    // EOF or a reset.
    let read = first.read(&mut [0; 1]).await.unwrap_or_default();
    assert_eq!(read, 0, "the stranger's first connection is closed");
}
