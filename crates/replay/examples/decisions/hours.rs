//! Tables of requests by hour of the day against the flat sizes of the policy "price of failure":
//! differences at equal risk, and the harm of raises that fail.

mod by_hour;
mod costs;
mod failing_raises;
mod forecasts;
mod histogram;
mod table;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use replay::peers::AnnotatedPolicy;
use replay::{Executor, Policy, Resource, Series};

use crate::price_of_failure::PriceOfFailure;
use crate::sizes::policies::{FACTORS, settings};
use crate::sizes::traces::Set;
use crate::sizes::{rules, table::title, traces};
use by_hour::{ByHour, Design, Rules};
use failing_raises::{FailingRaises, Failure};
use forecasts::{Forecasts, HOUR};
use table::Row;

/// Factors of the prices of failure in the tables.
const PRINTED: [f64; 4] = [0.5, 1.0, 2.5, 5.0];
/// Factor of the price of a change where changes in place are cheap.
const CHEAP: f64 = 0.3;
/// Share of its scored hours from which a container counts as one with a proven profile.
const MOSTLY: f64 = 0.5;
const DESIGNS: [(&str, Design); 3] = [
    ("same hours", Design::SameHours),
    ("profile", Design::Profile),
    ("forecaster", Design::Forecaster),
];
/// Shares of raises that fail, and the way they do.
const FAILURES: [(f64, Failure); 3] = [
    (0.05, Failure::Late),
    (0.01, Failure::Refused(6)),
    (0.05, Failure::Refused(6)),
];

/// One set under one executor.
struct Replay<'a> {
    set: &'a Set,
    executor: Executor,
    forecasts: &'a [Arc<Forecasts>],
    /// The share and the kind of failing raises.
    failure: Option<(f64, Failure)>,
}

