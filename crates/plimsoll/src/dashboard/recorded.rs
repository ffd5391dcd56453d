//! Recorded usage of a workload from Prometheus: beside the bounds of its VPA object, and for an EHPA
//! the CPU of all pods with quantiles of the coming hours.

use forecast::{ForecastConfig, ForecastError, Forecaster};
use jiff::Timestamp;
use maud::{Markup, html};
use model::Series;
use plot::{Layer, Shape, Unit};
use replay::horizontal::Demand;
use replay::{Grid, Resource};

use crate::explain::{self, Recommended};
use crate::output::numbers::{CPU, MEMORY, minute};
use crate::usage::{ContainerUsage, amount, amount_of};
use crate::usage_plot::{PerSlot, line, over_time};
use crate::workload::workloads;

pub(super) const HISTORY_DAYS: u16 = 8;
/// Length of a slot in seconds.
const STEP: u32 = 300;
/// Slots of usage that make a plot.
const LEAST_SLOTS: usize = 2;
/// Slots of usage before a forecast: a day.
const SHOWN: usize = 288;
/// Slots of the forecast: six hours.
const AHEAD: u32 = 72;

/// Usage of each container with its request, target and bounds, and what happened to the workload.
pub(super) fn vertical(
    usage: &[ContainerUsage],
    recommendations: &[Recommended],
    marks: &[explain::Mark],
) -> Markup {
    let mut plots = Vec::new();
    for container in usage {
        for (resource, name, word, unit) in [
            (Resource::Cpu, "cpu", "CPU", CPU),
            (Resource::Memory, "memory", "Memory", MEMORY),
        ] {
            let per_slot = PerSlot::of(&container.series(resource));
            if per_slot.highest.len() < LEAST_SLOTS {
                continue;
            }
            let of = &container.id.container;
            let is_of = |it: &&Recommended| it.container == *of && it.resource == name;
            let recommended = recommendations.iter().find(is_of);
            let amount = |of: fn(&Recommended) -> Option<&String>| {
                amount(recommended.and_then(of)?, resource)
            };
            let present = amount_of(container.requests, resource);
            let constants = [
                ("present request", "request", present),
                ("target", "advice", amount(|it| Some(&it.target))),
                ("lower bound", "c3", amount(|it| it.lower_bound.as_ref())),
                ("upper bound", "c3", amount(|it| it.upper_bound.as_ref())),
            ];
            let title = format!("{word} of container {of}");
            let events = events(marks, &per_slot.grid);
            plots.push(per_slot.plot(title, unit, &constants, events).figure());
        }
    }
    section("Usage of the last days", plots)
}

/// CPU usage of all pods with the quantiles of a forecast, and the number of pods.
pub(super) fn horizontal(usage: &[ContainerUsage]) -> Markup {
    let title = "Usage and forecast";
    let workloads = workloads(usage);
    let workload = workloads.first();
    let total = workload.and_then(|it| it.total(Resource::Cpu));
    let observed = total.as_ref().map(slots).unwrap_or_default();
    let is_long = observed.len() >= LEAST_SLOTS;
    let (Some(workload), Some(total), true) = (workload, total, is_long) else {
        return section(title, Vec::new());
    };
    let step = i64::from(STEP);
    let from = observed.len().saturating_sub(SHOWN);
    let start = total.start + step * from as i64;
    let amounts = observed[from..].iter().map(|it| it.unwrap_or(0.0));
    let amounts: Vec<f64> = amounts.collect();
    let mut layers = vec![line("usage of all pods", "usage", (start, step), &amounts)];
    let forecast = forecast(&total, &observed);
    for (name, class, quantile) in forecast.iter().flatten() {
        let start = start + step * amounts.len() as i64;
        layers.push(line(name, class, (start, step), quantile));
    }
    let note = match forecast {
        Ok(_) => "The quantiles are computed here, from the usage in Prometheus; the forecast that the HPA reads \
                  is the one above."
            .to_owned(),
        Err(error) => format!("No quantiles are shown: {error}."),
    };
    let mut plots = vec![over_time("CPU of the workload".to_owned(), CPU, layers).figure()];
    let containers = workload.containers.iter();
    let series = containers.map(|it| it.series(Resource::Cpu));
    if let Some(pods) = series.max_by_key(Vec::len).filter(|pods| !pods.is_empty()) {
        let PerSlot { counts, grid, .. } = PerSlot::of(&pods);
        let counts: Vec<f64> = counts.into_iter().map(f64::from).collect();
        let layer = line("pods with usage", "usage", (grid.start, grid.step), &counts);
        let title = "Pods of the workload".to_owned();
        plots.push(over_time(title, Unit::NUMBER, vec![layer]).figure());
    }
    plots.push(html! { p.note { (note) } });
    section(title, plots)
}

