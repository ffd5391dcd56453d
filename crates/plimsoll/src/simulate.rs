//! Replay of the native HPA and of EHPAs over recorded CPU usage: replicas, and minutes in which the
//! ready pods had too little CPU.
//!
//! Rules of the replay: [`replay::horizontal`]. The usage of all pods of a workload is the demand,
//! whatever their number was. It was limited by their capacity, so peaks may have been higher.

use anyhow::bail;
use clap::Args;
use forecast::crane::Dsp;
use forecast::{PeakConfig, PriceOfFailure};
use horizontal::ehpa::window_seconds;
use horizontal::predictions::Method;
use indicatif::ParallelProgressIterator as _;
use model::{Cpu, Quantity};
use rayon::iter::Either;
use rayon::prelude::*;
use replay::Resource;
use replay::horizontal::{Autoscaler, Bounds, Program};
use serde::Serialize;

use crate::backtest::{WARM_UP_DAYS, is_long_enough, warm_up};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Document, OutputArgs, Table};
use crate::progress::progress;
use crate::usage::{self, SourceArgs};
use crate::workload::{Workload, workloads};

#[derive(Clone, Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten, next_help_heading = None)]
    pub(crate) output: OutputArgs,
    /// CPU of a pod; the default is the sum of the recorded requests of its containers.
    #[arg(long, value_name = "QUANTITY", value_parser = pod_cpu)]
    pub(crate) pod_cpu: Option<Cpu>,
    /// Target utilisation of the HPA in percent of a pod's CPU.
    #[arg(long, default_value_t = 70, value_name = "PERCENT", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) target: u16,
    /// Smallest number of replicas.
    #[arg(long, default_value_t = 1, value_name = "REPLICAS", value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub(crate) min: i32,
    /// Largest number of replicas.
    #[arg(long, default_value_t = 1000, value_name = "REPLICAS", value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub(crate) max: i32,
    /// Seconds from the creation of a pod until it is ready.
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub(crate) ready_seconds: u32,
    /// Seconds from a minute's end until its usage can be read.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=600))]
    pub(crate) lag_seconds: u32,
}

