//! Runs in order of their ends: decaying histograms of their needs, and the requests that follow.

use model::MethodStep;
use serde::{Deserialize, Serialize};

use super::{OOM_RUNS, Run};
use crate::float::exp2;
use crate::price_of_failure::histogram::{Histogram, bound, bucket};
use crate::price_of_failure::history::{first_invalid, is_amount};
use crate::price_of_failure::needs::{Needs, Risk};
use crate::price_of_failure::settings::{Need, Settings};
use crate::price_of_failure::workload::{DEADBAND, PriceOfFailureConfig};
use crate::price_of_failure::{Caution, choice};

/// Runs, and seconds, after which a weight has halved: whichever is later.
const HALF_LIFE_RUNS: f64 = 24.0;
const HALF_LIFE_SECONDS: f64 = 4.0 * 86_400.0;
/// Weight from which runs count as recent: half of one, since a weight halves.
const RECENT_WEIGHT: f32 = 0.5;

/// Minimum length of a run in hours: the time that samples of metrics may be apart.
const MINIMUM_HOURS: f64 = 1.0 / 12.0;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OomMinimum {
    /// MiB.
    pub(super) amount: f64,
    /// Second of the last kill.
    pub(super) killed: i64,
    /// Second until which it lasts at least.
    pub(super) until: i64,
    /// Runs that began after the kill and have ended.
    pub(super) runs: u32,
}

impl OomMinimum {
    fn is_active(&self, second: i64) -> bool {
        second < self.until || self.runs < OOM_RUNS
    }
}

/// Runs that were added, and the requests that follow from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Folded {
    cpu: Needed,
    memory: Needed,
    minimum: Option<OomMinimum>,
}

/// Needs of one resource, in millicores or MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Needed {
    needs: Histogram,
    runs: u32,
    /// Decayed sum of the hours of all runs.
    hours: f64,
    last: i64,
    request: Option<f64>,
}

impl Folded {
    pub(super) fn runs(&self) -> u32 {
        self.cpu.runs.max(self.memory.runs)
    }

    /// Adds a run that has ended after all others.
    pub(super) fn add(&mut self, config: &PriceOfFailureConfig, run: &Run) {
        if let Some(minimum) = &mut self.minimum {
            minimum.runs += u32::from(run.first > minimum.killed && minimum.runs < OOM_RUNS);
        }
        self.minimum = self.minimum.filter(|minimum| minimum.is_active(run.last));
        if let Some(need) = run.cpu() {
            self.cpu.add(need, run);
            self.cpu
                .decide(&config.priced(Settings::CPU_OF_RUNS), 0.0, None);
        }
        if let Some(need) = run.memory() {
            self.memory.add(need, run);
            self.memory.decide(
                &config.priced(Settings::MEMORY_OF_RUNS),
                self.minimum(),
                None,
            );
        }
    }

    /// Adds an OOM kill. A higher minimum that is active stays.
    pub(super) fn add_oom(&mut self, kill: OomMinimum) {
        self.minimum = Some(self.minimum.map_or(kill, |before| OomMinimum {
            amount: before.amount.max(kill.amount),
            killed: before.killed.max(kill.killed),
            until: before.until.max(kill.until),
            runs: 0,
        }));
    }

    fn minimum(&self) -> f64 {
        self.minimum.map_or(0.0, |minimum| minimum.amount)
    }

    /// The first part of a stored history that no samples lead to.
    pub(super) fn invalid_part(&self) -> Option<&'static str> {
        let needed = [&self.cpu, &self.memory];
        let minimum = self.minimum.map(|minimum| minimum.amount);
        let requests = needed.iter().filter_map(|needed| needed.request);
        let are_histograms = needed.iter().all(|needed| needed.needs.is_valid());
        let are_hours = needed.iter().all(|needed| is_amount(needed.hours));
        first_invalid([
            (are_histograms, "histogram"),
            (are_hours, "hours"),
            (requests.chain(minimum).all(is_amount), "request"),
        ])
    }
}

impl Needed {
    fn add(&mut self, need: f64, run: &Run) {
        if self.runs > 0 {
            let elapsed = run.last.saturating_sub(self.last).max(0) as f64;
            let half_lives = (elapsed / HALF_LIFE_SECONDS).min(1.0 / HALF_LIFE_RUNS);
            let factor = exp2(-half_lives);
            self.needs.scale(factor as f32);
            self.hours *= factor;
            self.last = self.last.max(run.last);
        } else {
            self.last = run.last;
        }
        self.hours += run.hours();
        self.needs.add(bucket(Settings::FIRST_BOUND, need), 1.0);
        self.runs = self.runs.saturating_add(1);
    }

