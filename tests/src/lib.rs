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
mod objects;
mod oom_kill;
mod pod;
pub mod process;
pub mod remote_write;
mod turns;
mod watching;

pub use self::eventually::{PATIENCE, eventually, eventually_within};
pub use address::free_address;
pub use asking::{Asked, while_asked};
pub use authority::{Authority, Issued};
pub use certificates::{FEED_SERVER, feed_certificates};
pub use control_plane::{
    another, another_with_prometheus, is_established, program, repository, shared,
};
pub use following::{Follow, follow};
pub use kubectl::{apply, apply_with, kubectl, kubectl_in};
pub use namespace::{admits_pods, namespace};
pub use objects::{
    Namespace, condition, create, dry_run, is_true, object_of, patch, requests, target, usage,
    with, workload,
};
pub use oom_kill::oom_kill;
pub use pod::{container, is_available, is_ready, process_of, requests_in_effect, signal};
pub use rustix::process::Signal;
pub use turns::{Turn, Turns};
pub use watching::Watching;
