//! Autopilot history of one container and its recommendation.
//!
//! A recommendation changes when a window of five minutes closes, which is with the first sample of
//! the next one. An OOM kill counts at once: for an hour memory is at least the need of the killed
//! container, and that need is a memory peak of its window. The paper leaves OOM kills to its
//! statistics.

use model::{Cpu, Memory, MethodStep};
use serde::{Deserialize, Serialize};

use super::ensemble::{Ensemble, EnsembleConfig};
use super::moving_window::{MovingWindow, MovingWindowConfig, RecentMaximum};
use super::open_window::{OpenWindow, number};
use crate::Buckets;
use crate::amount;
use crate::instant::Instant;
use crate::observation::Observation;
use crate::price_of_failure::first_invalid;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AutopilotMethod {
    MovingWindow(MovingWindowConfig),
    Ensemble(EnsembleConfig),
}

impl AutopilotMethod {
    /// Text that two methods share if and only if they share their history.
    pub(crate) fn shape(&self) -> &'static str {
        match self {
            Self::MovingWindow(_) => "autopilot-window",
            Self::Ensemble(_) => "autopilot-ml",
        }
    }
}

/// History of one container name of one workload, over all its pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AutopilotHistory {
    open: Option<OpenWindow>,
    recommenders: Recommenders,
    /// Needs of OOM-killed containers in the last hour, in bytes.
    needs: RecentMaximum,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Recommenders {
    MovingWindow(Recommender<MovingWindow>),
    Ensemble(Recommender<Ensemble>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Recommender<T> {
    cpu: Box<T>,
    memory: Box<T>,
}

impl AutopilotHistory {
    pub(crate) fn new(method: &AutopilotMethod) -> Self {
        let recommenders = match method {
            AutopilotMethod::MovingWindow(_) => Recommenders::MovingWindow(Recommender::default()),
            AutopilotMethod::Ensemble(_) => Recommenders::Ensemble(Recommender::default()),
        };
        Self {
            open: None,
            recommenders,
            needs: RecentMaximum::default(),
        }
    }

    pub(crate) fn observe(
        &mut self,
        method: &AutopilotMethod,
        pod: u64,
        seen: Observation,
        at: Instant,
    ) {
        let open = self.open_window(method, at);
        match seen {
            Observation::Usage { cpu, memory } => {
                if let Some(cpu) = cpu {
                    open.add_cpu(cpu.cores());
                }
                if let Some(memory) = memory {
                    open.add_memory(pod, memory.bytes() as f64);
                }
            }
            Observation::Oom { request, rules } => {
                let used = open.peak(pod).max(request.bytes() as f64);
                let needed = rules.after_oom(used, 1.0);
                open.add_need(needed);
                let window = open.number;
                self.needs.push(window, needed);
            }
        }
    }

    /// The first part that samples until `last` cannot lead to.
    pub(crate) fn invalid_part(
        &self,
        method: &AutopilotMethod,
        last: Instant,
    ) -> Option<&'static str> {
        let newest = number(last);
        let (cpu, memory) = match (&self.recommenders, method) {
            (Recommenders::MovingWindow(state), AutopilotMethod::MovingWindow(config)) => (
                state.cpu.is_valid(&config.cpu_rule(), last, newest),
                state.memory.is_valid(&config.memory_rule(), last, newest),
            ),
            (Recommenders::Ensemble(state), AutopilotMethod::Ensemble(_)) => {
                (state.cpu.is_valid(), state.memory.is_valid())
            }
            _ => (false, false),
        };
        let is_open = |open: &OpenWindow| open.is_valid(newest);
        first_invalid([
            (cpu, "cpu state"),
            (memory, "memory state"),
            (self.open.as_ref().is_none_or(is_open), "open window"),
            (self.needs.is_valid(newest), "needs of OOM kills"),
        ])
    }

    /// The recommendation; `None` before both resources have a whole window of samples.
    pub(crate) fn recommend(&self) -> Option<(Cpu, Memory)> {
        let (cores, bytes) = match &self.recommenders {
            Recommenders::MovingWindow(state) => (state.cpu.limit()?, state.memory.limit()?),
            Recommenders::Ensemble(state) => (
                state.cpu.limit(Buckets::cpu())?,
                state.memory.limit(Buckets::memory())?,
            ),
        };
        let needed = self.needs.get().unwrap_or(0.0);
        let millicores = amount::from_f64((cores * 1000.0).ceil());
        let bytes = amount::from_f64(bytes.max(needed).ceil());
        Some((Cpu::from_millicores(millicores), Memory::from_bytes(bytes)))
    }

    /// The steps of the recommendation for CPU and memory, without the result.
    pub(crate) fn explain(&self, method: &AutopilotMethod) -> [Vec<MethodStep>; 2] {
        let mut steps = match (&self.recommenders, method) {
            (Recommenders::MovingWindow(state), AutopilotMethod::MovingWindow(config)) => [
                state.cpu.explain(&config.cpu_rule(), 1000.0, "millicores"),
                state.memory.explain(&config.memory_rule(), 1.0, "bytes"),
            ],
            (Recommenders::Ensemble(state), AutopilotMethod::Ensemble(config)) => [
                state
                    .cpu
                    .explain(config, Buckets::cpu(), 1000.0, "millicores"),
                state
                    .memory
                    .explain(config, Buckets::memory(), 1.0, "bytes"),
            ],
            _ => Default::default(),
        };
        if let Some(need) = self.needs.get() {
            let step = MethodStep::number("oom-need-of-last-hour", need, "bytes");
            steps[1].push(step);
        }
        steps
    }

    /// The window of this time, or a later open one. Closes the previous one.
    fn open_window(&mut self, method: &AutopilotMethod, at: Instant) -> &mut OpenWindow {
        let open = self.open.get_or_insert_with(|| OpenWindow::new(at));
        if let Some(closed) = open.advance(at) {
            match (&mut self.recommenders, method) {
                (Recommenders::MovingWindow(state), AutopilotMethod::MovingWindow(config)) => {
                    let (cpu, memory) = (config.cpu_rule(), config.memory_rule());
                    state.cpu.close(&cpu, closed.number, &closed.cpu);
                    state.memory.close(&memory, closed.number, &closed.memory);
                }
                (Recommenders::Ensemble(state), AutopilotMethod::Ensemble(config)) => {
                    state.cpu.close(config, &closed.cpu);
                    state.memory.close(config, &closed.memory);
                }
                // A history is created for its method and replaced with it.
                _ => {}
            }
            self.needs.forget_before(open.number);
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::config::MemoryRules;

    const MIB: f64 = 1_048_576.0;

    const METHODS: [fn() -> AutopilotMethod; 2] = [
        || {
            AutopilotMethod::MovingWindow(MovingWindowConfig {
                margin: Some(0.0),
                ..MovingWindowConfig::default()
            })
        },
        || AutopilotMethod::Ensemble(EnsembleConfig::default()),
    ];

    fn at(minute: i64) -> Instant {
        Timestamp::from_second(minute * 60).expect("a time").into()
    }

    fn add(history: &mut AutopilotHistory, method: &AutopilotMethod, minute: i64, megabytes: f64) {
        let seen = Observation::Usage {
            cpu: Some(Cpu::from_millicores(500)),
            memory: Some(Memory::from_bytes((megabytes * MIB) as i64)),
        };
        history.observe(method, 1, seen, at(minute));
    }

    fn memory(history: &AutopilotHistory) -> Option<i64> {
        history.recommend().map(|(_, memory)| memory.bytes())
    }

    fn bound(megabytes: f64) -> i64 {
        let buckets = Buckets::memory();
        buckets.end(buckets.find(megabytes * MIB)).ceil() as i64
    }

    #[test]
    fn the_first_recommendation_comes_when_the_first_window_is_over() {
        for method in METHODS.map(|method| method()) {
            let mut history = AutopilotHistory::new(&method);
            for minute in 0..5 {
                add(&mut history, &method, minute, 300.0);
                assert_eq!(history.recommend(), None, "{method:?}");
            }
            add(&mut history, &method, 5, 300.0);
            assert_eq!(memory(&history), Some(bound(300.0)), "{method:?}");
        }
    }

    #[test]
    fn an_oom_kill_counts_at_once_and_for_an_hour() {
        for method in METHODS.map(|method| method()) {
            let mut history = AutopilotHistory::new(&method);
            // A week, so that one peak does not decide.
            for window in 0..2016 {
                add(&mut history, &method, window * 5, 300.0);
            }
            let kill = 2016 * 5;
            add(&mut history, &method, kill, 300.0);
            let seen = Observation::Oom {
                request: Memory::from_bytes(100 << 20),
                rules: MemoryRules::default(),
            };
            history.observe(&method, 1, seen, at(kill));
            // Usage was above the request: 300 and 100 MiB.
            assert_eq!(memory(&history), Some(400 << 20), "{method:?}");
            for window in 1..12 {
                add(&mut history, &method, kill + window * 5, 300.0);
                let memory = memory(&history);
                assert!(memory >= Some(400 << 20), "{method:?}, window {window}");
            }
            for window in 12..36 {
                add(&mut history, &method, kill + window * 5, 300.0);
            }
            assert_eq!(memory(&history), Some(bound(300.0)), "{method:?}");
        }
    }
}
