//! The adapter over real TLS on the loopback interface: who is believed to be whom, what the API
//! server is asked about callers, and what is left to other providers.

mod access;
mod api_server;
mod authority;
mod configuration;
mod crowd;
mod files;
mod identity;
mod keda;
mod leaving;
mod operator;
mod provider;
mod providers;
mod stage;
mod surface;