/// Ways of scaling by their names: the native HPA on measured usage, an EHPA with defaults, an EHPA
/// with Crane's DSP forecast and window. Each with the prediction that the HPA also reads.
fn ways(ready_seconds: u32) -> [(&'static str, Option<Program>); 3] {
    /// Default of `predictionWindowSeconds`.
    const WINDOW: u32 = 3600;
    let window_seconds = window_seconds(Some(ready_seconds), None, WINDOW);
    let peak = Method::Peak(PeakConfig {
        step_seconds: 60,
        window_seconds,
        price_of_failure: PriceOfFailure::NORMAL,
    });
    let dsp = Method::Dsp {
        dsp: Dsp::default(),
        history_seconds: 15 * 86_400,
    };
    [
        ("HPA", None),
        ("EHPA", Some(Program::new(peak, window_seconds))),
        ("EHPA with Crane's DSP", Some(Program::new(dsp, WINDOW))),
    ]
}

/// Result of a way of scaling a workload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SimulatedWay {
    scaling: &'static str,
    replicas: f64,
    /// Minutes per day with more usage than the ready pods have CPU.
    minutes_short_per_day: f64,
    /// Missing CPU in these minutes, in core-minutes per day.
    missing_core_minutes_per_day: f64,
    changes_per_day: f64,
    /// Changes per day within ten minutes after one in the opposite direction.
    reversals_per_day: f64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Simulated {
    /// Namespace; empty if the source has none.
    namespace: String,
    workload: String,
    pod_cpu: String,
    days: f64,
    /// A result per way of scaling; the native HPA first.
    scalings: Vec<SimulatedWay>,
}

/// A positive amount of CPU.
fn pod_cpu(text: &str) -> Result<Cpu, String> {
    let quantity: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    let cpu = Cpu::from(&quantity);
    if cpu.millicores() > 0 {
        Ok(cpu)
    } else {
        Err("must be at least 1m".to_owned())
    }
}

/// Results for a workload; an error says why there are none.
fn simulate(workload: &Workload<'_>, args: &SimulateArgs) -> Result<Simulated, String> {
    let containers = &workload.containers;
    if !containers.iter().all(|usage| is_long_enough(usage)) {
        return Err("less than two days of usage".to_owned());
    }
    let requests = containers.iter().map(|it| it.requests.cpu);
    let millicores = requests.map(|cpu| cpu.map(Cpu::millicores));
    let requested = millicores.sum::<Option<i64>>().map(Cpu::from_millicores);
    let pod_cpu = args.pod_cpu.or(requested);
    let pod_cpu = pod_cpu.filter(|cpu| cpu.millicores() > 0);
    let pod_cpu = pod_cpu.ok_or("a container has no CPU request: set --pod-cpu")?;
    let demand = workload.total(Resource::Cpu);
    let mut demand = demand.ok_or("no CPU usage was recorded")?;
    for minute in demand.minutes.iter_mut().flatten() {
        *minute /= pod_cpu.millicores() as f64;
    }
    let id = workload.id();
    let autoscaler = Autoscaler {
        ready_seconds: args.ready_seconds.into(),
        lag_seconds: args.lag_seconds.into(),
        target: f64::from(args.target) / 100.0,
        is_measured: true,
        bounds: Bounds {
            min: args.min,
            max: args.max,
        },
    };
    let learned = containers.iter().map(|it| warm_up(it, WARM_UP_DAYS)).max();
    let first = usize::try_from(learned.unwrap_or(0) / 60).unwrap_or(0);
    let scored = first..demand.minutes.len();
    let days = scored.len() as f64 / 1440.0;
    let scalings = ways(args.ready_seconds).map(|(scaling, predictor)| {
        let values = predictor.map(|mut it| demand.published(|end, value| it.minute(end, value)));
        let score = autoscaler.run(&demand, values.as_deref(), scored.clone());
        let shortage = score.shortage * pod_cpu.millicores() as f64 / 1000.0;
        SimulatedWay {
            scaling,
            replicas: score.pods(),
            minutes_short_per_day: score.violations / days,
            missing_core_minutes_per_day: shortage / days,
            changes_per_day: score.scalings / days,
            reversals_per_day: score.oscillations / days,
        }
    });
    Ok(Simulated {
        namespace: id.namespace,
        workload: id.workload,
        pod_cpu: Quantity::from(pod_cpu).to_string(),
        days,
        scalings: scalings.into(),
    })
}

pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<Outcome> {
    if args.min > args.max {
        let message = format!("--min={} is above --max={}", args.min, args.max);
        bail!(Failure::Usage(message));
    }
    let usage = usage::read(&args.source)?;
    let workloads = workloads(&usage);
    let (simulated, left_out): (Vec<Simulated>, Vec<String>) = workloads
        .par_iter()
        .progress_with(progress(workloads.len(), "workloads replayed"))
        .partition_map(|workload| match simulate(workload, args) {
            Ok(result) => Either::Left(result),
            Err(reason) => Either::Right(format!("{}: {reason}", workload.id())),
        });
    if simulated.is_empty() {
        let reason = left_out.first().map(|reason| format!("left out: {reason}"));
        let reason = reason.unwrap_or_default();
        bail!("no workload can be simulated. {reason}");
    }
    output::print(&document(&simulated, args), &args.output)?;
    Ok(Outcome::left_out(&left_out))
}

fn document(simulated: &[Simulated], args: &SimulateArgs) -> Document {
    let rows = simulated.iter().flat_map(|result| {
        let id = (&result.namespace, &result.workload);
        result.scalings.iter().map(move |way| (id, way))
    });
    Document {
        title: "Plimsoll simulate".to_owned(),
        tables: vec![Table::of(
            "Horizontal scaling",
            "Namespace=0/0|Workload=0/1|Scaling=1/scaling| Replicas=1/replicas:2\
             | Short, min per day=1/minutesShortPerDay:1\
             | Missing, core-min per day=1/missingCoreMinutesPerDay:2\
             | Changes per day=1/changesPerDay:1| Reversals per day=1/reversalsPerDay:1",
            rows.collect::<Vec<_>>(),
        )],
        notes: vec![format!(
            "Target {} %, {} to {} replicas, pods ready after {} s, usage known after {} s. The first {WARM_UP_DAYS} days, at most half \
             of each recording, do not count.",
            args.target, args.min, args.max, args.ready_seconds, args.lag_seconds
        )],
        data: serde_json::json!({
            "targetPercent": args.target,
            "minReplicas": args.min,
            "maxReplicas": args.max,
            "readySeconds": args.ready_seconds,
            "lagSeconds": args.lag_seconds,
            "workloads": simulated,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_of_a_pod_is_positive() {
        assert_eq!(pod_cpu("250m"), Ok(Cpu::from_millicores(250)));
        for text in ["0", "-1", "x", ""] {
            assert!(pod_cpu(text).is_err(), "{text}");
        }
    }
}
