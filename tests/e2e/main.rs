//! The suite against a real control plane: one module per subject, one shared sandbox per run
//! (`e2e::shared`).

mod adapter;
mod applied;
mod backfill;
mod chart;
mod checkpoints;
mod cli_check;
mod cli_dashboard;
mod cli_explain;
mod cli_manifests;
mod cli_migrate;
mod cli_scan;
mod crane_objects;
mod crds;
mod deploy;
mod feed_certificates;
mod kwok_stages;
mod lease;
mod lifecycle;
mod local_pods;
mod node_groups;
mod placement;
mod recommender;
mod sandbox_build;
mod updater;
mod webhook;
