//! The state that requests change and read, and that the threads for memory and CPU follow.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::parameters::{MemoryParameters, Parameters};

pub(crate) struct State {
    started: Instant,
    started_unix_ms: u128,
    values: Mutex<Values>,
    changed: Condvar,
}

struct Values {
    target: MemoryTarget,
    /// Memory parameters, and the time from which they apply.
    delayed: Option<(Instant, MemoryParameters)>,
    held_mib: u64,
    /// The wanted amount that is or was held last, and the time since when.
    held: Option<(u64, u128)>,
    cpu_millicores: u64,
    /// Time that the work of a period took last.
    work_time: Duration,
    ready_after_seconds: u64,
    ignore_sigterm: bool,
    sigterm_at_unix_ms: Option<u128>,
}

/// The memory to hold as a function of time.
struct MemoryTarget {
    mib: u64,
    since: Instant,
    grow_mib_per_second: u64,
    max_mib: u64,
}

impl MemoryTarget {
    fn at(&self, now: Instant) -> u64 {
        let seconds = now.saturating_duration_since(self.since).as_secs();
        let grown = self.mib + self.grow_mib_per_second * seconds;
        grown.min(self.max_mib).max(self.mib)
    }

    fn apply(&mut self, parameters: MemoryParameters, now: Instant) {
        *self = Self {
            mib: parameters.mib.unwrap_or_else(|| self.at(now)),
            since: now,
            grow_mib_per_second: parameters
                .grow_mib_per_second
                .unwrap_or(self.grow_mib_per_second),
            max_mib: parameters.max_mib.unwrap_or(self.max_mib),
        };
    }

    /// The time of the next step of the growth.
    fn next_step(&self, now: Instant) -> Option<Instant> {
        let is_growing = self.grow_mib_per_second > 0 && self.at(now) < self.max_mib;
        let seconds = now.saturating_duration_since(self.since).as_secs();
        is_growing.then(|| self.since + Duration::from_secs(seconds + 1))
    }
}

impl Values {
    fn wanted_mib(&mut self, now: Instant) -> u64 {
        if let Some((at, parameters)) = self.delayed.take_if(|(at, _)| *at <= now) {
            self.target.apply(parameters, at);
        }
        self.target.at(now)
    }

    /// The part of the wanted CPU that one thread uses.
    fn millicores(&self, thread: u64) -> u64 {
        self.cpu_millicores.saturating_sub(1000 * thread).min(1000)
    }
}

impl Default for State {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            started: now,
            started_unix_ms: unix_ms(),
            values: Mutex::new(Values {
                target: MemoryTarget {
                    mib: 0,
                    since: now,
                    grow_mib_per_second: 0,
                    max_mib: u64::MAX,
                },
                delayed: None,
                held_mib: 0,
                held: None,
                cpu_millicores: 0,
                work_time: Duration::ZERO,
                ready_after_seconds: 0,
                ignore_sigterm: false,
                sigterm_at_unix_ms: None,
            }),
            changed: Condvar::new(),
        }
    }
}

impl State {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory parameters replace those that an earlier call delayed.
    pub(crate) fn apply(&self, parameters: &Parameters) {
        let mut values = self.values();
        let now = Instant::now();
        if parameters.memory != MemoryParameters::default() {
            values.wanted_mib(now);
            let at = now + Duration::from_secs(parameters.memory_after_seconds);
            values.delayed = Some((at, parameters.memory));
            values.wanted_mib(now);
        }
        if let Some(millicores) = parameters.cpu_millicores {
            values.cpu_millicores = millicores;
        }
        if let Some(seconds) = parameters.ready_after_seconds {
            values.ready_after_seconds = seconds;
        }
        if let Some(ignore) = parameters.ignore_sigterm {
            values.ignore_sigterm = ignore;
        }
        self.changed.notify_all();
    }

