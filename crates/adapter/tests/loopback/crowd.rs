//! A stranger that opens as many connections as it can keeps neither the API server nor probes from
//! their answers.

use std::net::Ipv4Addr;
use std::time::Duration;

use adapter::serve::LIMITS;
use serving::serve::{Limits, raise_connection_limit};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::stage::{Connection, Stage, usual};

/// More than the adapter has.
const CROWD: usize = 3000;
/// Connections with a handshake, of which each costs both sides some work; more than strangers
/// have.
const GREETED: usize = 1100;

const HPA: &str = "X-Remote-User: hpa";

/// So patient that nobody who waits for others to be shown out is ever answered.
const PATIENT: Limits = {
    let long = Duration::from_hours(1);
    Limits {
        header_timeout: long,
        idle_timeout: long,
        connection_age: long,
        ..LIMITS
    }
};

/// The API server and others who come after the crowd.
async fn check_answers(stage: &Stage) {
    let proxy = stage.proxies.client("front-proxy-client");
    for number in 0..20 {
        // Behind one address there may be both.
        for from in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 1, number)] {
            assert_eq!(
                stage
                    .connect_from(from, Some(&proxy))
                    .await
                    .queue(&[HPA])
                    .await,
                404,
                "{from}"
            );
            assert_eq!(
                stage
                    .connect_from(from, None)
                    .await
                    .get("/livez", &[])
                    .await
                    .0,
                200,
                "{from}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_with_three_thousand_connections_keeps_nobody_waiting() {
    // Both ends of each are in this process.
    raise_connection_limit(2 * (CROWD + GREETED)).unwrap();
    let stage = Stage::within(PATIENT, &[], |proxies, clients| {
        Some(usual(proxies, clients))
    })
    .await;
    let mut before = stage.proxy().await;
    assert_eq!(before.queue(&[HPA]).await, 404);

    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(TcpStream::connect(stage.address).await.unwrap());
    }
    check_answers(&stage).await;

    let mut greeted: Vec<Connection> = Vec::new();
    for _ in 0..GREETED {
        let mut connection = stage.connect(None).await;
        assert_eq!(connection.get("/livez", &[]).await.0, 200);
        greeted.push(connection);
    }
    check_answers(&stage).await;

    assert_eq!(
        before.queue(&[HPA]).await,
        404,
        "the API server's connection is still there"
    );
    let mut first = crowd.swap_remove(0);
    // An end, or a reset.
    assert_eq!(
        first.read(&mut [0; 1]).await.unwrap_or_default(),
        0,
        "the stranger's first connection is closed"
    );
}
