//! The webhook over real TLS on the loopback interface: certificates that are replaced under load, and clients that mean no good.

mod client;
mod hostile;
mod objects;
mod rotation;
mod running;
