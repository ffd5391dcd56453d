//! Supervision of one component: starts it, and restarts it with a growing delay when it ends by
//! itself, while it should run. Components are ended with SIGKILL: their data are discarded, and a
//! test that stops one wants it gone.

use std::fs::OpenOptions;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::component::Component;
use crate::component_commands::CommandLine;
use crate::exec_wrapper;
use crate::node::namespaces::Children;
use crate::process_id::Process;
use crate::state_file::{Phase, Record, Status};

/// Restart delays: doubled from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DesiredState {
    Running,
    Stopped,
}

pub(crate) struct ComponentProcess {
    pub(crate) component: Component,
    pub(crate) command: CommandLine,
    pub(crate) record: Arc<watch::Sender<Record>>,
}

impl ComponentProcess {
    /// Follows the desired state until its sender is dropped, then ends the component.
    pub(crate) async fn keep(self, mut desired: watch::Receiver<DesiredState>) -> Result<()> {
        let mut pause = FIRST_PAUSE;
        loop {
            if desired
                .wait_for(|state| *state == DesiredState::Running)
                .await
                .is_err()
            {
                return Ok(());
            }
            let mut child = self.start()?;
            let ended = tokio::select! {
                ended = child.wait() => Some(ended.with_context(|| format!("wait for {}", self.component))?),
                _ = desired.wait_for(|state| *state == DesiredState::Stopped) => None,
            };
            if let Some(exit) = ended {
                self.publish_end(exit);
                tokio::select! {
                    () = sleep(pause) => {
                        pause = (pause * 2).min(LONGEST_PAUSE);
                        continue;
                    }
                    _ = desired.wait_for(|state| *state == DesiredState::Stopped) => {}
                }
            } else {
                child
                    .kill()
                    .await
                    .with_context(|| format!("end {}", self.component))?;
            }
            self.publish_stop();
            pause = FIRST_PAUSE;
        }
    }

    fn start(&self) -> Result<Child> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.command.log);
        let log = log.with_context(|| format!("open {}", self.command.log.display()))?;
        let errors = log.try_clone().context("share the log file")?;
        let mut command = exec_wrapper::command(
            &self.command.sandbox,
            self.command.mounts_of,
            &self.command.program,
        );
        command
            .args(&self.command.arguments)
            .current_dir(&self.command.folder);
        let _children = self.command.mounts_of.map(Children::start_in).transpose()?;
        let child = Command::from(command)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", self.component))?;
        let process = child.id().and_then(Process::find);
        self.publish(|status| {
            status.phase = Phase::Running;
            status.process = process;
        });
        Ok(child)
    }

    fn publish_end(&self, exit: ExitStatus) {
        tracing::warn!(component = %self.component, %exit, "component ended by itself; restarting it");
        self.publish(|status| {
            *status = Status {
                phase: Phase::BackingOff,
                process: None,
                restarts: status.restarts.saturating_add(1),
                last_exit: Some(exit.to_string()),
            };
        });
    }

    fn publish_stop(&self) {
        self.publish(|status| {
            status.phase = Phase::Stopped;
            status.process = None;
        });
    }

    fn publish(&self, change: impl FnOnce(&mut Status)) {
        self.record
            .send_modify(|record| change(record.components.entry(self.component).or_default()));
    }
}

/// Suspends or resumes a running component.
pub(crate) fn freeze(
    record: &watch::Sender<Record>,
    component: Component,
    frozen: bool,
) -> Result<()> {
    let (signal, phase) = if frozen {
        (Signal::STOP, Phase::Paused)
    } else {
        (Signal::CONT, Phase::Running)
    };
    let process = record
        .borrow()
        .components
        .get(&component)
        .and_then(|status| status.process.clone());
    let process = process.with_context(|| format!("{component} does not run"))?;
    process.signal(signal);
    record.send_modify(|record| record.components.entry(component).or_default().phase = phase);
    Ok(())
}
