//! Usage from CSV and Parquet files: one row per time and pod.
//!
//! The columns are in any order; others are ignored. The first row of CSV names them.
//!
//! | column | value |
//! |---|---|
//! | `time` | seconds since 1970, or RFC 3339 such as `2026-11-01T12:00:00Z`; in Parquet also a timestamp |
//! | `workload` | kind and name, such as `deployment/web` |
//! | `namespace`, `container`, `pod` | names; empty if the column is missing |
//! | `cpu` | used CPU as a quantity: cores (`0.25`) or millicores (`250m`); may be empty |
//! | `memory` | used memory as a quantity: bytes, or with a suffix (`812Mi`); may be empty |
//! | `cpu_request`, `memory_request`, `cpu_limit`, `memory_limit` | quantities; an empty cell keeps the value of the container's row before |

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, anyhow, ensure};
use csv::StringRecord;
use jiff::Timestamp;
use model::{Cpu, Memory, Quantity};

use super::{
    ContainerId, ContainerUsage, MIB, PodUsage, Resources, Samples, ScaledBy, check_size, parquet,
};

/// Seconds without a sample before the end of the recording after which a pod has ended.
const SILENCE: i64 = 600;

pub(super) const COLUMNS: [&str; 11] = [
    "time",
    "namespace",
    "workload",
    "container",
    "pod",
    "cpu",
    "memory",
    "cpu_request",
    "memory_request",
    "cpu_limit",
    "memory_limit",
];

#[derive(Default)]
pub(super) struct Rows {
    containers: BTreeMap<ContainerId, Container>,
    samples: usize,
    pods: usize,
}

#[derive(Default)]
struct Container {
    requests: Resources,
    limits: Resources,
    pods: BTreeMap<String, PodUsage>,
}

pub(super) struct Columns(HashMap<String, usize>);

impl Columns {
    pub(super) fn new(header: &StringRecord) -> anyhow::Result<Self> {
        let names = header.iter().map(|name| name.trim().to_lowercase());
        let columns = Self(names.zip(0..).collect());
        for name in ["time", "workload"] {
            ensure!(columns.0.contains_key(name), "there is no column {name:?}");
        }
        let has_usage = columns.0.contains_key("cpu") || columns.0.contains_key("memory");
        ensure!(has_usage, r#"there is neither a column "cpu" nor "memory""#);
        Ok(columns)
    }

    fn text<'a>(&self, row: &'a StringRecord, name: &str) -> &'a str {
        let cell = self.0.get(name).and_then(|place| row.get(*place));
        cell.unwrap_or_default().trim()
    }

    fn quantity(&self, row: &StringRecord, name: &str) -> anyhow::Result<Option<Quantity>> {
        let text = self.text(row, name);
        if text.is_empty() {
            return Ok(None);
        }
        let quantity: Quantity = text
            .parse()
            .map_err(|_| anyhow!("column {name:?}: {text:?} is not a quantity"))?;
        ensure!(
            !quantity.is_negative(),
            "column {name:?}: {text} is negative"
        );
        Ok(Some(quantity))
    }

    fn time(&self, row: &StringRecord) -> anyhow::Result<i64> {
        let text = self.text(row, "time");
        let seconds = text.parse().ok().or_else(|| {
            let time: Timestamp = text.parse().ok()?;
            Some(time.as_second())
        });
        seconds
            .filter(|seconds| Timestamp::from_second(*seconds).is_ok())
            .with_context(|| {
                format!("column \"time\": {text:?} is neither seconds since 1970 nor RFC 3339")
            })
    }
}

