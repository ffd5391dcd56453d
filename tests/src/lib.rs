//! What the end-to-end tests share: a namespace of their own per test, and waiting on conditions instead of sleeping.

mod eventually;
mod namespace;

pub use eventually::eventually;
pub use namespace::namespace;