    /// Takes in the amount that is held, and waits until another one is wanted.
    pub(crate) fn wait_for_wanted_mib(&self, held_mib: u64) -> u64 {
        let mut values = self.values();
        values.held_mib = held_mib;
        loop {
            let now = Instant::now();
            let wanted = values.wanted_mib(now);
            if wanted != held_mib {
                return wanted;
            }
            if values.held.is_none_or(|(held, _)| held != wanted) {
                values.held = Some((wanted, unix_ms()));
                println!("load: holding {wanted} MiB");
            }
            let delayed = values.delayed.map(|(at, _)| at);
            let due = delayed
                .into_iter()
                .chain(values.target.next_step(now))
                .min();
            let wait = due.map_or(Duration::MAX, |due| due.saturating_duration_since(now));
            let woken = self.changed.wait_timeout(values, wait);
            values = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the wanted CPU needs this thread.
    pub(crate) fn wait_for_millicores(&self, thread: u64) -> u64 {
        let is_idle = |values: &mut Values| values.millicores(thread) == 0;
        let woken = self.changed.wait_while(self.values(), is_idle);
        woken
            .unwrap_or_else(PoisonError::into_inner)
            .millicores(thread)
    }

    pub(crate) fn set_work_time(&self, work_time: Duration) {
        self.values().work_time = work_time;
    }

    /// The state as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        let seconds = self.values().work_time.as_secs_f64();
        format!("load_work_seconds {seconds}\n")
    }

    /// Whether the program ignores the signal.
    pub(crate) fn receive_sigterm(&self) -> bool {
        let mut values = self.values();
        values.sigterm_at_unix_ms.get_or_insert_with(unix_ms);
        values.ignore_sigterm
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.started.elapsed() >= Duration::from_secs(self.values().ready_after_seconds)
    }

    /// The state as JSON. The time since when the wanted amount is held is null until it is.
    pub(crate) fn status(&self) -> String {
        let mut values = self.values();
        let wanted = values.wanted_mib(Instant::now());
        let held = values
            .held
            .filter(|(held, _)| *held == wanted && values.held_mib == wanted);
        let or_null = |ms: Option<u128>| ms.map_or_else(|| "null".to_owned(), |ms| ms.to_string());
        let fields = [
            ("started_unix_ms", self.started_unix_ms.to_string()),
            ("now_unix_ms", unix_ms().to_string()),
            ("held_mib", values.held_mib.to_string()),
            ("wanted_mib", wanted.to_string()),
            ("held_since_unix_ms", or_null(held.map(|(_, since)| since))),
            ("cpu_millicores", values.cpu_millicores.to_string()),
            ("sigterm_at_unix_ms", or_null(values.sigterm_at_unix_ms)),
        ];
        let fields = fields.map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}\n", fields.join(","))
    }
}

fn unix_ms() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_each_second_up_to_its_maximum() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut target = MemoryTarget {
            mib: 10,
            since: start,
            grow_mib_per_second: 5,
            max_mib: 22,
        };
        for (ms, wanted) in [
            (0, 10),
            (999, 10),
            (1000, 15),
            (2500, 20),
            (3000, 22),
            (9000, 22),
        ] {
            assert_eq!(target.at(at(ms)), wanted, "{ms}");
        }
        assert_eq!(target.next_step(at(1200)), Some(at(2000)));
        assert_eq!(target.next_step(at(3000)), None);
        let more = MemoryParameters {
            mib: Some(40),
            ..MemoryParameters::default()
        };
        target.apply(more, at(4000));
        assert_eq!(
            target.at(at(9000)),
            40,
            "more than the maximum does not grow"
        );
    }

    #[test]
    fn delayed_parameters_apply_when_they_are_due() {
        let state = State::default();
        let memory = |mib| MemoryParameters {
            mib: Some(mib),
            ..MemoryParameters::default()
        };
        let apply = |mib, memory_after_seconds| {
            let memory = memory(mib);
            state.apply(&Parameters {
                memory,
                memory_after_seconds,
                ..Parameters::default()
            });
        };
        let wanted = |seconds| {
            state
                .values()
                .wanted_mib(Instant::now() + Duration::from_secs(seconds))
        };
        apply(10, 0);
        apply(30, 60);
        assert_eq!(wanted(59), 10);
        assert_eq!(wanted(61), 30);
        apply(50, 60);
        apply(20, 0);
        assert_eq!(wanted(61), 20, "the later ones replace the delayed ones");
    }

    #[test]
    fn cpu_is_divided_among_as_many_threads_as_it_needs() {
        let state = State::default();
        for (millicores, parts) in [(0, [0; 3]), (250, [250, 0, 0]), (1500, [1000, 500, 0])] {
            state.apply(&Parameters {
                cpu_millicores: Some(millicores),
                ..Parameters::default()
            });
            assert_eq!(
                [0, 1, 2].map(|thread| state.values().millicores(thread)),
                parts
            );
        }
    }
}
