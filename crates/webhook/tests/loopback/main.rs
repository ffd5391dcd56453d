//! The webhook over TLS on the loopback interface: rotation under load, invalid certificates, and
//! hostile clients.

mod api_server;
mod ca;
mod client;
mod client_certificate;
mod external_certificate;
mod fixture;
mod heartbeat;
mod hostile;
mod lost_secret;
mod rollout;
mod rotation;
mod shutdown;
