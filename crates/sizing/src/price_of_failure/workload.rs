//! Requests of one container name over all pods of a workload.
//!
//! The samples of all pods form one series per resource: a block's peak is the largest sample of any
//! pod, so that the request fits the busiest one. The rise of usage is that of each pod. Decisions
//! follow the executor of `crates/replay`:
//!
//! * Every sample leads to a choice, since the updater may act at any time. The present request is
//!   the last one that was recommended. Within the first hour the open block counts as complete.
//! * A choice is recommended if it differs from the present request by more than 10 %.
//! * An OOM kill raises memory at once, by the bump of the container's memory rules, and for a
//!   configured time memory does not fall below that.
//!
//! Memory: at most 4.5 KiB per resource, and 30 bytes per pod for ten minutes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{Cpu, Memory, MethodStep};
use serde::{Deserialize, Serialize};

use super::Caution;
use super::choice::Choice;
use super::history::{History, first_invalid, is_amount};
use super::settings::Settings;
use crate::amount;
use crate::config::MemoryRules;
use crate::instant::Instant;
use crate::observation::Observation;

pub(super) const MIB: f64 = 1_048_576.0;
/// Minimum relative difference between the present request and a new one.
pub(super) const DEADBAND: f64 = 0.1;
/// Seconds for which the last sample of a pod is kept: longer than the usual time between two.
const POD_SECONDS: i64 = 600;
const SECOND_NS: i64 = 1_000_000_000;
/// Maximum number of pods whose last samples are stored.
const MAX_STORED_PODS: usize = 500;

/// Settings that users choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceOfFailureConfig {
    /// Factor of the prices of failure.
    pub caution: Caution,
    /// Time for which memory does not fall after an OOM kill. 24 hours by default.
    pub oom_history_ns: i64,
    /// Unit in which history counts. Hours by default.
    pub unit: HistoryUnit,
    /// With [`HistoryUnit::Runs`], ended runs that a container needs before its recommendation may
    /// fall below the published one. 3 by default.
    pub minimum_runs: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryUnit {
    /// Hours with samples.
    #[default]
    Hours,
    /// Runs: pods from start to end.
    Runs,
}

impl Default for PriceOfFailureConfig {
    fn default() -> Self {
        Self {
            caution: Caution::default(),
            oom_history_ns: 86_400 * SECOND_NS,
            unit: HistoryUnit::default(),
            minimum_runs: 3,
        }
    }
}

impl PriceOfFailureConfig {
    /// Settings with the prices of this caution.
    pub(super) fn priced(&self, settings: Settings) -> Settings {
        settings.times(self.caution.factor())
    }

    /// Second until which memory does not fall after an OOM kill.
    pub(super) fn oom_until(&self, killed: Timestamp) -> i64 {
        let seconds = self.oom_history_ns / SECOND_NS;
        killed.as_second().saturating_add(seconds)
    }
}

/// Histories and requests of both resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadHistory {
    cpu: RequestHistory,
    memory: RequestHistory,
}

/// History and request of one resource, in millicores or MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct RequestHistory {
    history: History,
    request: Option<f64>,
    /// Minimum after an OOM kill, and the second since 1970 at which it ends.
    minimum: Option<(i64, f64)>,
    /// The last choice, with the minimum at that time.
    #[serde(skip)]
    choice: Option<(Choice, f64)>,
    /// Second and usage of the last sample of each pod.
    pods: BTreeMap<u64, (i64, f64)>,
    /// Second at which pods without samples were last dropped.
    pruned: i64,
}

