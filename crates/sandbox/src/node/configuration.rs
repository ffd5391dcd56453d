//! Configuration files of containerd, of the pod network and of the kubelet.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    ADDRESS, CONTAINERD_SOCKET, KUBELET_PORT, NAME_SERVER, PAUSE_IMAGE, POD_RANGE, cgroups,
    requirements,
};
use crate::certificates::identity;
use crate::layout::Layout;

/// Memory of the node that pods can have; the rest of the machine's is reserved, so that pods of a
/// test fill the node before they fill the machine.
const ALLOCATABLE_MIB: u64 = 6 * 1024;

pub(crate) fn write(layout: &Layout, programs: &Path) -> Result<()> {
    let node = layout.node();
    let networks = node.join("networks");
    fs::create_dir_all(&networks).context("create a folder for the pod network")?;
    let files = [
        (node.join("containerd.toml"), containerd(&node, programs)?),
        (networks.join("pods.conflist"), network(&node).to_string()),
        // The node has no name server.
        (node.join("resolv.conf"), String::new()),
        (
            node.join("kubelet.yaml"),
            serde_yaml_ng::to_string(&kubelet(layout)?).context("render a configuration file")?,
        ),
    ];
    for (path, text) in files {
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn containerd(node: &Path, programs: &Path) -> Result<String> {
    let runc = requirements::find("runc").context("program runc is not in PATH")?;
    let (node, runc, programs) = (node.display(), runc.display(), programs.display());
    Ok(format!(
        "version = 3
root = '{node}/containerd'
state = '/run/containerd/state'
[grpc]
address = '{CONTAINERD_SOCKET}'
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{PAUSE_IMAGE}'
[plugins.'io.containerd.cri.v1.runtime']
# Root without CAP_SYS_RESOURCE cannot lower oom_score_adj, and runc would fail.
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = '{runc}'
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{programs}']
conf_dir = '{node}/networks'
"
    ))
}

fn network(node: &Path) -> Value {
    let addresses = json!({
        "type": "host-local",
        "ranges": [[{"subnet": POD_RANGE}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": node.join("addresses"),
    });
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn kubelet(layout: &Layout) -> Result<Value> {
    let certificates = layout.certificates();
    let serving = identity(&certificates, "kubelet");
    let node = layout.node();
    Ok(json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "port": KUBELET_PORT,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "tlsCertFile": serving.certificate,
        "tlsPrivateKeyFile": serving.key,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": identity(&certificates, "ca").certificate},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", cgroups::name(layout.name())),
        "enforceNodeAllocatable": ["pods"],
        "systemReserved": {"memory": format!("{}Mi", reserved_mib()?)},
        // The kubelet starts on machines with cgroup v1, which newer ones refuse by default.
        "failCgroupV1": false,
        "failSwapOn": false,
        "resolvConf": node.join("resolv.conf"),
        "clusterDNS": [NAME_SERVER],
        "clusterDomain": "cluster.local",
        // They stay with the other logs when a run fails.
        "podLogsDir": layout.logs().join("pods"),
        // The disk is the machine's: a share of a large one would be more than the node needs.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "200Mi", "imagefs.available": "200Mi"},
        // The node admits pods without requests soon after a test of memory pressure.
        "evictionPressureTransitionPeriod": "5s",
        "maxPods": 250,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }))
}

fn reserved_mib() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    let total_kib: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .context("/proc/meminfo has no MemTotal")?;
    Ok((total_kib / 1024).saturating_sub(ALLOCATABLE_MIB))
}
