//! The other calls: health and reflection.

use std::collections::BTreeSet;

use feed::proto::feed_server::SERVICE_NAME;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::certificates::Authority;
use crate::fixture::{Replica, server_name};

async fn channel(authority: &Authority, replica: &Replica, name: &str) -> Channel {
    let tls = authority.named(name);
    feed::client::connect(&replica.address, tls, server_name())
        .await
        .unwrap()
}

#[tokio::test]
async fn health_follows_leadership() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let mut health = HealthClient::new(channel(&authority, &replica, "plimsoll-updater").await);
    let mut states = health
        .watch(HealthCheckRequest {
            service: SERVICE_NAME.to_owned(),
        })
        .await
        .unwrap()
        .into_inner();
    let mut until = async |expected: ServingStatus| {
        while states.message().await.unwrap().unwrap().status() != expected {}
    };
    until(ServingStatus::NotServing).await;
    let term = replica.lead(1, []);
    until(ServingStatus::Serving).await;
    drop(term);
    until(ServingStatus::NotServing).await;
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let mut reflection =
        ServerReflectionClient::new(channel(&authority, &replica, "plimsoll-updater").await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let requests = futures::stream::iter([request]);
    let mut answers = reflection
        .server_reflection_info(Request::new(requests))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: BTreeSet<String> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    let reflection = "grpc.reflection.v1.ServerReflection";
    let expected = ["grpc.health.v1.Health", reflection, SERVICE_NAME];
    assert_eq!(names, expected.map(str::to_owned).into());
}

#[tokio::test]
async fn a_client_without_a_certificate_gets_no_health_and_reflection() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let channel = channel(&authority, &replica, "plimsoll-stranger").await;
    let health = HealthClient::new(channel.clone())
        .check(HealthCheckRequest {
            service: String::new(),
        })
        .await;
    assert_eq!(health.unwrap_err().code(), Code::PermissionDenied);
    let requests = futures::stream::iter([]);
    let reflection = ServerReflectionClient::new(channel)
        .server_reflection_info(Request::new(requests))
        .await;
    assert_eq!(reflection.unwrap_err().code(), Code::PermissionDenied);
}
