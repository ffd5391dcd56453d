//! Access control.

use std::sync::Arc;
use std::time::Duration;

use feed::ServerLimits;
use feed::proto::WatchRecommendationsRequest;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tonic::Code;

use crate::certificates::Authority;
use crate::fixture::{Replica, recommendation};

/// Whether a client gets the first message of the stream; otherwise the gRPC code, if the call
/// starts at all.
async fn attempt(replica: &Replica, tls: Arc<ClientConfig>) -> Result<(), Option<Code>> {
    let mut client = replica.client(tls).await.map_err(|_| None)?;
    let stream = client
        .watch_recommendations(WatchRecommendationsRequest {})
        .await;
    let mut stream = stream.map_err(|status| Some(status.code()))?.into_inner();
    let message = stream
        .message()
        .await
        .map_err(|status| Some(status.code()))?;
    assert!(message.is_some());
    Ok(())
}

/// A refusal by TLS appears as a broken connection, whatever code the client library reports.
async fn is_refused_by_tls(replica: &Replica, tls: Arc<ClientConfig>) -> bool {
    let before = replica.metric("plimsoll_feed_refused_total");
    let outcome = attempt(replica, tls).await;
    let by_name = matches!(outcome, Err(Some(Code::PermissionDenied)));
    outcome.is_err() && !by_name && replica.metric("plimsoll_feed_refused_total") > before
}

#[tokio::test]
async fn only_clients_with_an_allowed_name_from_our_authority_are_let_in() {
    let (ours, other) = (Authority::new(), Authority::new());
    let replica = Replica::start(&ours).await;
    let _term = replica.lead(1, [recommendation("a", 1)]);
    for name in ["plimsoll-updater", "plimsoll-webhook"] {
        let attempted = attempt(&replica, ours.named(name)).await;
        assert_eq!(attempted, Ok(()), "{name}");
    }
    let denied = attempt(&replica, ours.named("plimsoll-stranger")).await;
    assert_eq!(denied, Err(Some(Code::PermissionDenied)));
    for own in [None, Some((&other, "plimsoll-updater"))] {
        let name = own.map(|(_, name)| name);
        let is_refused = is_refused_by_tls(&replica, ours.client(own)).await;
        assert!(is_refused, "another authority, or no certificate: {name:?}");
    }
}

#[tokio::test]
async fn a_client_does_not_trust_a_server_of_another_authority() {
    let (ours, other) = (Authority::new(), Authority::new());
    let replica = Replica::start(&other).await;
    let _term = replica.lead(1, [recommendation("a", 1)]);
    assert_eq!(
        attempt(&replica, ours.client(Some((&other, "plimsoll-updater")))).await,
        Err(None)
    );
}

#[tokio::test]
async fn the_next_handshake_uses_new_certificates() {
    let (old, new) = (Authority::new(), Authority::new());
    let replica = Replica::start(&old).await;
    let _term = replica.lead(1, [recommendation("a", 1)]);
    *replica.tls.lock().unwrap() = new.server();
    let attempted = attempt(&replica, new.named("plimsoll-updater")).await;
    assert_eq!(attempted, Ok(()));
    let attempted = attempt(&replica, old.named("plimsoll-updater")).await;
    assert_eq!(attempted, Err(None));
}

#[tokio::test]
async fn idle_connections_without_a_certificate_keep_no_client_out() {
    let authority = Authority::new();
    // A connection that waits for their end gets no answer.
    let limits = ServerLimits {
        handshake_timeout: Duration::from_hours(1),
        ..ServerLimits::default()
    };
    let replica = Replica::with(&authority, limits).await;
    let _term = replica.lead(1, [recommendation("a", 1)]);
    let mut idle = Vec::new();
    for number in 0..4 * limits.connections {
        idle.push(TcpStream::connect(&replica.address).await.unwrap());
        if number % limits.connections == 0 {
            let attempted = attempt(&replica, authority.named("plimsoll-updater")).await;
            assert_eq!(attempted, Ok(()));
        }
    }
    let attempted = attempt(&replica, authority.named("plimsoll-webhook")).await;
    assert_eq!(attempted, Ok(()));
}

#[tokio::test]
async fn there_are_no_more_readers_than_allowed() {
    let authority = Authority::new();
    let limits = ServerLimits {
        readers: 1,
        ..ServerLimits::default()
    };
    let replica = Replica::with(&authority, limits).await;
    let _term = replica.lead(1, [recommendation("a", 1)]);
    let tls = authority.named("plimsoll-updater");
    let mut first = replica.client(Arc::clone(&tls)).await.unwrap();
    let reading = first
        .watch_recommendations(WatchRecommendationsRequest {})
        .await
        .unwrap();
    assert_eq!(
        attempt(&replica, tls).await,
        Err(Some(Code::ResourceExhausted))
    );
    assert!((replica.metric("plimsoll_feed_readers") - 1.0).abs() < f64::EPSILON);
    drop(reading);
}
