//! Violations at equal pods of the native HPA and of predicted metrics. The second part is the last
//! 30 % of each series, and the first part the 30 % before.

mod curve;
mod predictors;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use forecast::crane::Dsp;
use forecast::{PeakConfig, PriceOfFailure};
use horizontal::ehpa::window_seconds;
use horizontal::predictions::{Method, Quantile};
use rayon::prelude::*;
use replay::horizontal::{Autoscaler, Bounds, Demand, Program, Score};

use crate::Plots;
use crate::csv::{USUAL_TARGET, read_demands};
use crate::lines::{Axis, Line, svg};
use curve::{Curve, geometric_mean, ratio_of_sums, with_interval};
use predictors::{Autopilot, Oracle, Predictor, SeasonalLevel};

/// Minutes between updates of a forecast.
const SLOT: u32 = 5;
/// Default of `predictionWindowSeconds`.
const LONGEST: u32 = 3600;
const USUAL_LAG: i64 = 15;

type NewPredictor = fn(&Demand, u32) -> Box<dyn Predictor>;

/// A way of scaling.
struct Way {
    name: &'static str,
    /// For a demand, and the minutes until pods are ready.
    predictor: Option<NewPredictor>,
    is_measured: bool,
}

const fn way(name: &'static str, predictor: NewPredictor) -> Way {
    Way {
        name,
        predictor: Some(predictor),
        is_measured: true,
    }
}

const HPA: Way = Way {
    name: "native HPA",
    predictor: None,
    is_measured: true,
};
const LEVEL: Way = way("mean of 7 days x level", |_, ready| {
    Box::new(SeasonalLevel::new((ready + SLOT) as usize))
});
const SERIES: Way = way("series: p90, window 60 min", |_, _| plimsoll(60));
const SERIES_SHORT: Way = way("series: p90, window until ready + slot", |_, ready| {
    plimsoll(ready + SLOT)
});
const MEAN: Way = way("peak, mean", |_, ready| peak(ready, PriceOfFailure(0.0)));
const LOW: Way = way("peak, price low", |_, ready| {
    peak(ready, PriceOfFailure::LOW)
});
/// The default of the programs for an EHPA.
const PUBLISHED: Way = way("**published: peak, price normal**", |_, ready| {
    peak(ready, PriceOfFailure::NORMAL)
});
const HIGH: Way = way("peak, price high", |_, ready| {
    peak(ready, PriceOfFailure::HIGH)
});
const CRANE: Way = way("Crane EffectiveHPA, DSP, window 60 min", |_, _| {
    let method = Method::Dsp {
        dsp: Dsp::default(),
        history_seconds: 15 * 86_400,
    };
    Box::new(Program::new(method, 3600))
});
const AUTOPILOT: Way = Way {
    name: "Autopilot, P95 of 72 h, 2 d",
    predictor: Some(|_, _| Box::new(Autopilot::default())),
    is_measured: false,
};
const ORACLE: Way = way("peak of the window, known", |demand, ready| {
    Box::new(Oracle::new(demand, (ready + SLOT) as usize))
});

fn plimsoll(window_minutes: u32) -> Box<dyn Predictor> {
    let method = Method::Plimsoll {
        step_seconds: 60,
        quantile: Quantile::P90,
    };
    Box::new(Program::new(method, 60 * window_minutes))
}

fn peak(ready_minutes: u32, price_of_failure: PriceOfFailure) -> Box<dyn Predictor> {
    let window_seconds = window_seconds(Some(60 * ready_minutes), None, LONGEST);
    let method = Method::Peak(PeakConfig {
        step_seconds: 60,
        window_seconds,
        price_of_failure,
    });
    Box::new(Program::new(method, window_seconds))
}

/// A workload: its demand, the scored minutes, and how fast its pods and metrics are.
#[derive(Clone, Copy)]
struct Case<'a> {
    name: &'a str,
    demand: &'a Demand,
    is_first: bool,
    ready_minutes: f64,
    lag_seconds: i64,
}

impl Case<'_> {
    fn scored(&self) -> Range<usize> {
        let end = |tenths: usize| self.demand.minutes.len() * tenths / 10;
        if self.is_first {
            end(4)..end(7)
        } else {
            end(7)..end(10)
        }
    }

    fn replays(self, way: &Way) -> impl Fn(f64) -> Score {
        let ready = self.ready_minutes.ceil() as u32;
        let autoscaler = Autoscaler {
            ready_seconds: (60.0 * self.ready_minutes) as i64,
            lag_seconds: self.lag_seconds,
            target: USUAL_TARGET,
            is_measured: way.is_measured,
            bounds: Bounds {
                min: 1,
                max: 10_000,
            },
        };
        let predictor = way.predictor.map(|new| new(self.demand, ready));
        let values = predictor.map(|mut predictor| {
            let predict = |end, value| predictor.minute(end, value);
            self.demand.published(predict)
        });
        move |target| {
            let autoscaler = Autoscaler {
                target,
                ..autoscaler
            };
            autoscaler.run(self.demand, values.as_deref(), self.scored())
        }
    }
}

/// Scores of one way on all series, at the pods of the HPA: first ours, then the HPA's.
struct Comparison(Vec<(Curve, Score)>);

impl Comparison {
    fn new(cases: &[Case<'_>], way: &Way) -> Self {
        let compare = |case: &Case<'_>| {
            let hpa = case.replays(&HPA)(USUAL_TARGET);
            (Curve::around(hpa.pods(), case.replays(way)), hpa)
        };
        Self(cases.par_iter().map(compare).collect())
    }

    fn pairs(&self, number: fn(&Score) -> f64) -> Vec<(f64, f64)> {
        let pair = |(curve, hpa): &(Curve, Score)| (curve.at(hpa.pods(), number), number(hpa));
        self.0.iter().map(pair).collect()
    }

