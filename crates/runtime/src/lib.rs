//! The common part of every program: flags, logs, metrics and health, the API client, orderly shutdown,
//! leadership.
//!
//! A program's `main` names the program and passes its work, as `examples/hello.rs` does.
//!
//! The server of the endpoints is an argument (`serve_endpoints` of the crate `serving`), so that TLS
//! and connection limits stay out of this crate. Of the workspace it depends on `model` only, and
//! nothing about sizing or scaling is in it.
//!
//! * `manager`: the life of a program; `shutdown`: its end; `health`, `http_endpoints`: `/readyz` and others
//! * `args`, `pflag`, `ignored_flags`, `feature_gates`, `namespaces`: flags as upstream's
//! * `address`, `duration`: values of flags; `config_file`: settings of `--config`; `log`: log lines
//! * `client`, `rate_limiter`, `retry`, `api_server_clock`: the client of the API server and its clock
//! * `controller`, `schedule`: reconcile loops and the times of their passes
//! * `leader_election`, `candidate`, `lease`, `leader_term`, `leader_tasks`: work for a term of leadership
//! * `leader_address`: addresses of leaders; `sharding`: shards by namespace; `hold`: pauses for other autoscalers
//! * `object_writer`, `own_pod`: writes and events in a program's name
//! * `metrics`: metrics

pub mod address;
pub mod api_server_clock;
pub mod args;
mod candidate;
pub mod client;
pub mod config_file;
pub mod controller;
pub mod duration;
pub mod feature_gates;
pub mod health;
pub mod hold;
pub mod http_endpoints;
pub mod ignored_flags;
pub mod leader_address;
pub mod leader_election;
mod leader_tasks;
pub mod leader_term;
pub mod lease;
pub mod log;
pub mod manager;
pub mod metrics;
pub mod namespaces;
pub mod object_writer;
pub mod own_pod;
pub mod pflag;
pub mod rate_limiter;
pub mod retry;
pub mod schedule;
pub mod sharding;
pub mod shutdown;

pub use address::ListenAddress;
pub use api_server_clock::ApiServerClock;
pub use args::{CommonArgs, LeaderElectionArgs, ResourceLock};
pub use controller::{Controller, Reconcile};
pub use duration::GoDuration;
pub use feature_gates::FeatureGates;
pub use health::{Activity, Condition, Readiness};
pub use hold::{Hold, HoldReasons, Holds, OtherAutoscalers};
pub use leader_address::{follow_leader, follow_shards};
pub use leader_election::Announcement;
pub use leader_tasks::LeaderTasks;
pub use leader_term::{Leading, NotLeading};
pub use log::{KlogArgs, LogOnce, Severity};
pub use manager::Manager;
pub use metrics::{StepLatency, Steps};
pub use namespaces::{NamespaceArgs, Namespaces};
pub use object_writer::{ObjectWriter, WriteOutcome};
pub use pflag::Program;
pub use retry::{Backoff, KeyedBackoff};
pub use schedule::{Pace, PassSchedule};
pub use shutdown::Tasks;
