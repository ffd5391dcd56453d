//! How fast a kill for want of memory becomes a new target, and a pod with more memory, and that
//! none is lost. In a binary of its own, so that no other test runs at the same time.

mod before_start;
mod burst;
mod crowd;
mod fixture;
mod latency;
mod listening;
mod moved;
