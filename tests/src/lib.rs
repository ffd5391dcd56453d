//! What the end-to-end tests share: one sandbox per run with our resource definitions in it, a namespace of their own per
//! test, and waiting on conditions instead of sleeping.

mod certificates;
mod control_plane;
pub mod deployed;
mod eventually;
mod kubectl;
pub mod load;
mod namespace;

pub use certificates::{FEED_SERVER, feed_certificates};
pub use control_plane::{another, another_with_prometheus, program, repository, shared};
pub use eventually::eventually;
pub use kubectl::{kubectl, kubectl_in};
pub use namespace::namespace;
