//! The suite against a real control plane: one module per subject, one shared sandbox per run
//! (`e2e::shared`).

mod adapter;
mod building;
mod checkpoints;
mod crane_objects;
mod crds;
mod deploy;
mod history;
mod hosting;
mod lease;
mod lifecycle;
mod recommender;
mod stages;
mod updater;
mod webhook;
