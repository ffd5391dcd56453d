//! The state of one container of a hosted pod: the input of the pod's status.

use jiff::Timestamp;

use super::WaitingReason;

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Termination {
    /// Exit code; 128 plus the number after a signal.
    pub(super) exit_code: i32,
    /// Start of the process.
    pub(super) started_at: Timestamp,
    /// End of the process.
    pub(super) finished_at: Timestamp,
    /// `process://<pid>`.
    pub(super) container_id: String,
}

impl Termination {
    /// Whether the exit code is 0.
    pub(super) fn succeeded(&self) -> bool {
        self.exit_code == 0
    }
}

/// State as in `containerStatuses[].state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not running.
    Waiting(WaitingReason),
    /// Running since this time.
    Running(Timestamp),
    /// Ended.
    Terminated(Termination),
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) state: State,
    /// The previous run.
    pub(super) last: Option<Termination>,
    /// Starts after the first.
    pub(super) restart_count: i32,
    /// The startup probe has succeeded, if there is one.
    pub(super) started: bool,
    /// The readiness probe succeeds, if there is one.
    pub(super) ready: bool,
    /// `process://<pid>` of the latest run.
    pub(super) container_id: Option<String>,
    /// Process id while running.
    pub(super) pid: Option<u32>,
    /// Ended for good.
    pub(super) over: bool,
}

impl Report {
    /// A container that has not started yet.
    pub(super) fn waiting(initializing: bool) -> Self {
        let reason = if initializing {
            "PodInitializing"
        } else {
            "ContainerCreating"
        };
        Self {
            state: State::Waiting(WaitingReason {
                reason,
                message: String::new(),
            }),
            last: None,
            restart_count: 0,
            started: false,
            ready: false,
            container_id: None,
            pid: None,
            over: false,
        }
    }

    /// Records that it cannot start, or must wait.
    pub(super) fn wait(&mut self, problem: WaitingReason) {
        if let State::Terminated(termination) = &self.state {
            self.last = Some(termination.clone());
        }
        self.state = State::Waiting(problem);
        self.started = false;
        self.ready = false;
    }

    /// Records a start. A startup or readiness probe delays `started` and `ready`.
    pub(super) fn start(
        &mut self,
        now: Timestamp,
        pid: Option<u32>,
        startup_gate: bool,
        readiness_gate: bool,
    ) {
        if let State::Terminated(termination) = &self.state {
            self.last = Some(termination.clone());
        }
        self.restart_count += i32::from(self.last.is_some());
        self.state = State::Running(now);
        self.started = !startup_gate;
        self.ready = !startup_gate && !readiness_gate;
        self.container_id = pid.map(|pid| format!("process://{pid}"));
        self.pid = pid;
    }

    /// Records the end of the run.
    pub(super) fn end(&mut self, now: Timestamp, exit_code: i32) {
        let started_at = if let State::Running(started_at) = self.state {
            started_at
        } else {
            now
        };
        let container_id = self.container_id.clone().unwrap_or_default();
        self.state = State::Terminated(Termination {
            exit_code,
            started_at,
            finished_at: now,
            container_id,
        });
        self.started = false;
        self.ready = false;
        self.pid = None;
    }

    /// End of the latest finished run.
    pub(super) fn termination(&self) -> Option<&Termination> {
        match &self.state {
            State::Terminated(termination) => Some(termination),
            State::Waiting(_) | State::Running(_) => self.last.as_ref(),
        }
    }

    /// Whether it ended for good, with exit code 0.
    pub(super) fn succeeded(&self) -> bool {
        self.over && self.termination().is_some_and(Termination::succeeded)
    }
}

/// All containers of a pod, in the order of its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reports {
    /// Init containers.
    pub(super) init: Vec<Report>,
    /// All other containers.
    pub(super) main: Vec<Report>,
}

/// Index of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// An init container.
    Init(usize),
    /// Another container.
    Main(usize),
}

impl Reports {
    pub(super) fn waiting(init: usize, main: usize) -> Self {
        Self {
            init: vec![Report::waiting(true); init],
            main: vec![Report::waiting(init > 0); main],
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Report> {
        match slot {
            Slot::Init(index) => self.init.get(index),
            Slot::Main(index) => self.main.get(index),
        }
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Report> {
        match slot {
            Slot::Init(index) => self.init.get_mut(index),
            Slot::Main(index) => self.main.get_mut(index),
        }
    }

    /// Reports of all containers.
    pub(super) fn all(&self) -> impl Iterator<Item = &Report> {
        self.init.iter().chain(&self.main)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    #[test]
    fn a_crash_is_remembered_through_waiting_and_the_next_run() {
        let mut report = Report::waiting(false);
        report.start(at(1), Some(7), false, false);
        assert!(report.ready && report.started && report.restart_count == 0);
        report.end(at(2), 137);
        let crash = Termination {
            exit_code: 137,
            started_at: at(1),
            finished_at: at(2),
            container_id: "process://7".to_owned(),
        };
        assert_eq!(report.state, State::Terminated(crash.clone()));
        report.wait(WaitingReason {
            reason: "CrashLoopBackOff",
            message: String::new(),
        });
        assert_eq!(report.last, Some(crash.clone()));
        report.start(at(3), Some(8), false, true);
        assert_eq!(
            (
                report.restart_count,
                report.last.as_ref(),
                report.started,
                report.ready
            ),
            (1, Some(&crash), true, false)
        );
        report.end(at(4), 1);
        report.start(at(5), Some(9), true, true);
        assert_eq!(
            (report.restart_count, report.started, report.ready),
            (2, false, false)
        );
    }
}
