//! The state of one container of a hosted pod: the input of the pod's status.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::WaitingReason;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    /// As in `containerStatuses[].state`.
    pub(super) state: ContainerState,
    pub(super) last: Option<ContainerStateTerminated>,
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
        let mut report = Self::default();
        report.wait(WaitingReason {
            reason,
            message: String::new(),
        });
        report
    }

    /// Records that it cannot start, or must wait.
    pub(super) fn wait(&mut self, problem: WaitingReason) {
        self.last = self.termination().cloned();
        self.state = ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(problem.reason.to_owned()),
                message: Some(problem.message).filter(|message| !message.is_empty()),
            }),
            ..ContainerState::default()
        };
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
        self.last = self.termination().cloned();
        self.restart_count += i32::from(self.last.is_some());
        self.state = ContainerState {
            running: Some(ContainerStateRunning {
                started_at: Some(Time(now)),
            }),
            ..ContainerState::default()
        };
        self.started = !startup_gate;
        self.ready = !startup_gate && !readiness_gate;
        self.container_id = pid.map(|pid| format!("process://{pid}"));
        self.pid = pid;
    }

    /// Records the end of the run. The reason is "Error" for every exit code but 0: the cause of a kill
    /// is not known.
    pub(super) fn end(&mut self, now: Timestamp, exit_code: i32) {
        let running = self.state.running.take().unwrap_or_default();
        let reason = if exit_code == 0 { "Completed" } else { "Error" };
        self.state = ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code,
                reason: Some(reason.to_owned()),
                started_at: running.started_at.or(Some(Time(now))),
                finished_at: Some(Time(now)),
                container_id: Some(self.container_id.clone().unwrap_or_default()),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        };
        self.started = false;
        self.ready = false;
        self.pid = None;
    }

    pub(super) fn is_running(&self) -> bool {
        self.state.running.is_some()
    }

    /// End of the latest finished run.
    pub(super) fn termination(&self) -> Option<&ContainerStateTerminated> {
        self.state.terminated.as_ref().or(self.last.as_ref())
    }

    /// Whether it ended for good, with exit code 0.
    pub(super) fn succeeded(&self) -> bool {
        self.over && self.termination().is_some_and(|end| end.exit_code == 0)
    }
}

/// All containers of a pod, in the order of its spec.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reports {
    pub(super) init: Vec<Report>,
    /// All other containers.
    pub(super) main: Vec<Report>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Init(usize),
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
        let crash = ContainerStateTerminated {
            exit_code: 137,
            reason: Some("Error".to_owned()),
            started_at: Some(Time(at(1))),
            finished_at: Some(Time(at(2))),
            container_id: Some("process://7".to_owned()),
            ..ContainerStateTerminated::default()
        };
        assert_eq!(report.state.terminated, Some(crash.clone()));
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