impl WorkloadHistory {
    pub(crate) fn observe(
        &mut self,
        config: &PriceOfFailureConfig,
        pod: u64,
        seen: Observation,
        at: Instant,
    ) {
        let Some(at) = at.into() else { return };
        match seen {
            Observation::Usage { cpu, memory } => {
                if let Some(cpu) = cpu {
                    let millicores = cpu.millicores() as f64;
                    self.cpu
                        .add(&config.priced(Settings::CPU), pod, millicores, at);
                }
                if let Some(memory) = memory {
                    let mebibytes = memory.bytes() as f64 / MIB;
                    self.memory
                        .add(&config.priced(Settings::MEMORY), pod, mebibytes, at);
                }
            }
            Observation::Oom { request, rules } => self.add_oom(config, &rules, pod, request, at),
        }
    }

    /// Adds an OOM kill of a pod's container with this request.
    fn add_oom(
        &mut self,
        config: &PriceOfFailureConfig,
        rules: &MemoryRules,
        pod: u64,
        request: Memory,
        at: Timestamp,
    ) {
        let state = &mut self.memory;
        let last = state.pods.get(&pod).map_or(0.0, |(_, usage)| *usage);
        let used = last.max(request.bytes() as f64 / MIB);
        state
            .history
            .add_oom(&config.priced(Settings::MEMORY), used, at);
        let minimum = rules.after_oom(used, MIB).max(state.request.unwrap_or(0.0));
        state.minimum = Some((config.oom_until(at), minimum));
        state.request = Some(minimum);
    }

    /// The recommended requests; `None` before both resources have samples.
    pub(crate) fn recommend(&self) -> Option<(Cpu, Memory)> {
        Some(amounts(self.cpu.request?, self.memory.request?))
    }

    /// The steps of the recommendation for CPU and memory, without the result.
    pub(crate) fn explain(&self, config: &PriceOfFailureConfig) -> [Vec<MethodStep>; 2] {
        [
            self.cpu.explain(config.caution, "millicores"),
            self.memory.explain(config.caution, "MiB"),
        ]
    }

    /// The form that is stored: without the steps of the last choice, and without the last samples
    /// of more than [`MAX_STORED_PODS`] pods, whose rise then begins anew.
    pub(crate) fn to_stored(&self) -> Self {
        let mut stored = self.clone();
        for resource in [&mut stored.cpu, &mut stored.memory] {
            resource.choice = None;
            if resource.pods.len() > MAX_STORED_PODS {
                resource.pods.clear();
            }
        }
        stored
    }

    /// The first part of a stored history that no samples lead to.
    pub(crate) fn invalid_part(&self) -> Option<&'static str> {
        [&self.cpu, &self.memory].into_iter().find_map(|resource| {
            let minimum = resource.minimum.map(|(_, minimum)| minimum);
            let usages = resource.pods.values().map(|(_, usage)| *usage);
            let mut amounts = resource.request.into_iter().chain(minimum).chain(usages);
            let invalid = resource.history.invalid_part();
            invalid.or_else(|| first_invalid([(amounts.all(is_amount), "request")]))
        })
    }
}

/// Amounts in millicores and MiB, rounded up.
pub(super) fn amounts(millicores: f64, mebibytes: f64) -> (Cpu, Memory) {
    (
        Cpu::from_millicores(amount::from_f64(millicores.ceil())),
        Memory::from_bytes(amount::from_f64((mebibytes * MIB).ceil())),
    )
}

impl RequestHistory {
    /// The steps of the last choice. Costs are per hour.
    fn explain(&self, caution: Caution, unit: &str) -> Vec<MethodStep> {
        let Some((choice, minimum)) = self.choice else {
            return Vec::new();
        };
        let amount = |name, value| MethodStep::number(name, value, unit);
        let hours = |name, value| MethodStep::number(name, value, &format!("{unit} x hours"));
        let mut steps = vec![
            MethodStep::number("history", f64::from(choice.age), "hours"),
            amount("highest-peak-of-seven-days", choice.highest),
            amount("mean-recent-peak", choice.scale),
            amount("largest-expected-need", choice.largest_need),
            MethodStep::number("state", f64::from(choice.state), ""),
            MethodStep::number("caution", caution.factor(), ""),
            hours("price-of-one-failure", choice.price),
            amount("cheapest-request", choice.cheapest),
            MethodStep::number("chance-of-failure", choice.chance, ""),
            amount("expected-shortage", choice.shortage),
            amount("expected-cost", choice.cheapest_cost),
            amount("present-request", choice.present),
            amount("present-expected-cost", choice.present_cost),
            hours("cost-of-waiting", choice.regret),
            hours("price-of-a-change", choice.change_price),
            MethodStep::text("reason", choice.reason.as_str()),
            amount("chosen-request", choice.recommended),
        ];
        if minimum > 0.0 {
            steps.push(amount("minimum-after-oom-kill", minimum));
        }
        if let Some(request) = self.request {
            steps.push(amount("request-after-10-percent-rule", request));
        }
        steps
    }

