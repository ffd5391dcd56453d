//! The policies of the tables.

use jiff::Timestamp;
use rayon::prelude::*;
use replay::peers::{AnnotatedPolicy, Krr, Provisioned, Vpa};
use replay::{EntityScore, Executor, Policy, Resource, Series};
use sizing::Config;
use sizing::price_of_failure::Settings;

use super::traces::Set;
use crate::price_of_failure::PriceOfFailure;

/// Factors of our prices of failure.
pub(crate) const FACTORS: [f64; 12] = [
    0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.5, 5.0, 10.0, 25.0,
];

/// The scores of one policy at one operating point.
pub(crate) struct Result {
    pub(crate) name: String,
    pub(crate) is_ours: bool,
    pub(crate) entities: Vec<EntityScore>,
}

type NewPolicy = Box<dyn Fn(&Series) -> Box<dyn Policy> + Sync>;

/// The scores of every series under a policy, in the order of the series.
pub(super) fn run_all(
    executor: &Executor,
    series: &[Series],
    new_policy: &(dyn Fn(&Series) -> Box<dyn Policy> + Sync),
) -> Vec<EntityScore> {
    let run = |series: &Series| {
        let pods = std::slice::from_ref(series);
        executor.trace_pods(pods, new_policy(series).as_mut(), |_, _| ())
    };
    series.par_iter().map(run).collect()
}

/// Recommends the largest usage of the next hour. Meant for an executor without a deadband.
#[derive(Clone, Debug)]
struct Oracle(Series);

impl Policy for Oracle {
    fn observe(&mut self, _pod: usize, _at: Timestamp, _usage: f64) {}

    fn recommend(&mut self, now: Timestamp, _request: f64) -> Option<f64> {
        let series = &self.0;
        let next = usize::try_from((now.as_second() - series.start) / series.step).ok()?;
        let coming = series.usage.iter().skip(next).take(series.slots(3600));
        coming.copied().reduce(f64::max)
    }
}

pub(crate) fn replay(executor: &Executor, set: &Set) -> Vec<Result> {
    let mut results: Vec<Result> = peers(set.resource)
        .into_iter()
        .map(|(name, new_policy)| Result {
            name,
            is_ours: false,
            entities: run_all(executor, &set.series, new_policy.as_ref()),
        })
        .collect();
    let oracle = Executor {
        deadband: 0.0,
        early_raises: false,
        ..*executor
    };
    results.push(Result {
        name: "largest usage of the next hour".to_owned(),
        is_ours: false,
        entities: run_all(&oracle, &set.series, &|series| {
            Box::new(Oracle(series.clone()))
        }),
    });
    let settings = settings(executor);
    results.push(Result {
        name: "plimsoll x1 as the recommender runs it".to_owned(),
        is_ours: true,
        entities: run_all(executor, &set.series, &|_| {
            let policy = AnnotatedPolicy::new(set.resource, &[("policy", "plimsoll")]);
            Box::new(policy.expect("a valid policy"))
        }),
    });
    results.extend(FACTORS.map(|factor| {
        let settings = settings.times(factor);
        Result {
            name: format!("plimsoll x{factor}"),
            is_ours: true,
            entities: run_all(executor, &set.series, &|_| {
                Box::new(PriceOfFailure::new(settings))
            }),
        }
    }));
    results
}

/// Our settings for the rules of an executor.
pub(crate) fn settings(executor: &Executor) -> Settings {
    match (executor.resource, executor.early_raises) {
        (Resource::Cpu, true) => Settings::CPU,
        (Resource::Cpu, false) => Settings::CPU_HOURLY,
        (Resource::Memory, _) => Settings::MEMORY,
    }
}

fn peers(resource: Resource) -> Vec<(String, NewPolicy)> {
    let mut peers: Vec<(String, NewPolicy)> = vec![
        (
            "provisioned".to_owned(),
            Box::new(|_| Box::new(Provisioned)),
        ),
        (
            "VPA and its updater's rules".to_owned(),
            Box::new(move |_| Box::new(Vpa::new(resource).with_updater())),
        ),
    ];
    for (percentile, margin) in [
        (0.9, 0.15),
        (0.95, 0.15),
        (0.98, 0.15),
        (0.99, 0.15),
        (0.99, 0.4),
    ] {
        let name = format!("VPA P{:.0} +{:.0} %", 100.0 * percentile, 100.0 * margin);
        peers.push((
            name,
            Box::new(move |_| Box::new(Vpa::with(resource, vpa(percentile, margin)))),
        ));
    }
    let annotated: [(&str, &'static [(&str, &str)]); 7] = [
        ("Crane P99 +15 %", &[("policy", "crane")]),
        ("Crane P95 +15 %", CRANE_95),
        ("Autopilot window", &[("policy", "autopilot-window")]),
        ("Autopilot window +12.5 %", WINDOW),
        ("Autopilot window P99 or peak +12.5 %", WINDOW_HIGH),
        ("Autopilot window P90 or P60 +12.5 %", WINDOW_LOW),
        ("Autopilot ML", &[("policy", "autopilot-ml")]),
    ];
    for (name, settings) in annotated {
        if AnnotatedPolicy::new(resource, settings).is_some() {
            let policy = move || AnnotatedPolicy::new(resource, settings).expect("a valid policy");
            peers.push((name.to_owned(), Box::new(move |_| Box::new(policy()))));
        }
    }
    let krr = match resource {
        Resource::Cpu => [(0.95, 0.0), (0.99, 0.15), (1.0, 0.0)],
        Resource::Memory => [(1.0, 0.15), (0.999, 0.15), (1.0, 0.0)],
    };
    for (fraction, margin) in krr {
        let name = format!("KRR P{} +{:.0} %", 100.0 * fraction, 100.0 * margin);
        peers.push((
            name,
            Box::new(move |_| Box::new(Krr::with(fraction, margin))),
        ));
    }
    peers
}

const CRANE_95: &[(&str, &str)] = &[
    ("policy", "crane"),
    ("cpu-request-percentile", "0.95"),
    ("mem-request-percentile", "0.95"),
];
const WINDOW: &[(&str, &str)] = &[("policy", "autopilot-window"), ("margin-fraction", "0.125")];
const WINDOW_HIGH: &[(&str, &str)] = &[
    ("policy", "autopilot-window"),
    ("margin-fraction", "0.125"),
    ("cpu-statistic", "p99"),
    ("memory-tolerance", "minimal"),
];
const WINDOW_LOW: &[(&str, &str)] = &[
    ("policy", "autopilot-window"),
    ("margin-fraction", "0.125"),
    ("cpu-statistic", "p90"),
    ("memory-tolerance", "intermediate"),
];

/// The recommender's settings without minimum sizes.
fn vpa(percentile: f64, margin: f64) -> Config {
    let mut config = Config {
        pod_min_cpu_millicores: 0.0,
        pod_min_memory_mib: 0.0,
        margin_fraction: margin,
        ..Config::default()
    };
    config.cpu_percentiles.target = percentile;
    config.memory_percentiles.target = percentile;
    config
}
