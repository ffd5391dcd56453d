//! `TimeSeriesPrediction` objects: the reading of histories in every replica, so that a new leader
//! is warm, and the feed and status writes of the leader. The decisions are in
//! [`horizontal::predictions`].

pub(crate) mod collector;
pub(crate) mod controller;
mod fit_pool;
mod store;

pub(crate) use store::PredictionStore;
