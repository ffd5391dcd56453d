//! The feed between the services: gRPC streams over mutual TLS, with the verbs `reset`, `apply` and
//! `delete`.
//!
//! The protocol is `proto/plimsoll/feed/v1/feed.proto`.
//!
//! * [`versioned_store`]: published values, with a cursor per reader. A reader's memory does not
//!   depend on its speed.
//! * [`publisher`]: the leader's side, by leader term.
//! * [`server`]: the gRPC server.
//! * [`client`]: the reader's side: finds the leader, reconnects, keeps the last value and never
//!   returns to an older one.
//! * [`application`]: reports of the updater.
//! * [`recommendation`], [`forecast`]: the values and their protocol messages;
//!   [`topic`]: the differences between the streams.
//!
//! No Kubernetes here: the caller provides the leader's address and the values.

pub mod application;
pub mod client;
pub mod forecast;
pub mod metrics;
pub mod proto;
pub mod publisher;
pub mod recommendation;
pub mod server;
pub mod topic;
pub mod versioned_store;

pub use application::ApplicationReport;
pub use client::{Reader, Subscription};
pub use forecast::{Forecast, ForecastSeries, MetricForecast};
pub use metrics::Metrics;
pub use publisher::{LeaderTerm, Publisher};
pub use recommendation::Recommendation;
pub use server::{AllowedClients, Server, ServerLimits};
pub use topic::Topic;
