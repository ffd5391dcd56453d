//! A real Kubernetes control plane on one Linux machine, without a container engine: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler, KWOK as the kubelet of every node, metrics-server and, on demand, Prometheus, as processes on the loopback address.
//! They are built once from pinned Go modules; see [`Sandbox::up`].

mod args;
mod bring_up;
mod certificates;
mod command_line;
mod commands;
mod component;
mod control;
mod echo;
pub mod host;
mod kubeconfig;
mod kwok;
mod layout;
mod leash;
mod lock;
mod log_tail;
mod member;
mod members;
mod module;
mod objects;
mod plan;
mod play;
mod ports;
mod preparation;
mod process;
mod programs;
mod progress;
mod prometheus;
mod record;
mod sandbox;
mod shim;
mod start;
mod supervisor;
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
