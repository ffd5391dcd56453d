//! CPU and memory in the cgroups of pods and containers: what the kernel applies, whatever the API
//! server has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use e2e::{container, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::fixture::Fixture;

const ROOT: &str = "/sys/fs/cgroup";
const CLASSES: [&str; 3] = [".", "burstable", "besteffort"];
/// Period of CPU limits that the kubelet sets.
const PERIOD_US: u64 = 100_000;

/// CPU and memory of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The CPU request: `cpu.shares` of cgroup v1. Where cgroup v2 has a weight, 0.
    cpu_shares: u64,
    /// The CPU limit in millicores; 0 without one.
    cpu_limit: u64,
    /// The memory limit; 0 without one.
    memory_limit_mib: u64,
}

impl Applied {
    /// Of a CPU request and limit in millicores, and a memory limit; 0 for no limit.
    pub(crate) fn of(cpu_request: u64, cpu_limit: u64, memory_limit_mib: u64) -> Self {
        let has_shares = Path::new(ROOT).join("cpu").exists();
        Self {
            cpu_shares: u64::from(has_shares) * (cpu_request * 1024 / 1000).max(2),
            cpu_limit,
            memory_limit_mib,
        }
    }

    pub(crate) fn memory_limit_mib(self) -> u64 {
        self.memory_limit_mib
    }

    fn read(cgroup: &Path) -> Result<Self> {
        if Path::new(ROOT).join("memory").exists() {
            let cpu = Path::new(ROOT).join("cpu").join(cgroup);
            let memory = Path::new(ROOT).join("memory").join(cgroup);
            let quota_us = read(&cpu, "cpu.cfs_quota_us")?;
            let limit = read(&memory, "memory.limit_in_bytes")?;
            return Ok(Self {
                cpu_shares: read(&cpu, "cpu.shares")?.parse()?,
                cpu_limit: millicores(&quota_us),
                memory_limit_mib: mib(&limit),
            });
        }
        let cgroup = Path::new(ROOT).join(cgroup);
        let quota_and_period = read(&cgroup, "cpu.max")?;
        Ok(Self {
            cpu_shares: 0,
            cpu_limit: millicores(quota_and_period.split(' ').next().unwrap_or_default()),
            memory_limit_mib: mib(&read(&cgroup, "memory.max")?),
        })
    }
}

/// CPU and memory of a pod's own cgroup.
pub(crate) fn of_pod(cluster: &Fixture, pod: &Pod) -> Result<Applied> {
    Applied::read(&path(cluster, pod)?)
}

/// Waits until the cgroups of the pod and of its only container have this CPU and memory.
pub(crate) async fn have(cluster: &Fixture, pod: &Pod, expected: Applied) -> Result<()> {
    let what = format!("the cgroups of {} have {expected:?}", pod.name_any());
    eventually(&what, async || {
        let pod = cluster.typed::<Pod>().get(&pod.name_any()).await?;
        check(cluster, &pod, expected)
    })
    .await
}

/// Waits until this holds for all pods of an app, whichever these are.
pub(crate) async fn all_have(cluster: &Fixture, app: &str, expected: Applied) -> Result<()> {
    let what = format!("the cgroups of all pods of {app} have {expected:?}");
    eventually(&what, async || {
        let pods = cluster.pods_of(app).await?;
        ensure!(!pods.is_empty(), "{app} has no pods");
        pods.iter()
            .try_for_each(|pod| check(cluster, pod, expected))
    })
    .await
}

/// An error unless the cgroups of the pod and of its only container have this CPU and memory.
pub(crate) fn check(cluster: &Fixture, pod: &Pod, expected: Applied) -> Result<()> {
    let cgroup = path(cluster, pod)?;
    let of_container = cgroup.join(container_id(pod)?);
    let found = [Applied::read(&cgroup)?, Applied::read(&of_container)?];
    ensure!(found == [expected; 2], "{found:?} {:?}", pod.status);
    Ok(())
}

/// Numbers of CPU periods of the pod's only container, and of those in which it was throttled.
pub(crate) fn cpu_periods(cluster: &Fixture, pod: &Pod) -> Result<[u64; 2]> {
    let cgroup = path(cluster, pod)?.join(container_id(pod)?);
    let root = Path::new(ROOT);
    let hierarchy = root.join("cpu");
    let root = if hierarchy.exists() {
        &*hierarchy
    } else {
        root
    };
    let text = read(&root.join(cgroup), "cpu.stat")?;
    let number = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(known, _)| *known == name);
        Ok::<u64, anyhow::Error>(found.with_context(|| text.clone())?.1.parse()?)
    };
    Ok([number("nr_periods")?, number("nr_throttled")?])
}

/// Identifier of the first container's present run.
pub(crate) fn container_id(pod: &Pod) -> Result<String> {
    let id = container(pod).and_then(|status| status.container_id.as_deref());
    let id = id.and_then(|id| id.strip_prefix("containerd://"));
    Ok(id.context("the container has not started")?.to_owned())
}

/// Path of a pod's cgroup below the root of each hierarchy.
fn path(cluster: &Fixture, pod: &Pod) -> Result<PathBuf> {
    let kubepods = format!("kubepods-sandbox-{}/kubepods", cluster.sandbox().name());
    let name = format!("pod{}", pod.uid().context("a pod has a UID")?);
    let mut paths = CLASSES
        .map(|class| Path::new(&kubepods).join(class).join(&name))
        .into_iter();
    let exists = |path: &PathBuf| {
        let of = |hierarchy: &str| Path::new(ROOT).join(hierarchy).join(path).exists();
        of("memory") || of(".")
    };
    paths.find(exists).context("the pod has no cgroup")
}

fn read(cgroup: &Path, file: &str) -> Result<String> {
    let path = cgroup.join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// A quota of CPU time per period; `-1` and `max` are no limit.
fn millicores(quota_us: &str) -> u64 {
    quota_us.parse::<u64>().unwrap_or(0) * 1000 / PERIOD_US
}

/// A memory limit; `max` and the largest number of pages are no limit.
fn mib(bytes: &str) -> u64 {
    let bytes = bytes.parse::<u64>().unwrap_or(0);
    if bytes > 1 << 60 { 0 } else { bytes >> 20 }
}
