//! Shared parts of the end-to-end tests: one sandbox per run with our resource definitions, a
//! namespace per test, and waiting for conditions instead of sleeping.

mod address;
mod api_server_proxy;
pub mod audit_logs;
mod availability;
pub mod benchmark;
mod browser;
mod cert_manager;
mod certificates;
mod command_line;
mod control_plane;
pub mod dashboard_client;
pub mod dashboards;
pub mod deployment;
mod eventually;
pub mod helm;
mod keda;
mod kubectl;
pub mod manifests;
mod migration;
mod namespace;
mod neighbours;
mod objects;
mod offset_clock;
mod oom_kill;
mod pod;
pub mod process;
pub mod process_usage;
mod prometheus;
mod prometheus_adapter;
mod real_node;
pub mod remote_write;
pub mod repository_files;
mod request_load;
mod resilient_watch;
pub mod scheduler;
mod test_ca;
mod turns;
mod upstream_vpa;
pub mod victoria_metrics;

pub use self::eventually::{PATIENCE, eventually, eventually_within, until, until_within};
pub use address::free_address;
pub use api_server_proxy::{ApiServerProxy, Link};
pub use availability::AvailabilityWatch;
pub use browser::{Browser, Key, PageReport, Scheme, Session};
pub use cert_manager::{WithCertManager, cert_manager_definitions};
pub use certificates::{FEED_SERVER, feed_reader, feed_tls};
pub use command_line::{SERVICES, plimsoll, plimsoll_json, plimsoll_prints, prints};
pub use control_plane::{
    another, another_hosting, another_with, another_with_prometheus, built, hosted_programs,
    is_established, kubernetes_minor, options_named, program, promtool, repository, shared,
};
pub use keda::install_keda;
pub use kubectl::{Kubectl, apply, apply_objects, apply_with, kubectl, kubectl_in};
pub use migration::{MigrationPlan, api_service_is_of};
pub use namespace::{admits_pods, namespace};
pub use neighbours::{MANIFEST_CHECKS, OPENAPI};
pub use objects::{
    Namespace, bare_pod, closed_window, condition, create, dry_run, get_json, is_true, message_of,
    object_of, patch, requests, target, usage, with, workload,
};
pub use offset_clock::{OffsetClock, OffsetClockLibrary};
pub use oom_kill::{oom_kill, oom_kills_of};
pub use pod::{
    container, is_available, is_ready, node_of, process_of, requested, requests_in_effect, signal,
};
pub use prometheus::Prometheus;
pub use prometheus_adapter::WithPrometheusAdapter;
pub use real_node::{
    LOAD_IMAGE, can_run_real_node, images_of_suite, install_prometheus, install_suite, load_image,
    real_node, real_node_options,
};
pub use request_load::{Asked, in_parallel, while_asked};
pub use resilient_watch::{Follow, follow};
pub use rustix::process::Signal;
pub use test_ca::{Authority, Issued};
pub use turns::{Turn, Turns};
pub use upstream_vpa::{WithUpstreamVpa, install_upstream_vpa, upstream_certificates};
