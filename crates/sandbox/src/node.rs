//! A real node of a sandbox: kubelet, containerd, runc and kube-proxy, next to the control plane and
//! in namespaces of the sandbox's own. Needs root.
//!
//! * The supervisor and all its children are in a new network namespace. The node's programs also
//!   have a PID namespace, whose first process ([`init`]) has a mount namespace for them. When that
//!   process ends, the kernel ends everything in the PID namespace, containers included, and with it go
//!   mounts, bridges, routes and rules. It is killed when the supervisor ends, so this holds after
//!   `kill -9` too.
//! * Only the cgroups are on the machine's own file system: below one folder per sandbox
//!   ([`cgroups`]). A process outside of the namespaces removes it at the end.
//! * Ports that clients on the machine use are listened to before the supervisor moves, and
//!   forwarded ([`namespaces`]).

pub(crate) mod cgroups;
pub(crate) mod configuration;
pub(crate) mod image_archive;
pub(crate) mod images;
pub(crate) mod init;
pub(crate) mod namespaces;
pub(crate) mod requirements;
mod shared_libraries;

pub(crate) const NAME: &str = "node-real";
/// Address of the node, of its kubelet, and of the API server for pods. Each sandbox has a network
/// namespace, so the same addresses serve all.
pub(crate) const ADDRESS: &str = "10.99.0.1";
pub(crate) const POD_RANGE: &str = "10.99.1.0/24";
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";
/// Address of the cluster's name server, if one is installed.
pub(crate) const NAME_SERVER: &str = "10.96.0.10";
/// containerd's socket, in the node's mount namespace.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// Image of the first container of each pod.
pub(crate) const PAUSE_IMAGE: &str = "localhost/plimsoll-sandbox/pause:1";
pub(crate) const KUBELET_PORT: u16 = 10250;
