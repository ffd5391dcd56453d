//! The suite on a real node: a kubelet, containerd and containers that use CPU and memory for real. An
//! act counts here when its effect is seen in the container.

mod cgroups;
mod chaos;
mod cost;
mod evictions;
mod failures;
mod fixture;
mod fleet;
mod heal_times;
mod horizontal;
mod in_place;
mod installation;
mod keda;
mod lifecycle;
mod oom_heal;
mod policy_waves;
mod pressure;
mod settled;
mod sizes;
mod throttling;
mod upstream_vpa;
mod waves;
mod whole_pods;
