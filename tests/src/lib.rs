//! Shared parts of the end-to-end tests: one sandbox per run with our resource definitions, a
//! namespace per test, and waiting for conditions instead of sleeping.

mod address;
mod asking;
mod authority;
mod certificates;
mod control_plane;
pub mod deployed;
mod eventually;
mod following;
mod kubectl;
pub mod load;
pub mod measuring;
mod namespace;
mod oom_kill;
pub mod remote_write;
mod watching;

pub use self::eventually::eventually;
pub use address::free_address;
pub use asking::{Asked, while_asked};
pub use authority::{Authority, Issued};
pub use certificates::{FEED_SERVER, feed_certificates};
pub use control_plane::{
    another, another_with_prometheus, is_established, program, repository, shared,
};
pub use following::{Follow, follow};
pub use kubectl::{apply, kubectl, kubectl_in};
pub use namespace::{admits_pods, namespace};
pub use oom_kill::oom_kill;
pub use watching::Watching;
