//! What the metrics of `TimeSeriesPrediction` objects will be: read from a history, forecast, told
//! on the feed and written into their status.
//!
//! * `job`: what an object asks for, and by which method; `crane`: Crane's settings as texts.
//! * `query`, `pods`: how a history is asked for; `access`: the series that it may be asked of.
//! * `model`: a history kept warm, and what follows from it; `study`: what of it takes long.
//! * `track`: one metric: what is read of its history and when, what was made of it.
//! * `outlook`: what is known of one object.
//! * `points`, `text`: bounds on what is kept and published.
//! * `status`: what an object says, and when it is written anew.
//! * `gather`: reads histories, in every replica, so that a new leader is warm; `rounds`: without
//!   Prometheus, from the source of usage.
//! * `keep`: publishes and writes, for one term of leadership.
//!
//! Source of names and rules: gocrane/crane `pkg/prediction` and
//! `pkg/controller/timeseriesprediction`.

mod access;
mod book;
mod crane;
pub(crate) mod gather;
mod job;
pub(crate) mod keep;
mod model;
mod outlook;
pub(crate) mod pods;
mod points;
mod query;
pub(crate) mod rounds;
mod status;
mod study;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod track;

pub(crate) use access::QueryAccess;
pub use access::{QueryScope, UnknownQueryScope};
pub(crate) use book::Book;
pub(crate) use job::Annotations;
