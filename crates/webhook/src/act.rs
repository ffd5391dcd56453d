//! The only writes, besides that of the certificates: the registration and the heartbeat. No pod is
//! ever written, and no VPA object.

pub mod configuration;
pub mod lease;
pub mod rollout;
