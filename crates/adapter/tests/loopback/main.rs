//! The adapter over real TLS on the loopback interface: authentication, authorization and routes.

mod api_server;
mod authentication;
mod authorization;
mod ca;
mod configuration;
mod connection_limits;
mod fixture;
mod followed_certificates;
mod keda;
mod operator;
mod provider;
mod routes;
mod shutdown;