    fn row(&self, name: &str) -> String {
        let violations = self.pairs(|score| score.violations);
        let (sum, sums) = with_interval(&violations, ratio_of_sums);
        let (mean, means) = with_interval(&violations, geometric_mean);
        let ratios = violations
            .iter()
            .map(|(ours, hpa)| (ours + 1.0) / (hpa + 1.0));
        let worst = ratios.fold(0.0, f64::max);
        let more = violations.iter().filter(|(ours, hpa)| *ours > hpa + 1.0);
        format!(
            "| {name} | {sum:.2} [{:.2}, {:.2}] | {mean:.2} [{:.2}, {:.2}] | {}; {worst:.2} | {:.2} | {:.2} | {:.2} |",
            sums.low,
            sums.high,
            means.low,
            means.high,
            more.count(),
            ratio_of_sums(&self.pairs(|score| score.shortage)),
            ratio_of_sums(&self.pairs(|score| score.scalings)),
            ratio_of_sums(&self.pairs(|score| score.oscillations)),
        )
    }
}

fn comparisons(cases: &[Case<'_>], ways: &[&Way]) -> String {
    let mut text = "| | violation minutes, sum | geometric mean | more than the HPA on; worst | missing capacity | scalings | oscillations |\n|---|---|---|---|---|---|---|\n".to_owned();
    for way in ways {
        let _ = writeln!(text, "{}", Comparison::new(cases, way).row(way.name));
    }
    text
}

const TARGETS: [f64; 7] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2];

/// Pods, and the share of violation minutes in percent, of all series together at each target.
fn curves(cases: &[Case<'_>], ways: &[&Way]) -> Vec<Line> {
    let line = |way: &&Way| {
        let replays: Vec<_> = cases.iter().map(|case| case.replays(way)).collect();
        let points = TARGETS.map(|target| {
            let scores: Vec<Score> = replays.iter().map(|run| run(target)).collect();
            let sum = |number: fn(&Score) -> f64| scores.iter().map(number).sum::<f64>();
            let pods = sum(Score::pods) / scores.len() as f64;
            let violations = sum(|score| score.violations) / sum(|score| score.minutes);
            (pods, 100.0 * violations)
        });
        Line {
            name: way.name.to_owned(),
            points: points.into(),
        }
    };
    ways.par_iter().map(line).collect()
}

fn plot(ready_minutes: f64, lines: Vec<Line>) -> String {
    svg(
        format!("Targets from 50 to 120 %, pods ready after {ready_minutes} min"),
        Axis::linear("mean number of pods"),
        Axis::logarithmic("violation minutes, %"),
        lines,
    )
}

fn table(lines: &[Line]) -> String {
    let heads = TARGETS.map(|target| format!("{:.0} %", 100.0 * target));
    let mut text = format!(
        "| target | {} |\n|---{}|\n",
        heads.join(" | "),
        "|---".repeat(TARGETS.len())
    );
    for line in lines {
        let cells = line.points.iter();
        let cells = cells.map(|(pods, violations)| format!("{pods:.1}: {violations:.2}"));
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "| {} | {} |", line.name, cells.join(" | "));
    }
    text
}

fn each_series(cases: &[Case<'_>], way: &Way) -> String {
    let mut text =
        "| series | pods | HPA | ours | HPA's scalings | ours |\n|---|---|---|---|---|---|\n"
            .to_owned();
    let comparison = Comparison::new(cases, way);
    let violations = comparison.pairs(|score| score.violations);
    let scalings = comparison.pairs(|score| score.scalings);
    for (index, case) in cases.iter().enumerate() {
        let ((ours, hpa), (our_scalings, hpa_scalings)) = (violations[index], scalings[index]);
        let pods = comparison.0[index].1.pods();
        let name = case.name;
        let _ = writeln!(
            text,
            "| {name} | {pods:.1} | {hpa:.0} | {ours:.0} | {hpa_scalings:.0} | {our_scalings:.0} |"
        );
    }
    text
}

pub(crate) fn print(folder: &Path, plots: Plots<'_>, is_first: bool) -> Result<(), String> {
    let demands = read_demands(folder)?;
    let cases = |ready_minutes: f64, lag_seconds: i64| {
        let demands = demands.iter();
        let cases = demands.map(|(name, demand)| Case {
            name,
            demand,
            is_first,
            ready_minutes,
            lag_seconds,
        });
        cases.collect::<Vec<_>>()
    };
    let all = [
        &LEVEL,
        &SERIES,
        &SERIES_SHORT,
        &CRANE,
        &AUTOPILOT,
        &MEAN,
        &LOW,
        &PUBLISHED,
        &HIGH,
        &ORACLE,
    ];
    for ready in [2.0, 10.0] {
        let cases = cases(ready, USUAL_LAG);
        println!(
            "Pods ready after {ready} min:\n\n{}",
            comparisons(&cases, &all)
        );
        println!("{}", each_series(&cases, &PUBLISHED));
        let lines = curves(&cases, &[&HPA, &LEVEL, &SERIES, &LOW, &PUBLISHED, &HIGH]);
        println!("{}", table(&lines));
        let name = format!("horizontal-ready-{ready}min.svg");
        plots.write(&name, &plot(ready, lines))?;
    }
    for lag in [USUAL_LAG, 60] {
        for ready in [0.5, 2.0, 5.0, 10.0, 20.0] {
            println!("Pods ready after {ready} min, metrics after {lag} s:\n");
            println!(
                "{}",
                comparisons(&cases(ready, lag), &[&SERIES, &PUBLISHED])
            );
        }
    }
    Ok(())
}
