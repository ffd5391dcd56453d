//! Rounds of a recommender that was just started, and their figures as a table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::print_row;
use e2e::deployment::{
    RECOMMENDER, Replica, deploy, leader, metric, process, replicas, scrape, sum_with,
};
use e2e::process_usage::{Measurement, resident};
use e2e::{eventually_within, kubectl_in, until};
use sandbox::Sandbox;
use tokio::time::Instant;

/// Rounds that are measured, and as many times all statuses were decided.
pub(crate) const ROUNDS: f64 = 3.0;
/// Rounds before them, of which the first ones have no usage yet.
const ROUNDS_BEFORE: f64 = 2.0;
const PATIENCE: Duration = Duration::from_mins(20);
/// The step that happens once per round, and the one that ends when the last status of a round is
/// written.
const LOAD: &str = "LoadMetrics";
const UPDATE: &str = "UpdateVPAs";
/// Step that runs outside the loop, at its own pace.
const OUTSIDE_LOOP: &str = "MaintainCheckpoints";
const LATENCY: &str = "vpa_recommender_execution_latency_seconds";
const PROGRAM: &str = "recommender";

/// Time for which the recommender knows the objects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Age {
    /// It has no checkpoint of them: the bounds change in each round.
    Young,
    /// It has checkpoints of some minutes, and the bounds narrow as if each second was a day.
    Settled,
}

impl Age {
    pub(crate) const ALL: [Self; 2] = [Self::Young, Self::Settled];

    fn folder(self) -> &'static str {
        match self {
            Self::Young => "tests/scale/young",
            Self::Settled => "tests/scale/settled",
        }
    }
}

impl fmt::Display for Age {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Young => "young",
            Self::Settled => "settled",
        })
    }
}

pub(crate) async fn measure(sandbox: &Sandbox, vpas: usize, age: Age) -> Result<Figures> {
    let client = sandbox.client().await?;
    kubectl_in(
        sandbox,
        "-n plimsoll-system delete deployment plimsoll-recommender --ignore-not-found",
    )
    .await?;
    until(
        "no recommender is left",
        async || anyhow::Ok(replicas(&client, RECOMMENDER).await?.len()),
        |left| *left == 0,
    )
    .await?;
    if matches!(age, Age::Young) {
        let all = "delete verticalpodautoscalercheckpoints --all --all-namespaces --wait=false";
        kubectl_in(sandbox, all).await?;
    }
    let started = Instant::now();
    deploy(sandbox, age.folder(), RECOMMENDER.labels).await?;
    let leader = leader(&client, RECOMMENDER).await?;
    eventually_within(PATIENCE, "every object has a recommendation", async || {
        let text = scrape(&leader).await?;
        let with = "has_recommendation=\"true\"";
        let count = sum_with(&text, "vpa_recommender_vpa_objects_count", with);
        ensure!(count as usize >= vpas, "{count} of {vpas} have one");
        Ok(())
    })
    .await?;
    let all = started.elapsed().as_secs_f64();
    let first = steps(&scrape(&leader).await?)?;
    let first = first.get(UPDATE).copied().unwrap_or_default();
    println!(
        "  {age} objects: all had a recommendation {all:.0} s after the deployment; {} rounds wrote statuses for {:.1} s",
        first.count, first.sum
    );
    rounds(&leader, &BTreeMap::new(), ROUNDS_BEFORE).await?;

    let process = process(&client, &leader).await?;
    let writes = async || -> Result<f64> {
        let statuses = metric(&leader, "vpa_recommender_status_writes_total").await?;
        Ok(statuses + metric(&leader, "vpa_recommender_checkpoint_writes_total").await?)
    };
    let processes = [(PROGRAM, process)];
    let measurement = Measurement::start(sandbox, &processes)?;
    let written_before = writes().await?;
    let before = steps(&scrape(&leader).await?)?;
    let after = rounds(&leader, &before, ROUNDS).await?;
    let took = measurement.seconds();
    let (used, written_after) = (measurement.used()?, writes().await?);

    let average = |(name, step): (&String, &Step)| {
        let earlier = before.get(name).copied().unwrap_or_default();
        let times = step.count - earlier.count;
        (times > 0.0).then(|| (name.clone(), (step.sum - earlier.sum) / times))
    };
    let steps: BTreeMap<_, _> = after.iter().filter_map(average).collect();
    let cores = used.into_iter().map(|(name, used)| (name, used / took));
    Ok(Figures {
        full_loop: steps
            .iter()
            .filter(|(name, _)| *name != OUTSIDE_LOOP)
            .map(|(_, seconds)| seconds)
            .sum(),
        steps,
        writes: (written_after - written_before) / took,
        cores: cores.collect(),
        resident: resident(process)?,
    })
}