/// Events and changes of conditions within the time of a plot, on its axis.
fn events(marks: &[explain::Mark], grid: &Grid) -> Option<Layer> {
    let times = grid.start..=grid.start + grid.step * grid.slots as i64;
    let shown = marks
        .iter()
        .filter(|mark| times.contains(&mark.time.as_second()));
    let shown = shown.map(|mark| plot::Mark {
        at: (mark.time.as_second() as f64, 0.0),
        title: format!("{}, {}: {}", minute(mark.time), mark.label, mark.text),
        label: String::new(),
    });
    let shown: Vec<_> = shown.collect();
    let layer = Layer::new("acts and events", "c4", Shape::Marks(shown.clone()));
    (!shown.is_empty()).then_some(layer)
}

fn section(title: &str, parts: Vec<Markup>) -> Markup {
    html! {
        h2 { (title) }
        @if parts.is_empty() { p.note { "Prometheus has no ten minutes of usage of the workload." } }
        @for part in parts { (part) }
    }
}

fn slots(total: &Demand) -> Vec<Option<f64>> {
    let minutes = total.minutes.chunks(STEP as usize / 60);
    minutes
        .map(|minutes| {
            let known: Vec<f64> = minutes.iter().copied().flatten().collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
        .collect()
}

type Quantiles = [(&'static str, &'static str, Vec<f64>); 3];

fn forecast(total: &Demand, observed: &[Option<f64>]) -> Result<Quantiles, ForecastError> {
    let points = observed.iter().enumerate().filter_map(|(slot, amount)| {
        let second = total.start + i64::from(STEP) * slot as i64;
        Some((Timestamp::from_second(second).ok()?, (*amount)?))
    });
    let config = ForecastConfig {
        step_seconds: STEP,
        horizons_seconds: vec![STEP, 12 * STEP, AHEAD * STEP],
    };
    let forecaster = Forecaster::fit(&Series::new(points.collect()), &config)?;
    let mut quantiles: Quantiles = [
        ("expected", "advice", Vec::new()),
        ("90 %", "request", Vec::new()),
        ("99 %", "limit", Vec::new()),
    ];
    for slot in 1..=AHEAD {
        let forecast = forecaster.forecast(slot * STEP)?;
        let amounts = [forecast.expected, forecast.p90, forecast.p99];
        for ((_, _, line), amount) in quantiles.iter_mut().zip(amounts) {
            line.push(amount);
        }
    }
    Ok(quantiles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::tests::usage as usage_of;
    use crate::usage::{PodUsage, Resources};

    /// A wave of a day between 100 and 300 millicores, in slots of five minutes.
    fn usage(days: usize) -> ContainerUsage {
        let amount =
            |slot: usize| 200.0 - 100.0 * (slot as f64 * std::f64::consts::TAU / 288.0).cos();
        let samples = |factor: f64| {
            (0..days * 288)
                .map(|slot| (slot as i64 * 300, factor * amount(slot)))
                .collect()
        };
        let pod = PodUsage {
            cpu: samples(1.0),
            memory: samples(0.5),
            ..PodUsage::default()
        };
        let mut usage = usage_of("deployment/web", Resources::default(), &[pod]);
        "<app>".clone_into(&mut usage.id.container);
        usage
    }

    #[test]
    fn usage_is_plotted_with_target_and_lower_bound() {
        let recommended = Recommended {
            container: "<app>".to_owned(),
            resource: "memory".to_owned(),
            target: "100Mi".to_owned(),
            lower_bound: Some("50Mi".to_owned()),
            upper_bound: None,
            uncapped_target: None,
            changed_by: None,
        };
        let html = vertical(&[usage(2)], &[recommended], &[]).into_string();
        let title = "<b>CPU of container &lt;app&gt;</b>";
        assert!(html.contains(title), "{html}");
        let [cpu, memory] = ["<b>CPU of", "<b>Memory of"].map(|it| html.find(it).expect("a plot"));
        assert!(!html[cpu..memory].contains("> target<"));
        for name in ["usage", "target", "lower bound"] {
            let legend = format!("</span> {name}");
            assert!(html[memory..].contains(&legend), "{name}");
        }
        let none = vertical(&[], &[], &[]).into_string();
        assert!(none.contains("Prometheus has no ten minutes"));
    }

    #[test]
    fn quantiles_follow_the_last_day_of_usage() {
        let usage = usage(8);
        let container = [usage];
        let workload = workloads(&container).remove(0);
        let total = workload.total(Resource::Cpu).expect("usage");
        let [(_, _, expected), (_, _, p90), (_, _, p99)] =
            forecast(&total, &slots(&total)).expect("eight days");
        // The next six hours lead from the least usage to the mean.
        assert_eq!(expected.len(), 72);
        assert!((expected[0] - 100.0).abs() < 10.0, "{expected:?}");
        assert!((expected[71] - 200.0).abs() < 10.0, "{expected:?}");
        assert!(p90.iter().zip(&p99).all(|(p90, p99)| p90 <= p99));
        let html = horizontal(&container).into_string();
        for name in "usage of all pods|expected|90 %|99 %|pods with usage".split('|') {
            assert!(html.contains(&format!("</span> {name}")), "{name}: {html}");
        }
    }

    #[test]
    fn a_short_history_has_no_quantiles() {
        let html = horizontal(&[usage(1)]).into_string();
        assert!(html.contains("No quantiles are shown: "), "{html}");
        assert!(html.contains("</span> usage of all pods"), "{html}");
    }
}
