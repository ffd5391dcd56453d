//! The suite on a real node: a kubelet, containerd and containers that use CPU and memory for real. An
//! act counts here when its effect is seen in the container.

mod fixture;
mod heal_times;
mod installation;
mod lifecycle;
mod oom_heal;
