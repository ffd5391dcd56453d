//! Decisions on reviews as the API server sends them, and on invalid ones.

mod dispatch;
mod fixture;
mod hostile;
mod karpenter;
mod limit_modes;
mod node_groups;
mod recorded;
mod refused_boosts;
mod selection;
mod validation;
mod whole_pods;
