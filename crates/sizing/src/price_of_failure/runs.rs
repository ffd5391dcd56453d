//! History and requests of one container name over the runs of a workload, such as the pods of a
//! `CronJob`. A run is one pod, from its first to its last sample.
//!
//! * A run counts once, however long it lasted: with its peak of memory, and with the 95th
//!   percentile of its CPU samples. An OOM kill counts as a peak of 1.2 times the memory.
//! * The weight of a run halves after 24 further runs or after four days, whichever is later. So a
//!   weekly run is not forgotten by time, nor the busy run of a day among those of each minute.
//! * A request costs as much as it is large, for as long as a run lasts on average: from five
//!   minutes to four hours. So short runs get more memory above their peaks than long ones.
//! * A run in progress raises memory at once when it exceeds the request. Before the first run has
//!   ended, runs in progress count like ended ones.
//! * Each run is a new pod, so a smaller request costs nothing: only the 10 % rule applies.
//! * After an OOM kill, memory does not fall below the bump for the configured time, and not before
//!   [`OOM_RUNS`] further runs have ended.
//!
//! Recent runs are kept by pod and are added to the histograms in order of their ends. So the order
//! in which samples of parallel runs arrive does not matter.
//!
//! Memory: at most 1 KiB of histograms, and 350 bytes for each of at most 65 recent runs.

mod fold;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{Cpu, Memory, MethodStep};
use serde::{Deserialize, Serialize};

use self::fold::{Folded, OomMinimum, View};
use super::histogram::{Histogram, bound, bucket};
use super::history::{OOM_FACTOR, first_invalid, is_amount};
use super::settings::Settings;
use super::workload::{MIB, PriceOfFailureConfig, amounts};
use crate::instant::Instant;
use crate::observation::Observation;

/// Format of a stored history.
const VERSION: u8 = 1;
/// Seconds without a sample after which a run has ended for certain: more than the longest gap
/// between samples of a store with steps of an hour.
const SILENCE: i64 = 3 * 3600;
/// Seconds without a sample after which no late sample of a pod that has ended is expected.
const LATE: i64 = 600;
/// Maximum number of recent runs. Samples of further pods that run at the same time count together
/// as one run.
const MAX_RECENT: usize = 64;
/// Identifier of the run of these further pods.
const FURTHER_PODS: u64 = 0;
/// Runs that end after an OOM kill before memory may fall below the bump.
pub(super) const OOM_RUNS: u32 = 7;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunsHistory {
    version: u8,
    /// By pod.
    recent: BTreeMap<u64, Run>,
    folded: Folded,
}

impl Default for RunsHistory {
    fn default() -> Self {
        Self {
            version: VERSION,
            recent: BTreeMap::new(),
            folded: Folded::default(),
        }
    }
}

impl RunsHistory {
    pub(crate) fn observe(
        &mut self,
        config: &PriceOfFailureConfig,
        pod: u64,
        seen: Observation,
        at: Instant,
    ) {
        let Some(at) = at.into() else { return };
        let run = self.run(config, pod, at);
        match seen {
            Observation::Usage { cpu, memory } => {
                if let Some(cpu) = cpu {
                    run.add_cpu(cpu.millicores() as f64);
                }
                if let Some(memory) = memory {
                    run.add_memory(memory.bytes() as f64 / MIB);
                }
            }
            Observation::Oom { request, rules } => {
                let used = run.add_oom(request.bytes() as f64 / MIB);
                self.folded.add_oom(OomMinimum {
                    amount: rules.after_oom(used, MIB),
                    killed: at.as_second(),
                    until: config.oom_until(at),
                    runs: 0,
                });
            }
        }
    }

    /// Ends the recent runs of pods that are not running, and continues those of pods that are.
    pub(crate) fn end_runs(&mut self, is_running: impl Fn(u64) -> bool) {
        for (pod, run) in &mut self.recent {
            run.has_ended = *pod != FURTHER_PODS && !is_running(*pod);
        }
    }

    pub(crate) fn ended_runs(&self) -> u32 {
        let recent = self.recent.values().filter(|run| run.has_ended).count();
        self.folded.runs().saturating_add(recent as u32)
    }

    /// The recommended requests; `None` before both resources have samples.
    pub(crate) fn recommend(&self, config: &PriceOfFailureConfig) -> Option<(Cpu, Memory)> {
        let View { cpu, memory, .. } = self.view(config)?;
        Some(amounts(cpu.request, memory.request))
    }

    /// Lower and upper bound: the median need of the runs, and the largest expected need, which is
    /// raised by a share of one divided by the number of runs.
    pub(crate) fn bounds(&self, config: &PriceOfFailureConfig) -> Option<[(Cpu, Memory); 2]> {
        let View { cpu, memory, .. } = self.view(config)?;
        Some([
            amounts(cpu.median, memory.median),
            amounts(cpu.upper_bound(), memory.upper_bound()),
        ])
    }

