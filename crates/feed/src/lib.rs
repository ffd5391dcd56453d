//! How services tell each other what they know: gRPC streams over mutual TLS, with the verbs
//! `reset`, `apply` and `delete`.
//!
//! The protocol is `proto/plimsoll/feed/v1/feed.proto`.
//!
//! * [`board`]: the state that is told, with a place in it for each reader. A reader costs the same
//!   memory however slow it is.
//! * [`publisher`]: the leader's side; what it tells, and for which term of leadership.
//! * [`server`]: the gRPC services on an open port.
//! * [`client`]: the reader's side; finds the leader, reconnects, keeps the last value and never
//!   goes back to an older one.
//! * [`recommendation`], [`forecast`], [`explanation`]: what is told, and how it looks in the
//!   protocol; [`topic`]: what sets the streams apart.
//!
//! There is no Kubernetes here: which address leads, and what is recommended, come from outside.

pub mod board;
pub mod client;
pub mod explanation;
pub mod forecast;
pub mod metrics;
pub mod proto;
pub mod publisher;
mod quantities;
pub mod recommendation;
pub mod server;
pub mod topic;

pub use client::{Following, Reader};
pub use explanation::{Explained, Question};
pub use forecast::{Forecast, ForecastSeries, MetricForecast};
pub use metrics::Metrics;
pub use publisher::{Publisher, Term};
pub use quantities::MessageError;
pub use recommendation::Recommendation;
pub use server::{AllowedClients, Server, ServerLimits};
pub use topic::Topic;