impl Rows {
    pub(super) fn read_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let unreadable = || format!("cannot read {}", path.display());
        let mut file = File::open(path).with_context(unreadable)?;
        let mut start = Vec::new();
        let read = Read::by_ref(&mut file).take(4).read_to_end(&mut start);
        read.with_context(unreadable)?;
        let read = if start == parquet::MAGIC {
            parquet::read(file, self)
        } else {
            self.read_csv(start.as_slice().chain(file))
        };
        read.with_context(|| path.display().to_string())
    }

    pub(super) fn read_csv(&mut self, text: impl Read) -> anyhow::Result<()> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
        let header = reader.headers().context("line 1")?;
        let columns = Columns::new(header).context("line 1")?;
        let mut row = StringRecord::new();
        while reader.read_record(&mut row)? {
            let line = row.position().map_or(0, csv::Position::line);
            self.add(&columns, &row)
                .with_context(|| format!("line {line}"))?;
        }
        Ok(())
    }

    pub(super) fn add(&mut self, columns: &Columns, row: &StringRecord) -> anyhow::Result<()> {
        let text = |name| columns.text(row, name);
        let quantity = |name| columns.quantity(row, name);
        let time = columns.time(row)?;
        let id = ContainerId::new(text("namespace"), text("workload"), text("container"));
        ensure!(!id.workload.is_empty(), "column \"workload\" is empty");
        let container = self.containers.entry(id).or_default();
        for (kept, cpu, memory) in [
            (&mut container.requests, "cpu_request", "memory_request"),
            (&mut container.limits, "cpu_limit", "memory_limit"),
        ] {
            kept.cpu = quantity(cpu)?.as_ref().map(Cpu::from).or(kept.cpu);
            kept.memory = quantity(memory)?.as_ref().map(Memory::from).or(kept.memory);
        }
        let count = container.pods.len();
        let pod = container.pods.entry(text("pod").to_owned()).or_default();
        if let Some(cpu) = quantity("cpu")? {
            pod.cpu.push((time, cpu.to_f64() * 1000.0));
            self.samples += 1;
        }
        if let Some(memory) = quantity("memory")? {
            pod.memory.push((time, memory.to_f64() / MIB));
            self.samples += 1;
        }
        self.pods += container.pods.len() - count;
        check_size(self.samples, self.pods)
    }

    /// The containers in order. Of several samples of a pod at one time the last one counts. A pod
    /// without a sample at the end of the recording has ended.
    pub(super) fn finish(self) -> Vec<ContainerUsage> {
        let pods = self.containers.values().flat_map(|it| it.pods.values());
        let end = pods.flat_map(PodUsage::samples).map(|it| it.0).max();
        let silent_since = end.unwrap_or_default().saturating_sub(SILENCE);
        let containers = self.containers.into_iter().map(|(id, container)| {
            let pods = container.pods.into_values().map(|mut pod| {
                sort(&mut pod.cpu);
                sort(&mut pod.memory);
                let last = pod.samples().map(|it| it.0).max();
                pod.has_ended = last.is_none_or(|last| last < silent_since);
                pod
            });
            ContainerUsage {
                id,
                requests: container.requests,
                limits: container.limits,
                scaled_by: ScaledBy::default(),
                heap: None,
                pods: pods.collect(),
            }
        });
        containers.collect()
    }
}

fn sort(samples: &mut Samples) {
    samples.sort_by_key(|(time, _)| *time);
    samples.reverse();
    samples.dedup_by_key(|(time, _)| *time);
    samples.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<Vec<ContainerUsage>> {
        let mut rows = Rows::default();
        rows.read_csv(text.as_bytes())?;
        Ok(rows.finish())
    }

    #[test]
    fn rows_belong_to_pods_of_containers() {
        let text = "pod,cpu,time,workload,memory,cpu_request,note\n\
            a,250m,1970-01-01T00:05:00Z,deployment/web,512Mi,1,x\n\
            b,,300,deployment/web,1Gi,,\n\
            a,0.5,0,deployment/web,\n\
            a,1,0,deployment/web,\n";
        let containers = read(text).expect("containers");
        let [web] = containers.as_slice() else {
            panic!("{containers:?}");
        };
        assert_eq!(web.id.to_string(), "deployment/web");
        assert_eq!(web.requests.cpu, Some(Cpu::from_millicores(1000)));
        assert_eq!(web.pods[0].cpu, [(0, 1000.0), (300, 250.0)]);
        assert_eq!(web.pods[0].memory, [(300, 512.0)]);
        assert_eq!(web.pods[1].memory, [(300, 1024.0)]);
        assert_eq!(web.span(), Some((0, 300)));
    }

    #[test]
    fn pods_without_samples_at_the_end_have_ended() {
        let text = "time,workload,pod,cpu\n\
            0,job/a,first,1\n300,job/a,first,1\n600,job/b,last,1\n900,job/a,second,1\n1200,job/b,last,1\n";
        let containers = read(text).expect("containers");
        let ended = containers.iter().flat_map(|it| &it.pods);
        let ended: Vec<bool> = ended.map(|pod| pod.has_ended).collect();
        assert_eq!(ended, [true, false, false]);
    }

    #[test]
    fn other_texts_are_refused_with_line_and_column() {
        let check = |text: &str, expected: &str| {
            let error = read(text).expect_err("an error");
            assert_eq!(format!("{error:#}"), expected);
        };
        check("", "line 1: there is no column \"time\"");
        check("time,cpu\n", "line 1: there is no column \"workload\"");
        check(
            "time,workload\n",
            "line 1: there is neither a column \"cpu\" nor \"memory\"",
        );
        check(
            "time,workload,cpu\nsoon,a,1\n",
            "line 2: column \"time\": \"soon\" is neither seconds since 1970 nor RFC 3339",
        );
        check(
            "time,workload,cpu\n0,a,1\n0,a,much\n",
            "line 3: column \"cpu\": \"much\" is not a quantity",
        );
        check(
            "time,workload,cpu\n0,a,-1\n",
            "line 2: column \"cpu\": -1 is negative",
        );
        check(
            "time,workload,cpu\n0,,1\n",
            "line 2: column \"workload\" is empty",
        );
        check(
            "time,workload,cpu\n99999999999999999,a,1\n",
            "line 2: column \"time\": \"99999999999999999\" is neither seconds since 1970 nor RFC 3339",
        );
    }
}
