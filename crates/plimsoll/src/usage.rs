//! Recorded usage of containers.

mod cluster;
mod parquet;
mod rows;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use model::{Cpu, Memory, Quantity, ResourceList, ResourceName};
use replay::{Resource, Series};
use serde::{Deserialize, Serialize};

use crate::cluster::{ClusterArgs, ContextArgs};
use crate::failure::Failure;
use cluster::PrometheusArgs;
pub(crate) use cluster::{ConnectionArgs, Inventory, read_sums, read_workload};
pub(crate) use replay::MIB;
use rows::Rows;
pub(crate) use view::Resources;

/// Bundled sample: two weeks of four machines of the Server Machine Dataset (see NOTICE), as if
/// they were workloads.
const SAMPLE: &str = include_str!("../data/sample.csv");
/// Of all containers, about 2 GiB.
const MAX_SAMPLES: usize = 60_000_000;
const MAX_PODS: usize = 200_000;
const MAX_SLOTS: i64 = 366 * 24 * 60;

#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// CSV or Parquet files with the columns `time`, `workload`, `cpu` and `memory`; optional ones are
    /// `namespace`, `container`, `pod`, `cpu_request`, `memory_request`, `cpu_limit` and
    /// `memory_limit`.
    #[arg(value_name = "FILE", conflicts_with_all = ["sample", "prometheus_address", "prometheus_service"])]
    pub(crate) files: Vec<PathBuf>,
    /// Use the bundled sample: two weeks of four workloads.
    #[arg(long, conflicts_with_all = ["prometheus_address", "prometheus_service"])]
    pub(crate) sample: bool,
    /// Only containers of this namespace; may be repeated.
    #[arg(short, long = "namespace", value_name = "NAMESPACE")]
    pub(crate) namespaces: Vec<String>,
    #[command(flatten)]
    pub(crate) prometheus: PrometheusArgs,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ContainerId {
    /// Namespace; empty if the source has none.
    pub(crate) namespace: String,
    /// Kind and name, such as `deployment/web`.
    pub(crate) workload: String,
    pub(crate) container: String,
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.workload)?;
        if !self.container.is_empty() {
            write!(f, " ({})", self.container)?;
        }
        Ok(())
    }
}

impl ContainerId {
    pub(crate) fn new(
        namespace: impl Into<String>,
        workload: impl Into<String>,
        container: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            workload: workload.into(),
            container: container.into(),
        }
    }

    pub(crate) fn pod(&self) -> (&str, &str) {
        (&self.namespace, &self.workload)
    }
}

/// Time in seconds since 1970, and usage in millicores or MiB.
pub(crate) type Samples = Vec<(i64, f64)>;

/// Usage of one pod's container, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PodUsage {
    pub(crate) cpu: Samples,
    pub(crate) memory: Samples,
    /// Whether the pod has finished or is gone.
    pub(crate) has_ended: bool,
}

/// Names of the HPAs that scale a workload by its utilization: usage relative to requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScaledBy {
    pub(crate) cpu: Option<String>,
    pub(crate) memory: Option<String>,
}

/// Usage of a container over all pods of its workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ContainerUsage {
    pub(crate) id: ContainerId,
    pub(crate) requests: Resources,
    pub(crate) limits: Resources,
    /// HPAs whose utilization a change of the requests would move.
    pub(crate) scaled_by: ScaledBy,
    /// The bound of the program's heap in words, where the container shows one.
    pub(crate) heap: Option<String>,
    /// Pods, in the order of their names.
    pub(crate) pods: Vec<PodUsage>,
}

/// An amount in millicores or MiB.
pub(crate) fn amount_of(resources: Resources, resource: Resource) -> Option<f64> {
    match resource {
        Resource::Cpu => resources.cpu.map(|cpu| cpu.millicores() as f64),
        Resource::Memory => resources.memory.map(|memory| memory.bytes() as f64 / MIB),
    }
}

pub(crate) fn resource_list(resources: Resources) -> ResourceList {
    let cpu = resources.cpu.map(|cpu| (ResourceName::Cpu, cpu.into()));
    let memory = resources.memory.map(|it| (ResourceName::Memory, it.into()));
    cpu.into_iter().chain(memory).collect()
}

/// A quantity in millicores or MiB.
pub(crate) fn amount(text: &str, resource: Resource) -> Option<f64> {
    let quantity: Quantity = text.parse().ok()?;
    Some(match resource {
        Resource::Cpu => Cpu::from(&quantity).millicores() as f64,
        Resource::Memory => Memory::from(&quantity).bytes() as f64 / MIB,
    })
}

impl PodUsage {
    pub(crate) fn of(&self, resource: Resource) -> &Samples {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
        }
    }

    fn samples(&self) -> impl Iterator<Item = &(i64, f64)> {
        self.cpu.iter().chain(&self.memory)
    }
}

