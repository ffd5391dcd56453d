//! The load watcher between a fake API server, a fake Prometheus and clients of load-watcher.

mod fixture;
mod metrics_server;
mod prometheus;
mod rest_api;
