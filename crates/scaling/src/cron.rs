//! Cron windows: minimum replicas during recurring time windows with time zones.
//!
//! `schedule.rs` parses the five fields, `fields.rs` one of them, `occurrence.rs` finds the next
//! time in a time zone, `window.rs` decides whether a window is open, and `replicas.rs` combines
//! all windows of an object.

mod fields;
mod occurrence;
mod replicas;
mod schedule;
mod window;

pub use replicas::{CronReplicas, cron_replicas};
pub use schedule::Schedule;
pub use window::{Period, Window, WindowError, metric_name, time_zone};
