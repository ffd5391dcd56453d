//! From what a program uses to the size of its container.

use std::ops::RangeInclusive;

use anyhow::{Result, ensure};
use e2e::eventually;
use serde_json::json;

use super::fixture::{Amount, Fixture, container, or_skip};

const MIB: i64 = 1 << 20;
/// Memory that the program holds, and CPU that it uses.
const HELD: Amount = Amount {
    cpu: 200,
    memory: 300 * MIB,
};

/// The measured usage of a program that says it uses `held`, on a machine that is not too busy.
///
/// Memory: code, stacks and page tables of a program of some MiB come on top, and huge pages round
/// up. CPU: probes come on top; on a busy machine a period of 100 ms may end before the program had
/// its part of it.
fn measured(held: Amount) -> [RangeInclusive<i64>; 2] {
    [
        held.cpu * 85 / 100..=held.cpu * 115 / 100,
        held.memory..=held.memory + 24 * MIB,
    ]
}

/// The least and the largest usage of CPU and memory: what is expected, and on a busy machine also what
/// metrics-server has reported.
#[derive(Debug)]
struct Seen([RangeInclusive<i64>; 2]);

impl Seen {
    fn add(&mut self, usage: Amount) {
        for (range, amount) in self.0.iter_mut().zip([usage.cpu, usage.memory]) {
            *range = amount.min(*range.start())..=amount.max(*range.end());
        }
    }
}

/// The target for usage within these bounds: the end of the histogram's bucket and a margin of 15 %.
///
/// A bucket begins at `first * (1.05^n - 1) / 0.05` and is `first * 1.05^n` long, which is the
/// length of the first bucket and 5 % of its begin. First buckets: 10 millicores, 10 MB.
fn target(usage: &RangeInclusive<i64>, first_bucket: i64) -> RangeInclusive<i64> {
    let largest_end = usage.end() * 105 / 100 + first_bucket;
    usage.start() * 115 / 100..=largest_end * 115 / 100
}

#[tokio::test]
async fn a_container_has_the_size_of_its_measured_usage() -> Result<()> {
    let cluster = or_skip!(Fixture::new("size"));
    // Two pods, the updater's least number of replicas. Below the lower bounds of a short history, so that the updater
    // acts on a young pod.
    let resources = json!({"requests": {"cpu": "10m", "memory": "10Mi"}});
    let flags = ["--memory-mib=300", "--cpu-millicores=200"];
    let pod = json!({"containers": [container("app", &flags, &resources)]});
    cluster.deploy("steady", 2, &pod).await?;
    let policy = json!({"containerName": "*"});
    cluster
        .autoscale("steady", "InPlaceOrRecreate", policy)
        .await?;
    let [cpu, memory] = measured(HELD);
    let first = cluster.pod("steady").await?;
    eventually("metrics-server agrees with the program", async || {
        let usage = cluster.usage(&first).await?;
        ensure!(
            cpu.contains(&usage.cpu) && memory.contains(&usage.memory),
            "{usage:?} is not {cpu:?} and {memory:?}"
        );
        Ok(())
    })
    .await?;
    let mut seen = Seen([cpu, memory]);
    eventually("the container has the size of its usage", async || {
        for pod in cluster.pods_of("steady").await? {
            seen.add(cluster.usage(&pod).await?);
        }
        let [cpu, memory] = &seen.0;
        let (cpu, memory) = (target(cpu, 10), target(memory, 10_000_000));
        let pod = cluster.pod("steady").await?;
        // The target may have changed by a sample since the resize.
        for size in [
            cluster.recommended("steady", "target").await?,
            Amount::in_effect(&pod)?,
        ] {
            ensure!(
                cpu.contains(&size.cpu) && memory.contains(&size.memory),
                "{size:?} is not within {cpu:?} and {memory:?}"
            );
        }
        ensure!(
            pod.metadata.uid == first.metadata.uid,
            "the pod is another one"
        );
        Ok(())
    })
    .await
}
