//! Decisions on reviews as the API server sends them, and on invalid ones.

mod dispatch;
mod fixture;
mod hostile;
mod limit_modes;
mod node_groups;
mod odd_pods;
mod refused_boosts;
mod reverted;
mod selection;
mod validation;