    /// Chooses the request, with the need of runs in progress. `None` without a run.
    fn decide(
        &mut self,
        settings: &Settings,
        minimum: f64,
        in_progress: Option<f64>,
    ) -> Option<Decision> {
        let highest = bound(
            Settings::FIRST_BOUND,
            self.needs.highest_with(RECENT_WEIGHT)?,
        );
        let needs = Needs::of_runs(settings, &self.needs, highest)?;
        let scale = self.needs.mean(Settings::FIRST_BOUND);
        let price = settings.price_at(scale);
        let hours = match settings.need {
            Need::Peak => {
                let mean = self.hours / self.needs.total();
                mean.max(MINIMUM_HOURS).min(settings.hours())
            }
            Need::Sample => settings.hours(),
        };
        let cheapest = |needs: &Needs| {
            let costs = needs.candidates().filter(|(request, _)| *request > 0.0);
            let costs = costs.map(|(request, risk)| {
                let cost = risk.cost(settings, price, hours, request);
                (cost, request, risk)
            });
            // The lowest of equally cheap ones: candidates come highest first.
            costs.reduce(|best, next| if next.0 <= best.0 { next } else { best })
        };
        let (expected_cost, chosen, risk) = cheapest(&needs)?;
        let largest_need = needs.candidates().next().map_or(0.0, |(need, _)| need);
        let (mut wanted, mut reason) = if minimum > chosen {
            (minimum, "the minimum after an OOM kill")
        } else {
            (chosen, "the request of least cost")
        };
        if let Some(need) = in_progress.filter(|need| *need > wanted) {
            let given = needs.at_least(need);
            let enough = given.as_ref().and_then(cheapest);
            wanted = enough.map_or(need * choice::RECORD_FACTOR, |(_, request, _)| request);
            reason = "a run in progress exceeds the request of least cost";
        }
        let request = match self.request {
            // Changes within the deadband are not applied, and the need would never be met.
            Some(request) if wanted > request => wanted.max(request * choice::MINIMUM_INCREASE),
            Some(request) if request - wanted <= DEADBAND * request => {
                reason = "the request of least cost is smaller by at most 10 %";
                request
            }
            _ => wanted,
        };
        self.request = Some(request);
        Some(Decision {
            runs: self.runs,
            highest,
            scale,
            price,
            hours,
            largest_need,
            median: bound(Settings::FIRST_BOUND, self.needs.percentile(0.5)?),
            chosen,
            expected_cost,
            risk,
            minimum,
            in_progress,
            wanted,
            reason,
            request,
        })
    }
}

/// A request and the numbers behind it, in millicores or MiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    runs: u32,
    highest: f64,
    scale: f64,
    price: f64,
    /// Hours in which a need that does not fit is one failure.
    hours: f64,
    largest_need: f64,
    pub(super) median: f64,
    chosen: f64,
    expected_cost: f64,
    risk: Risk,
    minimum: f64,
    in_progress: Option<f64>,
    wanted: f64,
    reason: &'static str,
    pub(super) request: f64,
}

impl Decision {
    /// The largest expected need, raised by a share of one divided by the number of runs.
    pub(super) fn upper_bound(&self) -> f64 {
        self.largest_need.max(self.request) * (1.0 + 1.0 / f64::from(self.runs.max(1)))
    }

    pub(super) fn explain(
        &self,
        caution: Caution,
        in_progress: u32,
        unit: &str,
    ) -> Vec<MethodStep> {
        let amount = |name, value| MethodStep::number(name, value, unit);
        let runs = |name, count: u32| MethodStep::number(name, f64::from(count), "runs");
        let mut steps = vec![
            runs("history", self.runs),
            runs("runs-in-progress", in_progress),
            amount("highest-recent-need-of-runs", self.highest),
            amount("median-need-of-runs", self.median),
            amount("mean-need-of-runs", self.scale),
            amount("largest-expected-need-of-runs", self.largest_need),
            MethodStep::number("caution", caution.factor(), ""),
            MethodStep::number(
                "price-of-one-failure",
                self.price,
                &format!("{unit} x hours"),
            ),
            MethodStep::number("hours-of-one-failure", self.hours, "hours"),
            amount("cheapest-request", self.chosen),
            MethodStep::number("chance-of-failure-of-a-run", self.risk.chance, ""),
            amount("expected-shortage", self.risk.shortage),
            amount("expected-cost", self.expected_cost),
        ];
        if let Some(need) = self.in_progress {
            steps.push(amount("need-of-runs-in-progress", need));
        }
        if self.minimum > 0.0 {
            steps.push(amount("minimum-after-oom-kill", self.minimum));
        }
        steps.push(amount("chosen-request", self.wanted));
        steps.push(MethodStep::text("reason", self.reason));
        steps.push(amount("request-after-10-percent-rule", self.request));
        steps
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) cpu: Decision,
    pub(super) memory: Decision,
    pub(super) in_progress: u32,
}

impl View {
    /// The requests after these recent runs, which are in order of their ends. `None` before both
    /// resources have a sample.
    pub(super) fn new(
        config: &PriceOfFailureConfig,
        folded: &Folded,
        recent: &[&Run],
    ) -> Option<Self> {
        let mut folded = folded.clone();
        let (ended, open): (Vec<&Run>, Vec<&Run>) = recent.iter().partition(|run| run.has_ended);
        for run in ended {
            folded.add(config, run);
        }
        let in_progress = open.len() as u32;
        let largest = |needs: Vec<f64>| needs.into_iter().reduce(f64::max);
        let memory = largest(open.iter().filter_map(|run| run.memory()).collect());
        if folded.cpu.runs == 0 {
            for (run, need) in open.iter().filter_map(|run| Some((run, run.cpu()?))) {
                folded.cpu.add(need, run);
            }
        }
        if folded.memory.runs == 0 {
            for (run, need) in open.iter().filter_map(|run| Some((run, run.memory()?))) {
                folded.memory.add(need, run);
            }
        }
        if let Some(last) = recent.iter().map(|run| run.last).max() {
            folded.minimum = folded.minimum.filter(|minimum| minimum.is_active(last));
        }
        let minimum = folded.minimum();
        Some(Self {
            cpu: folded
                .cpu
                .decide(&config.priced(Settings::CPU_OF_RUNS), 0.0, None)?,
            memory: folded.memory.decide(
                &config.priced(Settings::MEMORY_OF_RUNS),
                minimum,
                memory,
            )?,
            in_progress,
        })
    }
}