    fn add(&mut self, settings: &Settings, pod: u64, usage: f64, at: Timestamp) {
        let second = at.as_second();
        if second.abs_diff(self.pruned) >= POD_SECONDS as u64 {
            self.pods
                .retain(|_, (last, _)| second.abs_diff(*last) < POD_SECONDS as u64);
            self.pruned = second;
        }
        let before = self.pods.insert(pod, (second, usage));
        self.history.add_after(settings, before, usage, at);
        self.decide(settings, at);
    }

    fn decide(&mut self, settings: &Settings, now: Timestamp) {
        let mut first_block;
        let history = if self.history.age == 0 {
            first_block = self.history.with_open_block(settings);
            &mut first_block
        } else {
            &mut self.history
        };
        let choice = match self.request {
            Some(request) => history.choose(settings, request, now),
            None => history.choose_first(settings, now),
        };
        let Some(choice) = choice else {
            return;
        };
        let minimum = self
            .minimum
            .filter(|(until, _)| now.as_second() < *until)
            .map_or(0.0, |(_, minimum)| minimum);
        let wanted = choice.recommended.max(minimum);
        let differs = |request: f64| (wanted - request).abs() > DEADBAND * request;
        if self.request.is_none_or(differs) {
            self.request = Some(wanted);
        }
        self.choice = Some((choice, minimum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn config(factor: &str) -> PriceOfFailureConfig {
        PriceOfFailureConfig {
            caution: Caution::parse(factor).expect("a caution"),
            ..PriceOfFailureConfig::default()
        }
    }

    /// Adds a sample every five minutes of both resources for each pod's usage of CPU in millicores and
    /// memory in MiB.
    fn add(
        history: &mut WorkloadHistory,
        config: &PriceOfFailureConfig,
        minutes: std::ops::Range<i64>,
        pods: &[(i64, i64)],
    ) {
        for minute in minutes.step_by(5) {
            for (pod, (cpu, memory)) in (0_u32..).zip(pods) {
                // Pods are measured at different seconds.
                let at = at(minute * 60 + i64::from(pod));
                let seen = Observation::Usage {
                    cpu: Some(Cpu::from_millicores(*cpu)),
                    memory: Some(Memory::from_bytes(*memory << 20)),
                };
                history.observe(config, pod.into(), seen, at.into());
            }
        }
    }

    fn requests(history: &WorkloadHistory) -> (i64, i64) {
        let (cpu, memory) = history.recommend().expect("both resources");
        (cpu.millicores(), memory.bytes() >> 20)
    }

    #[test]
    fn the_busiest_pod_decides_and_differences_of_pods_are_no_rise() {
        let config = config("normal");
        let [mut one, mut many] = [(); 2].map(|()| WorkloadHistory::default());
        for hours in [0..60, 60..72 * 60] {
            add(&mut one, &config, hours.clone(), &[(900, 700)]);
            add(
                &mut many,
                &config,
                hours,
                &[(100, 50), (900, 700), (400, 300)],
            );
            assert_eq!(requests(&many), requests(&one));
        }
    }

    #[test]
    fn the_first_sample_leads_to_a_request_that_fits_it() {
        let mut history = WorkloadHistory::default();
        add(&mut history, &config("normal"), 0..1, &[(500, 1000)]);
        let (cpu, memory) = requests(&history);
        assert!((500..=1000).contains(&cpu) && (1000..=2000).contains(&memory));
        add(&mut history, &config("normal"), 1..2, &[(3000, 1000)]);
        assert!(requests(&history).0 >= 3000, "{:?}", requests(&history));
    }

    #[test]
    fn more_caution_raises_at_once_and_less_lowers_when_it_pays() {
        let usage = |history: &mut WorkloadHistory, factor: &str, hours: std::ops::Range<i64>| {
            for hour in hours {
                let busy = if hour % 12 == 0 { 2000 } else { 600 };
                let minutes = hour * 60..hour * 60 + 60;
                add(history, &config(factor), minutes, &[(busy, busy)]);
            }
        };
        let mut history = WorkloadHistory::default();
        usage(&mut history, "0.1", 0..96);
        let low = requests(&history);
        add(
            &mut history,
            &config("10"),
            96 * 60..96 * 60 + 1,
            &[(600, 600)],
        );
        let high = requests(&history);
        assert!(high.1 > low.1, "{low:?}, then {high:?}");
        add(
            &mut history,
            &config("0.1"),
            96 * 60 + 1..96 * 60 + 2,
            &[(600, 600)],
        );
        assert_eq!(requests(&history), high);
        usage(&mut history, "0.1", 97..30 * 24);
        let again = requests(&history);
        assert!(again.1 < high.1, "{high:?}, then {again:?}");
    }

    #[test]
    fn memory_that_would_soon_reach_the_request_raises_it_also_with_samples_every_five_minutes() {
        let config = config("normal");
        let mut history = WorkloadHistory::default();
        add(&mut history, &config, 0..48 * 60, &[(100, 300)]);
        let before = requests(&history).1;
        assert!(before > 310, "{before}");
        let minutes = 48 * 60..48 * 60 + 1;
        add(&mut history, &config, minutes, &[(100, before - 1)]);
        assert!(requests(&history).1 > before);
    }

    #[test]
    fn an_oom_kill_raises_memory_at_once_and_holds_it_for_a_day() {
        let config = config("normal");
        let mut history = WorkloadHistory::default();
        add(&mut history, &config, 0..48 * 60, &[(100, 300)]);
        let killed = at(48 * 3600);
        let request = Memory::from_bytes(2000 << 20);
        history.add_oom(&config, &MemoryRules::default(), 0, request, killed);
        assert_eq!(requests(&history).1, 2400);
        // The kill is a need, too: the request may rise further, but not fall.
        add(&mut history, &config, 48 * 60..72 * 60, &[(100, 300)]);
        assert!(requests(&history).1 >= 2400);
        // The need stays in the peaks of seven days and fades from the histogram.
        add(&mut history, &config, 72 * 60..60 * 24 * 60, &[(100, 300)]);
        assert!(requests(&history).1 < 1200, "{:?}", requests(&history));
    }

    #[test]
    fn a_stored_history_continues_as_if_nothing_had_happened() {
        let config = config("2");
        let mut history = WorkloadHistory::default();
        add(&mut history, &config, 0..30 * 60, &[(400, 800), (300, 900)]);
        let request = Memory::from_bytes(1 << 30);
        history.add_oom(&config, &MemoryRules::default(), 1, request, at(30 * 3600));
        let json = serde_json::to_string(&history).expect("JSON");
        let mut restored: WorkloadHistory = serde_json::from_str(&json).expect("a history");
        assert_eq!(restored.invalid_part(), None);
        for history in [&mut history, &mut restored] {
            add(history, &config, 31 * 60..80 * 60, &[(500, 700)]);
        }
        assert_eq!(restored.recommend(), history.recommend());
        restored.memory.request = Some(f64::NAN);
        assert_eq!(restored.invalid_part(), Some("request"));
    }
}
