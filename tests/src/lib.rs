//! What the end-to-end tests share: one sandbox per run with our resource definitions in it, a namespace of their own per
//! test, and waiting on conditions instead of sleeping.

mod eventually;
mod kubectl;
mod namespace;
mod shared;

pub use eventually::eventually;
pub use kubectl::kubectl;
pub use namespace::namespace;
pub use shared::{repository, shared};
