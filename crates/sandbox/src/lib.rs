//! A real Kubernetes control plane on one Linux machine, without a container engine: etcd,
//! kube-apiserver, kube-controller-manager, kube-scheduler, KWOK as the kubelet of every node,
//! metrics-server and, on request, Prometheus, as processes on the loopback address. They are built
//! once from pinned Go modules, or taken from a folder that `PLIMSOLL_CONTROL_PLANE` or
//! `KUBEBUILDER_ASSETS` names; see [`Sandbox::up`].
//!
//! Pods with an image `[REGISTRY/]plimsoll/PROGRAM[:TAG]` run as local processes ([`kubelet`]). All
//! others are simulated: they are ready at once, a resize is applied at once, and annotations of
//! the pod (or of its template) change their behaviour:
//!
//! | annotation | effect |
//! |---|---|
//! | `kwok.x-k8s.io/usage-cpu`, `kwok.x-k8s.io/usage-memory` | usage of each container, as a
//! quantity; default 1m and 1Mi |
//! | `sandbox.plimsoll.dev/start-after`: a duration | time until containers run, as of an image pull |
//! | `sandbox.plimsoll.dev/ready-after`: a duration | time from there until they are ready |
//! | `sandbox.plimsoll.dev/stop-after`: a duration | time from a deletion or an eviction until the pod is gone |
//! | `sandbox.plimsoll.dev/resize`: `Deferred`, `Infeasible` or `Error` | resizes are refused with that
//! reason while the annotation is set |
//! | `sandbox.plimsoll.dev/cpu-room`: a number of cores | resizes of the pod to more are `Deferred` |
//! | `sandbox.plimsoll.dev/oom-kills`: a number | containers are OOM-killed until their restart count is that number, whatever their size: as if resizes had no effect on the cgroup |
//! | `sandbox.plimsoll.dev/needs-memory`: a number of bytes | containers are OOM-killed while their limit is lower |
//! | `sandbox.plimsoll.dev/kill-after`: a duration | time from the start of a container until such a kill; default 0 |
//! | `sandbox.plimsoll.dev/crash-loop`: `true` | containers exit with code 1 again and again |
//! | `sandbox.plimsoll.dev/crash-after`: a duration | time until each exit; default 1s |
//! | `sandbox.plimsoll.dev/back-off`: a duration | delay before a restart; default as a kubelet
//! (10s, doubled up to 5m) |
//! | `sandbox.plimsoll.dev/container`: a name | only this container is killed or crashes; default
//! all |
//! | `sandbox.plimsoll.dev/keep-running`: anything | a Job's pod does not complete by itself |
//!
//! Durations are Go's, such as `500ms`.
//!
//! * `sandbox`, `args`, `commands`: the library and the command line
//! * `go_module`, `go_build`, `progress`, `prebuilt`, `programs`: programs of the control plane
//! * `kubernetes_version`, `component`, `component_commands`, `configuration_files`, `certificates`, `kubeconfig`,
//!   `kwok`, `initial_objects`: settings of the components
//! * `start_supervisor`, `startup_protocol`, `supervisor`, `control_socket`: the process above all
//! * `start_components`, `component_processes`, `component_process`, `exec_wrapper`, `process_id`: its children
//! * `layout`, `ports`, `state_file`, `take_down`: files, ports and the end
//! * `kubelet`: pods as local processes; `node`: pods as containers; `echo_server`: a pod to try out
//! * `replay`, `trace`: recorded usage as that of pods

mod args;
mod certificates;
mod client;
mod commands;
mod component;
mod component_commands;
mod component_process;
mod component_processes;
mod configuration_files;
mod control_socket;
mod echo_server;
mod exec_wrapper;
mod go_build;
mod go_module;
mod initial_objects;
mod kubeconfig;
mod kubelet;
mod kubernetes_version;
mod kwok;
mod layout;
mod node;
mod ports;
mod prebuilt;
mod process_id;
mod programs;
mod progress;
mod replay;
mod sandbox;
mod start_components;
mod start_supervisor;
mod startup_protocol;
mod state_file;
mod supervisor;
mod take_down;
mod trace;

pub use args::Args;
pub use component::Component;
pub use go_module::{CONTROL_PLANE, Module, PROMETHEUS, Program};
pub use kubernetes_version::KubernetesVersion;
pub use node::image_archive::{Content, Image};
pub use node::requirements::missing_for_real_node;
pub use ports::Ports;
pub use process_id::Process;
pub use programs::{ensure_built, image_archive, pause_program};
pub use replay::{Replay, Target};
pub use sandbox::Sandbox;
pub use startup_protocol::Options;
pub use state_file::{Phase, Record, Status};
pub use take_down::down;
pub use trace::{Trace, Usage};