/// Waits until a number of rounds is over, and returns the steps of the loop.
async fn rounds(
    leader: &Replica,
    before: &BTreeMap<String, Step>,
    count: f64,
) -> Result<BTreeMap<String, Step>> {
    let times = |steps: &BTreeMap<String, Step>, name| {
        steps.get(name).map_or(0.0, |step: &Step| step.count)
    };
    eventually_within(PATIENCE, "some rounds are over", async || {
        let now = steps(&scrape(leader).await?)?;
        for name in [LOAD, UPDATE] {
            let done = times(&now, name) - times(before, name);
            ensure!(done >= count, "{name}: {done} times");
        }
        Ok(now)
    })
    .await
}

#[derive(Debug, Clone, Copy, Default)]
struct Step {
    sum: f64,
    count: f64,
}

/// Seconds of each step of the loop so far, by name; without the sum of all.
fn steps(metrics: &str) -> Result<BTreeMap<String, Step>> {
    let mut steps: BTreeMap<String, Step> = BTreeMap::new();
    for line in metrics.lines() {
        let Some((kind, rest)) = line
            .strip_prefix(LATENCY)
            .and_then(|rest| rest.split_once("{step=\""))
        else {
            continue;
        };
        let Some((name, value)) = rest.split_once("\"} ") else {
            continue;
        };
        if name == "total" {
            continue;
        }
        let value: f64 = value.parse().with_context(|| line.to_owned())?;
        match kind {
            "_sum" => steps.entry(name.to_owned()).or_default().sum = value,
            "_count" => steps.entry(name.to_owned()).or_default().count = value,
            _ => {}
        }
    }
    Ok(steps)
}

/// Averages over some rounds.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Seconds of each step of the loop.
    pub(crate) steps: BTreeMap<String, f64>,
    /// Seconds of all steps that follow each other.
    pub(crate) full_loop: f64,
    /// Statuses and checkpoints written per second.
    pub(crate) writes: f64,
    /// Cores that each program uses.
    pub(crate) cores: BTreeMap<String, f64>,
    /// Resident memory of the recommender in megabytes, at the end and at most.
    pub(crate) resident: (f64, f64),
}

pub(crate) fn print(columns: &[(String, Figures)]) {
    let row = |name: &str, decimals: usize, value: &dyn Fn(&Figures) -> Option<f64>| {
        let values = columns.iter().map(|(_, figures)| value(figures));
        let text = |value: Option<f64>| value.map(|value| format!("{value:.decimals$}"));
        print_row(name, values.map(|value| text(value).unwrap_or_default()));
    };
    print_row("", columns.iter().map(|(title, _)| title.clone()));
    let names = |part: fn(&Figures) -> &BTreeMap<String, f64>| {
        let names = columns.iter().flat_map(move |(_, it)| part(it).keys());
        names.cloned().collect::<std::collections::BTreeSet<_>>()
    };
    row("full loop, s", 2, &|it| Some(it.full_loop));
    for name in names(|it| &it.steps) {
        row(&format!("  {name}"), 2, &|it| it.steps.get(&name).copied());
    }
    row("statuses and checkpoints, 1/s", 0, &|it| Some(it.writes));
    for name in names(|it| &it.cores) {
        row(&format!("cores of {name}"), 2, &|it| {
            it.cores.get(&name).copied()
        });
    }
    row("resident memory, MB", 0, &|it| Some(it.resident.0));
    row("  at most", 0, &|it| Some(it.resident.1));
}
