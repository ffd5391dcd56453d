//! The chassis of every program: flags, logs, metrics and health, the API client, orderly shutdown,
//! leadership, TLS.
//!
//! A program's `main` says who it is and hands over its work:
//!
//! ```no_run
//! use clap::Parser;
//! use runtime::{Chassis, CommonArgs, Program};
//!
//! #[derive(Parser)]
//! struct Args {
//!     #[command(flatten)]
//!     common: CommonArgs,
//! }
//!
//! const PROGRAM: Program =
//!     Program { name: "example", version: env!("CARGO_PKG_VERSION"), defaults: &[("address", ":8942")] };
//!
//! fn main() -> std::process::ExitCode {
//!     let Args { common } = PROGRAM.parse();
//!     PROGRAM.run(&common, work)
//! }
//!
//! async fn work(chassis: Chassis) -> anyhow::Result<()> {
//!     let started = chassis.readiness.condition("started");
//!     started.ready();
//!     chassis.shutdown.cancelled().await;
//!     Ok(())
//! }
//! ```
//!
//! Nothing of ours is below this crate, and nothing about sizing or scaling is in it.

pub mod address;
pub mod args;
pub mod certificates;
pub mod chassis;
pub mod client;
pub mod clock;
pub mod duration;
mod election;
pub mod endpoints;
pub mod feed_reader;
pub mod flags;
pub mod follow;
pub mod gates;
pub mod health;
pub mod leading;
pub mod lease;
pub mod log;
pub mod namespaces;
pub mod no_effect;
pub mod port;
pub mod retry;
pub mod serve;
pub mod severity;
pub mod shutdown;
pub mod throttle;
pub mod tls;
pub mod upstream;

pub use address::ListenAddress;
pub use args::{CommonArgs, LeaderElectionArgs};
pub use chassis::Chassis;
pub use clock::ApiServerClock;
pub use duration::GoDuration;
pub use feed_reader::{FeedReaderArgs, FeedSource};
pub use flags::Program;
pub use follow::{follow_leader, follow_shards};
pub use gates::{FeatureGates, Gate, Stage};
pub use health::{Activity, Condition, Readiness};
pub use leading::{Announcement, Leading};
pub use namespaces::{NamespaceArgs, Namespaces};
pub use retry::Backoff;
pub use shutdown::Tasks;