    /// The steps of the recommendation for CPU and memory, without the result.
    pub(crate) fn explain(&self, config: &PriceOfFailureConfig) -> [Vec<MethodStep>; 2] {
        let Some(View {
            cpu,
            memory,
            in_progress,
        }) = self.view(config)
        else {
            return Default::default();
        };
        [
            cpu.explain(config.caution, in_progress, "millicores"),
            memory.explain(config.caution, in_progress, "MiB"),
        ]
    }

    /// The first part of a stored history that no samples lead to.
    pub(crate) fn invalid_part(&self) -> Option<&'static str> {
        let are_runs =
            self.recent.len() <= MAX_RECENT + 1 && self.recent.values().all(Run::is_valid);
        first_invalid([(self.version == VERSION, "version"), (are_runs, "run")])
            .or_else(|| self.folded.invalid_part())
    }

    fn view(&self, config: &PriceOfFailureConfig) -> Option<View> {
        View::new(config, &self.folded, &self.in_order())
    }

    fn in_order(&self) -> Vec<&Run> {
        let mut runs: Vec<_> = self.recent.iter().collect();
        runs.sort_by_key(|(pod, run)| (run.last, **pod));
        runs.into_iter().map(|(_, run)| run).collect()
    }

    /// The run of a pod with an observation at this time.
    fn run(&mut self, config: &PriceOfFailureConfig, pod: u64, at: Timestamp) -> &mut Run {
        let second = at.as_second();
        self.fold_silent(config, second);
        let mut pod = pod;
        if !self.recent.contains_key(&pod) && self.recent.len() >= MAX_RECENT {
            let ended = self.recent.iter().filter(|(_, run)| run.has_ended);
            match ended.min_by_key(|(pod, run)| (run.last, **pod)) {
                Some((ended, _)) => self.fold(config, *ended),
                None => pod = FURTHER_PODS,
            }
        }
        let run = self.recent.entry(pod).or_insert_with(|| Run::new(second));
        run.first = run.first.min(second);
        run.last = run.last.max(second);
        run
    }

    /// Adds runs that get no more samples to the earlier ones.
    fn fold_silent(&mut self, config: &PriceOfFailureConfig, second: i64) {
        let is_silent = |run: &Run| {
            let seconds = if run.has_ended { LATE } else { SILENCE };
            run.last < second.saturating_sub(seconds)
        };
        let silent = self.recent.iter().filter(|(_, run)| is_silent(run));
        let mut silent: Vec<_> = silent.map(|(pod, run)| (run.last, *pod)).collect();
        silent.sort_unstable();
        for (_, pod) in silent {
            self.fold(config, pod);
        }
    }

    fn fold(&mut self, config: &PriceOfFailureConfig, pod: u64) {
        if let Some(run) = self.recent.remove(&pod) {
            self.folded.add(config, &run);
        }
    }
}

/// Percentile of a run's CPU samples that the run needs.
const CPU_PERCENTILE: f64 = 0.95;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    /// Seconds since 1970 of the first and the last observation.
    first: i64,
    last: i64,
    /// CPU samples, in millicores.
    cpu: Histogram,
    /// Peak of memory in MiB, and the assumed need after an OOM kill.
    memory: Option<f64>,
    oom_need: Option<f64>,
    has_ended: bool,
}

impl Run {
    fn new(second: i64) -> Self {
        Self {
            first: second,
            last: second,
            cpu: Histogram::default(),
            memory: None,
            oom_need: None,
            has_ended: false,
        }
    }

    fn add_cpu(&mut self, millicores: f64) {
        self.cpu.add(bucket(Settings::FIRST_BOUND, millicores), 1.0);
    }

    fn add_memory(&mut self, mebibytes: f64) {
        let before = self.memory.unwrap_or(0.0);
        self.memory = Some(before.max(mebibytes));
    }

    /// Adds an OOM kill with this request. Returns the memory that was used.
    fn add_oom(&mut self, request: f64) -> f64 {
        let used = request.max(self.memory.unwrap_or(0.0));
        let need = used * OOM_FACTOR;
        self.oom_need = Some(self.oom_need.map_or(need, |before| before.max(need)));
        used
    }

    fn hours(&self) -> f64 {
        self.last.saturating_sub(self.first).max(0) as f64 / 3600.0
    }

    /// The need of CPU in millicores; `None` without a sample.
    fn cpu(&self) -> Option<f64> {
        self.cpu
            .percentile(CPU_PERCENTILE)
            .map(|bucket| bound(Settings::FIRST_BOUND, bucket))
    }

    /// The need of memory in MiB; `None` without a sample or OOM kill.
    fn memory(&self) -> Option<f64> {
        let needs = [self.memory, self.oom_need];
        needs.into_iter().flatten().reduce(f64::max)
    }

    fn is_valid(&self) -> bool {
        let amounts = [self.memory, self.oom_need];
        self.cpu.is_valid() && amounts.into_iter().flatten().all(is_amount)
    }
}
