//! The adapter over real TLS on the loopback interface: authentication, authorization and routes.

mod access;
mod api_server;
mod authority;
mod configuration;
mod crowd;
mod files;
mod fixture;
mod identity;
mod keda;
mod leaving;
mod operator;
mod provider;
mod providers;
mod server;
