//! The webhook over real TLS on the loopback interface: certificates that are replaced under load
//! or do not fit, and clients that mean no good.

mod authority;
mod client;
mod client_certificate;
mod heartbeat;
mod hostile;
mod injected;
mod leaving;
mod loss;
mod objects;
mod rollout;
mod rotation;
mod running;
