//! A real Kubernetes control plane on one Linux machine, without a container engine: etcd,
//! kube-apiserver, kube-controller-manager, kube-scheduler, KWOK as the kubelet of every node,
//! metrics-server and, on request, Prometheus, as processes on the loopback address. They are built
//! once from pinned Go modules, or taken from a folder that `PLIMSOLL_CONTROL_PLANE` or
//! `KUBEBUILDER_ASSETS` names; see [`Sandbox::up`].
//!
//! Pods with an image `[REGISTRY/]plimsoll/PROGRAM[:TAG]` run as local processes ([`host`]). All
//! others are simulated: they are ready at once, a resize is applied at once, and annotations of
//! the pod (or of its template) change their behaviour:
//!
//! | annotation | effect |
//! |---|---|
//! | `kwok.x-k8s.io/usage-cpu`, `kwok.x-k8s.io/usage-memory` | usage of each container, as a
//! quantity; default 1m and 1Mi |
//! | `sandbox.plimsoll.dev/resize`: `Deferred` or `Infeasible` | resizes are refused with that
//! reason while the annotation is set |
//! | `sandbox.plimsoll.dev/oom-kills`: a number | containers are OOM-killed until their restart count is that number |
//! | `sandbox.plimsoll.dev/crash-loop`: `true` | containers exit with code 1 again and again |
//! | `sandbox.plimsoll.dev/crash-after`: a duration | time until each exit; default 1s |
//! | `sandbox.plimsoll.dev/back-off`: a duration | delay before a restart; default as a kubelet
//! (10s, doubled up to 5m) |
//! | `sandbox.plimsoll.dev/container`: a name | only this container is killed or crashes; default
//! all |
//! | `sandbox.plimsoll.dev/keep-running`: anything | a Job's pod does not complete by itself |
//!
//! Durations are Go's, such as `500ms`.

mod args;
mod bring_up;
mod certificates;
mod command_line;
mod commands;
mod component;
mod control;
mod echo;
mod exec_wrapper;
mod go_build;
pub mod host;
mod kubeconfig;
mod kwok;
mod layout;
mod lock;
mod log_tail;
mod managed_process;
mod managed_processes;
mod module;
mod objects;
mod parent_pipe;
mod play;
mod ports;
mod prebuilt;
mod preparation;
mod process;
mod programs;
mod progress;
mod prometheus;
mod record;
mod sandbox;
mod start;
mod supervisor;
mod supervisor_protocol;
mod take_down;
mod toolchain;
mod trace;

pub use args::Args;
pub use component::Component;
pub use play::{Play, Target};
pub use ports::Ports;
pub use process::Process;
pub use record::{Phase, Record, Status};
pub use sandbox::{Options, Sandbox};
pub use take_down::down;
pub use trace::{Columns, Trace, TraceError, Usage};