/// Prints the tables of the known files, of which missing ones are left out.
pub(crate) fn print(folder: &Path) -> Result<(), String> {
    let sets = traces::read(folder)?;
    if sets.is_empty() {
        return Err(format!("{} has none of the known files", folder.display()));
    }
    for set in &sets {
        let started = std::time::Instant::now();
        let forecasts = set.series.par_iter();
        let forecasts = forecasts.map(|series| Arc::new(Forecasts::new(series)));
        print_set(set, &forecasts.collect::<Vec<_>>());
        eprintln!("{}: {:.1} s", set.name, started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn print_set(set: &Set, forecasts: &[Arc<Forecasts>]) {
    let first = usize::try_from(set.warm_up / HOUR).unwrap_or(0);
    let shares: Vec<f64> = forecasts.iter().map(|it| it.proven_share(first)).collect();
    let all: Vec<usize> = (0..set.series.len()).collect();
    let proven = all.iter().copied().filter(|it| shares[*it] >= MOSTLY);
    let proven: Vec<usize> = proven.collect();
    for executor in rules(set) {
        let mut replay = Replay {
            set,
            executor,
            forecasts,
            failure: None,
        };
        let title = title(set, &executor);
        let rows = replay.rows();
        table::print(&title, set.resource, &rows, &all);
        println!(
            "\nProfiles: {} of {} are proven for half of the time or more, and {:.0} % of all hours.",
            proven.len(),
            all.len(),
            100.0 * shares.iter().sum::<f64>() / shares.len().max(1) as f64,
        );
        let requests = 100.0 * share_of_requests(&rows, &proven);
        println!("They have {requests:.0} % of the requests of flat x1.");
        if proven.is_empty() {
            continue;
        }
        let of_proven = format!("{title}, those with a proven profile");
        table::print(&of_proven, set.resource, &rows, &proven);
        if !executor.early_raises {
            continue;
        }
        for (share, failure) in FAILURES {
            replay.failure = Some((share, failure));
            let name = match failure {
                Failure::Late => "come a slot late".to_owned(),
                Failure::Refused(hours) => format!("are refused for {hours} hours"),
            };
            let title = format!("{title}, {:.0} % of raises {name}", 100.0 * share);
            table::print(&title, set.resource, &replay.failing_rows(), &all);
        }
    }
}

/// The share of some entities in all requests of the flat sizes at their defaults.
fn share_of_requests(rows: &[Row], entities: &[usize]) -> f64 {
    let flat = rows.iter().find(|row| row.name == "flat x1");
    flat.map_or(0.0, |flat| {
        let all: f64 = flat.entities.iter().map(|entity| entity.requested).sum();
        let some = entities
            .iter()
            .map(|entity| flat.entities[*entity].requested);
        some.fold(0.0, |sum, requested| sum + requested) / all
    })
}

impl Replay<'_> {
    fn rows(&self) -> Vec<Row> {
        let mut rows = vec![self.as_production()];
        for change in [1.0, CHEAP] {
            rows.extend(FACTORS.map(|factor| self.flat(factor, change)));
            for (name, design) in DESIGNS {
                rows.extend(PRINTED.map(|factor| self.by_hour(name, design, factor, change)));
            }
        }
        rows
    }

    /// The rows of raises that fail: the defaults, and the flat sizes that they are compared with.
    fn failing_rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = FACTORS.map(|factor| self.flat(factor, 1.0)).into();
        for row in &mut rows {
            row.is_printed = row.name == "flat x1";
        }
        rows.push(self.flat(1.0, CHEAP));
        rows.extend(DESIGNS.map(|(name, design)| self.by_hour(name, design, 1.0, CHEAP)));
        rows
    }

    fn as_production(&self) -> Row {
        let policy = || AnnotatedPolicy::new(self.set.resource, &[("policy", "plimsoll")]);
        let name = "flat x1 as the recommender runs it".to_owned();
        self.run(name, &|_| Box::new(policy().expect("a valid policy")))
    }

    fn flat(&self, factor: f64, change: f64) -> Row {
        let mut settings = settings(&self.executor).times(factor);
        settings.change_price *= change;
        let name = named("flat", factor, change);
        Row {
            is_flat: true,
            change,
            is_printed: PRINTED.contains(&factor),
            ..self.run(name, &|_| Box::new(PriceOfFailure::new(settings)))
        }
    }

    fn by_hour(&self, name: &str, design: Design, factor: f64, change: f64) -> Row {
        let rules = Rules {
            design,
            settings: settings(&self.executor).times(factor),
            lasts: self.executor.resource == Resource::Cpu && !self.executor.early_raises,
            change,
        };
        let policy = |entity: usize| ByHour::new(rules, Arc::clone(&self.forecasts[entity]));
        let name = named(name, factor, change);
        Row {
            change,
            ..self.run(name, &|entity| Box::new(policy(entity)))
        }
    }

    fn run(&self, name: String, new_policy: &(dyn Fn(usize) -> Box<dyn Policy> + Sync)) -> Row {
        let run = |(entity, series): (usize, &Series)| {
            let mut policy = new_policy(entity);
            if let Some((share, failure)) = self.failure {
                policy = Box::new(FailingRaises {
                    policy,
                    share,
                    failure,
                    seed: entity as u64,
                    late: None,
                    refused_until: None,
                });
            }
            let pods = std::slice::from_ref(series);
            let (first, hour) = (series.slots(self.set.warm_up), series.slots(HOUR));
            let mut requests = Vec::new();
            let report = |slot: usize, request: f64| {
                if slot >= first && slot.is_multiple_of(hour) {
                    requests.push(request as f32);
                }
            };
            let score = self.executor.trace_pods(pods, policy.as_mut(), report);
            (score, requests)
        };
        let series = self.set.series.par_iter().enumerate();
        let (entities, requests) = series.map(run).unzip();
        Row {
            name,
            entities,
            requests,
            is_flat: false,
            change: 1.0,
            is_printed: true,
        }
    }
}

fn named(name: &str, factor: f64, change: f64) -> String {
    if change < 1.0 {
        format!("{name}, cheap changes x{factor}")
    } else {
        format!("{name} x{factor}")
    }
}