impl ContainerUsage {
    /// First and last time; `None` without samples.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let times = || self.pods.iter().flat_map(PodUsage::samples).map(|it| it.0);
        Some((times().min()?, times().max()?))
    }

    /// Number of pods with samples in the last hour of the recording.
    pub(crate) fn present_pods(&self) -> usize {
        let Some((_, end)) = self.span() else {
            return 0;
        };
        let is_present = |pod: &&PodUsage| pod.samples().any(|(time, _)| *time > end - 3600);
        self.pods.iter().filter(is_present).count()
    }

    /// Number of pods at a time, on average over `seconds`.
    pub(crate) fn mean_pods(&self, seconds: i64) -> f64 {
        let running = self.pods.iter().filter_map(|pod| {
            let times = || pod.samples().map(|it| it.0);
            Some(times().max()? - times().min()?)
        });
        // The first and the last sample lie within the run, half a distance of samples from its ends.
        let ends = self.pods.len() as i64 * self.distance();
        (running.sum::<i64>() + ends) as f64 / (seconds + self.distance()) as f64
    }

    fn distance(&self) -> i64 {
        let samples = self.pods.iter().flat_map(|pod| [&pod.cpu, &pod.memory]);
        least_distance(samples)
    }

    /// Usage of each pod in slots, which are as long as the least distance of samples. Without a
    /// request, the largest usage of all pods counts as the request.
    pub(crate) fn series(&self, resource: Resource) -> Vec<Series> {
        let samples = |pod| PodUsage::of(pod, resource);
        let length = self.span().map_or(0, |(start, end)| end - start);
        let step = least_distance(self.pods.iter().map(samples)).max(length / MAX_SLOTS);
        let pods = self.pods.iter();
        let series =
            pods.filter_map(|pod| Series::from_samples(step, samples(pod).iter().copied()));
        let mut series: Vec<Series> = series.collect();
        let peak = series.iter().map(Series::peak).fold(0.0, f64::max);
        for pod in &mut series {
            pod.provisioned = amount_of(self.requests, resource).unwrap_or(peak);
        }
        series
    }
}

/// Least distance of two samples in seconds; five minutes without two samples.
fn least_distance<'a>(samples: impl Iterator<Item = &'a Samples>) -> i64 {
    let pairs = samples.flat_map(|samples| samples.windows(2));
    let distances = pairs.map(|pair| pair[1].0 - pair[0].0);
    distances.filter(|step| *step > 0).min().unwrap_or(300)
}

impl SourceArgs {
    pub(crate) fn is_cluster(&self) -> bool {
        self.files.is_empty() && !self.sample
    }

    /// The source in words, without folders and addresses.
    pub(crate) fn name(&self) -> String {
        let names = self.files.iter().filter_map(|file| file.file_name());
        match (self.sample, self.files.is_empty()) {
            (true, _) => "the bundled sample".to_owned(),
            (false, true) => "Prometheus".to_owned(),
            _ => names
                .map(|it| it.to_string_lossy())
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// The same source of another cluster.
    pub(crate) fn within(&self, cluster: &ClusterArgs) -> Self {
        let mut source = self.clone();
        source.prometheus.cluster = cluster.clone();
        source
    }

    /// Refuses sources that are the same for all clusters.
    pub(crate) fn allow(&self, contexts: &ContextArgs) -> anyhow::Result<()> {
        let message = if !contexts.are_set() {
            return Ok(());
        } else if !self.is_cluster() {
            "--contexts and --all-contexts read clusters: leave out the files and --sample"
        } else if self.prometheus.connection.prometheus_address.is_some() {
            "--contexts and --all-contexts read the Prometheus of each cluster: leave out \
             --prometheus-address, whose store would be the one of all"
        } else {
            return Ok(());
        };
        Err(Failure::Usage(message.to_owned()).into())
    }
}

/// Reads the usage that the flags name, in the order of the containers.
pub(crate) fn read(source: &SourceArgs) -> anyhow::Result<Vec<ContainerUsage>> {
    let namespaces = &source.namespaces;
    if source.is_cluster() {
        return cluster::read(&source.prometheus, namespaces);
    }
    let mut rows = Rows::default();
    if source.sample {
        rows.read_csv(SAMPLE.as_bytes())?;
    }
    for file in &source.files {
        rows.read_file(file)?;
    }
    let mut usage = rows.finish();
    if !namespaces.is_empty() {
        usage.retain(|usage| namespaces.contains(&usage.id.namespace));
    }
    Ok(usage)
}

fn check_size(samples: usize, pods: usize) -> anyhow::Result<()> {
    ensure!(
        samples <= MAX_SAMPLES,
        "more than {MAX_SAMPLES} samples: use fewer workloads, or a longer interval between samples"
    );
    ensure!(
        pods <= MAX_PODS,
        "more than {MAX_PODS} pods: use fewer workloads"
    );
    Ok(())
}
